import { describe, expect, test } from '@jest/globals';
import { diffTable } from '../../../../../lib/netfilter/iptables/diff-table.ts';
import { signRules } from '../../../../../lib/netfilter/iptables/identity.ts';
import { type Balance, vipChainName } from '../../../../../lib/netfilter/rules/balance.ts';
import { renderTables } from '../../../../../lib/netfilter/iptables/render.ts';
import { type Table } from '../../../../../lib/netfilter/iptables/ruleset.ts';
import { toEndpoint } from '../../../../support/fakes/endpoints.ts';

const vip = toEndpoint('10.0.0.50:6443');
const backends = ['10.0.0.11:6443', '10.0.0.12:6443'].map(toEndpoint);
const balance: Balance = { vip, route: { kind: 'translate', backends }, masquerade: 'own' };
const wanted = renderTables('ipv4', [balance]).nat;
const context = { balances: [balance], isKnownRendering: () => false };
const kubeHook = '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES';

/** The nat table right after a write, with kube-proxy's hook behind ours. */
function inSync(): Map<string, string[]> {
  const own = [...wanted.chains].map(
    ([chain, rules]) => [chain, signRules(chain, rules).map(({ text }) => text)] as [string, string[]],
  );
  const hooks = wanted.hooks.map(
    ({ chain, rule }) => [chain, [signRules(chain, [rule])[0]?.text ?? '', kubeHook]] as [string, string[]],
  );
  return new Map([...own, ...hooks, ['INPUT', []]]);
}

function editChain(chain: string, edit: (rules: string[]) => string[]): Table {
  const table = inSync();
  table.set(chain, edit(table.get(chain) ?? []));
  return table;
}

const kinds = (table: Table) => diffTable(wanted, table, context).drift.map(({ kind }) => kind);

test('a table as written needs nothing', () => {
  expect(diffTable(wanted, inSync(), context)).toEqual({ drift: [], changes: [] });
});

test('an empty table gets everything, chains before what refers to them', () => {
  const { changes } = diffTable(wanted, undefined, context);
  expect(changes.map(({ kind }) => kind)).toEqual([
    ...Array<string>(3).fill('reset-chain'),
    ...Array<string>(4).fill('append'),
    ...Array<string>(3).fill('insert'),
  ]);
});

describe('drift of the hooks', () => {
  test('a deleted hook is missed', () => {
    expect(kinds(editChain('PREROUTING', () => [kubeHook]))).toEqual(['missing-hook']);
  });

  test("a hook behind kube-proxy's is moved before it, by value and without an index", () => {
    const table = editChain('PREROUTING', ([hook = '']) => [kubeHook, hook]);
    const { drift, changes } = diffTable(wanted, table, context);
    expect(drift).toMatchObject([{ kind: 'hook-behind-rival', rule: kubeHook }]);
    expect(changes.map(({ kind }) => kind)).toEqual(['delete', 'insert']);
  });

  test('a hook behind a rule that takes nothing from it stays where it is', () => {
    expect(kinds(editChain('PREROUTING', (rules) => ['-j LOG', ...rules]))).toEqual([]);
  });

  test('a second hook goes', () => {
    const table = editChain('OUTPUT', ([hook = '']) => [hook, hook]);
    const { drift, changes } = diffTable(wanted, table, context);
    expect(drift).toMatchObject([{ kind: 'surplus-hook' }]);
    expect(changes.map(({ kind }) => kind)).toEqual(['delete', 'delete', 'insert']);
  });

  test('a narrowed hook is replaced', () => {
    const table = editChain('OUTPUT', ([hook = '', ...rest]) => [`-s 10.1.1.1/32 ${hook}`, ...rest]);
    expect(kinds(table)).toEqual(['edited-rule', 'missing-hook']);
  });
});

describe('drift of a chain of ours', () => {
  const chain = vipChainName(vip);

  test.each<[string, string, (rules: string[]) => string[]]>([
    ['flushed', 'missing-rule', () => []],
    ['with a strange rule in front', 'strange-rule', (rules) => ['-j RETURN', ...rules]],
    ['with an edited rule', 'edited-rule', ([first = '', ...rest]) => [`-s 10.1.1.1/32 ${first}`, ...rest]],
    ['reordered', 'edited-rule', (rules) => rules.reverse()],
    ['with a rule twice', 'edited-rule', ([first = '', ...rest]) => [first, first, ...rest]],
    [
      'with rules of an older decision',
      'outdated-rule',
      () => ['-m comment --comment "vipnat:old" -j ACCEPT'],
    ],
  ])('%s: it is rewritten whole', (_what, kind, edit) => {
    const { drift, changes } = diffTable(wanted, editChain(chain, edit), context);
    expect(drift.map((part) => part.kind)).toContain(kind);
    expect(changes.map((change) => change.kind)).toEqual(['reset-chain', 'append', 'append']);
  });

  test('a strange rule is named', () => {
    const { drift } = diffTable(
      wanted,
      editChain(chain, (rules) => [...rules, '-j DROP']),
      context,
    );
    expect(drift[0]?.message).toBe(`a foreign rule is in ${chain}: -j DROP`);
  });

  test('a print that the tool is known for is no drift', () => {
    const table = editChain(chain, ([first = '', ...rest]) => [`${first} --random-fully`, ...rest]);
    const isKnownRendering = (_id: string, printed: string) => printed.endsWith('--random-fully');
    expect(diffTable(wanted, table, { ...context, isKnownRendering }).drift).toEqual([]);
  });
});

test('chains and hooks of other versions go, chains last, and foreign rules are not mentioned', () => {
  const table = inSync();
  table.set('VIPNAT-OLD', ['-m comment --comment "vipnat:old" -j RETURN']);
  table.set('INPUT', ['-j ACCEPT', '-m comment --comment "vipnat:old" -j VIPNAT-OLD']);
  const { changes } = diffTable(wanted, table, context);
  expect(changes).toEqual([
    { kind: 'reset-chain', chain: 'VIPNAT-OLD', exists: true },
    { kind: 'delete', chain: 'INPUT', rule: '-m comment --comment "vipnat:old" -j VIPNAT-OLD' },
    { kind: 'delete-chain', chain: 'VIPNAT-OLD' },
  ]);
});

test('wanting nothing removes everything of ours and nothing else', () => {
  const nothing = renderTables('ipv4', []).nat;
  const { changes } = diffTable(nothing, inSync(), context);
  expect(changes.filter(({ kind }) => kind === 'delete-chain')).toHaveLength(3);
  expect(changes.filter(({ kind }) => kind === 'delete')).toHaveLength(3);
  expect(JSON.stringify(changes)).not.toContain('KUBE-');
});
