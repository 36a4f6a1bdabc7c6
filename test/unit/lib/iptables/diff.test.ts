import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { type Balance, vipChainName } from '../../../../lib/dialect.ts';
import { renderTables } from '../../../../lib/iptables/vip-rules.ts';
import { signRules, type Table } from '../../../../lib/iptables/rules.ts';
import { diffTable } from '../../../../lib/iptables/diff.ts';
import { test, expect, describe } from '@jest/globals';

const vip = toEndpoint('10.0.0.50:6443');
const backends = ['10.0.0.11:6443', '10.0.0.12:6443'].map(toEndpoint);
const balance: Balance = { vip, route: { kind: 'translate', backends }, masquerade: 'own' };
const wanted = renderTables([balance]).nat;
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

describe('drift of the hooks', () => {
  test("a hook behind kube-proxy's is moved before it, by value and without an index", () => {
    const table = editChain('PREROUTING', ([hook = '']) => [kubeHook, hook]);
    const { drift, changes } = diffTable(wanted, table, context);
    expect(drift).toMatchObject([{ kind: 'hook-behind-foreign-rule', rule: kubeHook }]);
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
});

test.each<[string, (rules: string[]) => string[]]>([
  ['reordered', (rules) => rules.reverse()],
  ['with a rule twice', ([first = '', ...rest]) => [first, first, ...rest]],
])('a chain of ours, %s, is rewritten whole', (_what, edit) => {
  const { drift, changes } = diffTable(wanted, editChain(vipChainName(vip), edit), context);
  expect(drift.map(({ kind }) => kind)).toContain('edited-rule');
  expect(changes.map(({ kind }) => kind)).toEqual(['reset-chain', 'append', 'append']);
});
