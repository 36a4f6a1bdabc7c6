import { type Diff, type NftChange, vipChainName, affinityName } from '../../../../lib/dialect.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { type TableBalance, renderNftTable } from '../../../../lib/nft/vip-rules.ts';
import { FakeNft } from '../../../support/fakes/nft.ts';
import { diffNftTable, parseNftTable, declareMemory } from '../../../../lib/nft/table.ts';
import type { NftTableOutput } from '../../../../lib/kernel/port.ts';
import { expect, describe, test } from '@jest/globals';

const vip = toEndpoint('10.0.0.50:6443');
const backends = ['10.0.0.11:6443', '10.0.0.12:6443', '10.0.0.13:6443'].map(toEndpoint);
const three: TableBalance = { vip, backends, masquerade: 'own', affinitySeconds: null };
const sticky: TableBalance = { ...three, affinitySeconds: 10_800 };
const other: TableBalance = { ...three, vip: toEndpoint('10.0.0.51:6443') };
const chain = vipChainName(vip);

/** A kernel, and what of our table in it is not as wanted. */
class Host {
  readonly nft = new FakeNft();

  diff(balances: readonly TableBalance[]): Diff<NftChange> {
    const output: NftTableOutput = { family: 'ipv4', text: this.nft.list('ip vipnat') };
    const pair = {
      family: 'ipv4',
      wanted: renderNftTable('ipv4', balances),
      seen: parseNftTable(output).table,
    } as const;
    return diffNftTable(pair, () => false);
  }

  /** Makes it as wanted, and answers what was done for it. */
  converge(balances: readonly TableBalance[]): Diff<NftChange> {
    const diff = this.diff(balances);
    this.nft.run(diff.changes.map(({ command }) => command).join('\n'));
    expect(this.diff(balances)).toEqual({ drift: [], changes: [] });
    return diff;
  }
}

const kindsOf = ({ changes }: Diff<NftChange>) => [...new Set(changes.map(({ kind }) => kind))];
const messagesOf = ({ drift }: Diff<NftChange>) => drift.map(({ message }) => message);

const withoutForward = 'flush chain ip vipnat forward\ndelete chain ip vipnat forward';

describe('our table', () => {
  test('goes as a whole when there are no VIPs', () => {
    const host = new Host();
    host.converge([three]);
    expect(host.converge([]).changes.map(({ command }) => command)).toEqual(['delete table ip vipnat']);
    expect(host.nft.list('ip vipnat')).toBe('');
  });

  test('has only the one chain filled anew when an apiserver comes or goes: hooks stay (I12)', () => {
    const host = new Host();
    host.converge([three, other]);
    const diff = host.converge([{ ...three, backends: backends.slice(1) }, other]);
    expect(kindsOf(diff)).toEqual(['flush-chain', 'add-rule']);
    expect(new Set(diff.changes.map(({ name }) => name))).toEqual(new Set([chain]));
    expect(new Set(diff.drift.map(({ kind }) => kind))).toEqual(new Set(['outdated-rule', 'missing-rule']));
  });

  test('loses the chain of a VIP that is no longer wanted, after what referred to it', () => {
    const host = new Host();
    host.converge([three, other]);
    expect(messagesOf(host.converge([three]))).toContain(`${vipChainName(other.vip)} is left over`);
  });

  test.each([
    ['a rule was deleted', 'flush chain ip vipnat prerouting', 'prerouting lacks ip daddr 10.0.0.50'],
    [
      'a strange rule was added',
      'add rule ip vipnat output counter accept',
      'a foreign rule is in output: counter accept',
    ],
    ['a chain was deleted', withoutForward, 'chain forward does not exist'],
    ['a chain was added', 'add chain ip vipnat mine', 'mine is left over'],
    ['it was made dormant', 'add table ip vipnat { flags dormant; }', 'the table was set to dormant'],
    [
      'a hook is another',
      `${withoutForward}\nadd chain ip vipnat forward { type filter hook forward priority 7; policy drop; }`,
      'the hook of forward was edited: type filter hook forward priority 7; policy drop;',
    ],
  ])('is repaired, and says so, when %s', (_what, script, message) => {
    const host = new Host();
    host.converge([three]);
    host.nft.run(script);
    expect(messagesOf(host.converge([three])).join('\n')).toContain(message);
  });

  test('is replaced whole when somebody put a map into it', () => {
    const host = new Host();
    host.converge([three]);
    const map = '\tmap mine {\n\t\ttype ipv4_addr : verdict\n\t}\n}\n';
    const text = host.nft.list('ip vipnat').trimEnd().replace(/\}$/, map);
    const wanted = renderNftTable('ipv4', [three]);
    const seen = parseNftTable({ family: 'ipv4', text }).table;
    const diff = diffNftTable({ family: 'ipv4', wanted, seen }, () => false);
    expect(messagesOf(diff)).toEqual(['a foreign object is in the table: map mine']);
    expect(diff.changes[0]?.command).toBe('delete table ip vipnat');
  });

  test('is repaired when a rule was edited that kept its comment', () => {
    const host = new Host();
    host.converge([three]);
    const rules = renderNftTable('ipv4', [three])?.chains.get(chain)?.rules ?? [];
    const edited = rules.map((rule) => `add rule ip vipnat ${chain} ${rule.replace('.11', '.99')}`);
    host.nft.run([`flush chain ip vipnat ${chain}`, ...edited].join('\n'));
    const { drift } = host.converge([three]);
    expect(drift).toMatchObject([{ kind: 'edited-rule', id: /"(vipnat:.*)"/.exec(rules[0] ?? '')?.[1] }]);
  });
});

describe('the places of clients', () => {
  test('of an apiserver that goes are forgotten, those of the others are kept', () => {
    const host = new Host();
    host.converge([sticky]);
    const diff = host.converge([{ ...sticky, backends: backends.slice(1) }]);
    const [dead, ...alive] = backends.map((backend) => affinityName(vip, backend));
    expect(diff.changes.filter(({ kind }) => kind === 'delete-set').map(({ name }) => name)).toEqual([dead]);
    expect(diff.changes.map(({ kind }) => kind)).not.toContain('delete-table');
    expect([
      ...(parseNftTable({ family: 'ipv4', text: host.nft.list('ip vipnat') }).table?.sets ?? []),
    ]).toEqual(alive.map((name) => [name, declareMemory('ipv4_addr', 10_800)]));
  });

  test('are begun anew when they are to be kept for another time', () => {
    const host = new Host();
    host.converge([sticky]);
    expect(kindsOf(host.converge([{ ...sticky, affinitySeconds: 60 }]))).toContain('delete-table');
  });
});
