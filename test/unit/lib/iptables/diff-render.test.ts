import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { type Balance, vipChainName } from '../../../../lib/dialect.ts';
import { renderTables, renderRoute } from '../../../../lib/iptables/vip-rules.ts';
import { describe, test, expect } from '@jest/globals';

const vip = toEndpoint('10.0.0.50:6443');
const vip6 = toEndpoint('[fd00::50]:6443');
const backends = ['10.0.0.11:6443', '10.0.0.12:6443', '10.0.0.13:6443', '10.0.0.14:6443'].map(toEndpoint);
const direct: Balance = { vip, route: { kind: 'translate', backends }, masquerade: 'own' };
const passthrough: Balance = { ...direct, route: { kind: 'translate', backends: [] } };

const namesOf = (balances: readonly Balance[], table: 'nat' | 'filter') => [
  ...renderTables(balances)[table].chains.keys(),
];

describe('the chain of a VIP', () => {
  const clusterIp = { kind: 'translate', backends: [toEndpoint('[fd00:96::1]:443')] } as const;
  const dnat = (match: string, host: number) => {
    return { head: '-p tcp', tail: `${match}-m tcp -j DNAT --to-destination 10.0.0.${host}:6443` };
  };
  const cluster = (total: number, seed: string) =>
    `-m cluster --cluster-total-nodes ${total} --cluster-local-nodemask 0x00000001 --cluster-hash-seed 0x${seed} `;
  const toClusterIp = { head: '-p tcp', tail: '-m tcp -j DNAT --to-destination [fd00:96::1]:443' };

  test.each<[string, Balance, ReturnType<typeof renderRoute>]>([
    [
      'service-chain: a jump into it',
      { ...direct, route: { kind: 'jump', chain: 'KUBE-SVC-X' } },
      [{ head: '', tail: '-j KUBE-SVC-X' }],
    ],
    ['cluster-ip: a translation to it', { vip: vip6, route: clusterIp, masquerade: 'own' }, [toClusterIp]],
    [
      'direct: as likely as the others, and the last takes what is left (property/chances proves shares)',
      { ...direct, route: { kind: 'translate', backends: backends.slice(1, 3) } },
      [dnat('-m statistic --mode random --probability 0.5000000000 ', 12), dnat('', 13)],
    ],
    [
      'direct in turn: each rule takes every so many of what gets to it',
      { ...direct, route: { kind: 'translate', backends: backends.slice(0, 3), method: 'rr' } },
      [
        dnat('-m statistic --mode nth --every 3 --packet 0 ', 11),
        dnat('-m statistic --mode nth --every 2 --packet 0 ', 12),
        dnat('', 13),
      ],
    ],
    [
      "direct by the client's address: each rule takes its part of them",
      { ...direct, route: { kind: 'translate', backends: backends.slice(0, 3), method: 'hash' } },
      [dnat(cluster(3, '1df384e3'), 11), dnat(cluster(2, '103ed123'), 12), dnat('', 13)],
    ],
    ['passthrough: nothing', passthrough, []],
    ["passthrough with kube-proxy's mark: nothing", { ...passthrough, masquerade: 'kube-mark' }, []],
  ])('%s', (_, balance, rules) => {
    expect(renderRoute(balance)).toEqual(rules);
  });

  test("with kube-proxy's mark, the mark comes first", () => {
    const [mark] = renderRoute({ ...direct, masquerade: 'kube-mark' });
    expect(mark).toEqual({ head: '', tail: '-j KUBE-MARK-MASQ' });
  });

  test('has a name for each family, address and port, short enough for the kernel, and the same for ever', () => {
    const names = [vip, vip6, toEndpoint('10.0.0.50:8443'), toEndpoint('10.0.0.51:6443')].map(vipChainName);
    expect(new Set(names).size).toBe(names.length);
    for (const name of names) expect(name).toMatch(/^VIPNAT-[0-9a-f]{10}$/);
    // Another name would leave the connections of a running agent without rules for a moment when it is upgraded.
    expect(names[0]).toBe('VIPNAT-0a0335d65f');
  });
});

describe('the tables', () => {
  test('send what opens a connection to the VIP, and nothing else, into its chain, from both hooks', () => {
    const { nat } = renderTables([direct]);
    expect(nat.chains.get('VIPNAT')).toEqual([
      {
        head: '-d 10.0.0.50/32 -p tcp',
        tail: `-m tcp --dport 6443 --tcp-flags FIN,SYN,RST,ACK SYN -j ${vipChainName(vip)}`,
      },
    ]);
    expect(nat.hooks.filter(({ rule }) => rule.tail === '-j VIPNAT').map(({ chain }) => chain)).toEqual([
      'PREROUTING',
      'OUTPUT',
    ]);
  });

  test('masquerade and let through what was translated, told by where it wanted to go', () => {
    const { nat, filter } = renderTables([direct]);
    const match = '-m conntrack --ctstate DNAT --ctorigdst 10.0.0.50 --ctorigdstport 6443';
    expect(nat.chains.get('VIPNAT-POSTROUTING')).toEqual([
      { head: '-p tcp', tail: `${match} -j MASQUERADE --random-fully` },
    ]);
    expect(filter.chains.get('VIPNAT-FORWARD')).toEqual([{ head: '-p tcp', tail: `${match} -j ACCEPT` }]);
    expect(filter.hooks).toEqual([{ chain: 'FORWARD', rule: { head: '', tail: '-j VIPNAT-FORWARD' } }]);
  });

  test('drop replies that conntrack calls INVALID, of whoever may answer any of the VIPs, and nothing else', () => {
    const [first, second] = backends;
    const balances = [[second, first], [first]].map((apiservers): Balance => {
      return { ...direct, apiservers: apiservers.flatMap((one) => one ?? []) };
    });
    const { filter } = renderTables(balances);
    expect(filter.chains.get('VIPNAT-INPUT')).toEqual(
      ['10.0.0.11', '10.0.0.12'].map((address) => ({
        head: `-s ${address}/32 ! -i lo -p tcp`,
        tail: '-m tcp --sport 6443 -m conntrack --ctstate INVALID -j DROP',
      })),
    );
    expect(filter.hooks).toContainEqual({ chain: 'INPUT', rule: { head: '', tail: '-j VIPNAT-INPUT' } });
  });

  test('have no POSTROUTING chain when somebody else masquerades or nobody does', () => {
    for (const masquerade of ['kube-mark', 'none'] as const) {
      expect(namesOf([{ ...direct, masquerade }], 'nat')).not.toContain('VIPNAT-POSTROUTING');
      expect(renderTables([{ ...direct, masquerade }]).nat.hooks).toHaveLength(2);
    }
  });

  test('keep the empty chain of a VIP that is left to its holder: its connections go on being masqueraded', () => {
    expect(renderTables([passthrough]).nat.chains.get(vipChainName(vip))).toEqual([]);
    expect(namesOf([passthrough], 'nat')).toContain('VIPNAT-POSTROUTING');
  });

  test('are empty for no VIPs', () => {
    const { nat, filter } = renderTables([]);
    expect([nat, filter].map(({ chains, hooks }) => chains.size + hooks.length)).toEqual([0, 0]);
  });

  test('have what a chain refers to before it, so that a restore can write them from top to bottom', () => {
    expect(namesOf([direct], 'nat')).toEqual([vipChainName(vip), 'VIPNAT', 'VIPNAT-POSTROUTING']);
  });
});
