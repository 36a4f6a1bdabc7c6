import {
  type TableBalance,
  renderNftTable,
  printNftTable,
  readNftInstalled,
} from '../../../../lib/nft/vip-rules.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import type { Family } from '../../../../lib/net.ts';
import { describe, test, expect } from '@jest/globals';
import { vipChainName } from '../../../../lib/dialect.ts';

const one: TableBalance = {
  vip: toEndpoint('10.0.0.50:6443'),
  backends: ['10.0.0.11:6443', '10.0.0.12:8443'].map(toEndpoint),
  masquerade: 'own',
  affinitySeconds: null,
};
const other: TableBalance = { ...one, vip: toEndpoint('10.0.0.51:6443'), masquerade: 'none' };
const six: TableBalance = {
  vip: toEndpoint('[fd00::50]:6443'),
  backends: [toEndpoint('[fd00::11]:6443')],
  masquerade: 'own',
  affinitySeconds: null,
};

function toScript(family: Family, balances: readonly TableBalance[]): string {
  const table = renderNftTable(family, balances);
  return table === null ? '' : printNftTable(family, table);
}

/** The statements of each chain, without indentation and the comments that sign them. */
function chainsOf(script: string): Map<string, string[]> {
  const chains = [...script.matchAll(/\tchain (\S+) \{\n([\s\S]*?)\n?\t\}/g)];
  return new Map(
    chains.map(([, name = '', body = '']) => [
      name,
      body.split('\n').flatMap((line) => line.trim().replace(/ comment "vipnat:\S{16}"$/, '') || []),
    ]),
  );
}

describe('an nftables table', () => {
  test('replaces what was there, also when nothing was', () => {
    expect(toScript('ipv4', [one]).split('\n').slice(0, 3)).toEqual([
      'table ip vipnat',
      'delete table ip vipnat',
      'table ip vipnat {',
    ]);
  });

  test('sends what opens a connection to a VIP to its chain, from other hosts and from this one', () => {
    const chains = chainsOf(toScript('ipv4', [one, other]));
    const opening = 'tcp flags & (fin | syn | rst | ack) == syn';
    const jumps = [one, other].map(
      ({ vip }) => `ip daddr ${vip.address} tcp dport 6443 ${opening} jump ${vipChainName(vip)}`,
    );
    expect(chains.get('prerouting')?.slice(1)).toEqual(jumps);
    expect(chains.get('output')?.slice(1)).toEqual(jumps);
  });

  test.each<[string, TableBalance, string]>([
    ['by chance', one, 'numgen random mod 2 0 dnat ip to 10.0.0.11:6443'],
    ['in turn', { ...one, method: 'rr' }, 'numgen inc mod 2 0 dnat ip to 10.0.0.11:6443'],
    [
      "by the client's address",
      { ...one, method: 'hash' },
      'jhash ip saddr mod 2 seed 0x1df384e3 0 dnat ip to 10.0.0.11:6443',
    ],
    [
      'by an address of IPv6',
      { ...six, method: 'hash', backends: ['[fd00::11]:6443', '[fd00::12]:8443'].map(toEndpoint) },
      'jhash ip6 saddr mod 2 seed 0x1f027e21 0 dnat ip6 to [fd00::11]:6443',
    ],
  ])('chooses among the backends %s, each with its own port, and whom is read back', (_, balance, first) => {
    const { family } = balance.vip;
    const rules = chainsOf(toScript(family, [balance])).get(vipChainName(balance.vip));
    const last = family === 'ipv6' ? 'ip6 to [fd00::12]:8443' : 'ip to 10.0.0.12:8443';
    expect(rules).toEqual([first, `dnat ${last}`].map((rule) => `meta l4proto tcp ${rule}`));
    const installed = readNftInstalled(renderNftTable(family, [balance]), balance.vip);
    expect(installed).toEqual({ backends: balance.backends, affinitySeconds: null });
  });

  test('comes before the chains of kube-proxy and iptables', () => {
    const chains = chainsOf(toScript('ipv4', [one]));
    const priorityOf = (name: string) => Number(/ priority (-?\d+);/.exec(chains.get(name)?.[0] ?? '')?.[1]);
    expect(priorityOf('prerouting')).toBeLessThan(-100);
    expect(priorityOf('output')).toBeLessThan(-100);
    expect(priorityOf('postrouting')).toBeLessThan(100);
    expect(priorityOf('forward')).toBeLessThan(0);
  });

  test('masquerades the VIPs for which it shall, and lets all through', () => {
    const chains = chainsOf(toScript('ipv4', [one, other]));
    const match = (address: string) =>
      `meta l4proto tcp ct status dnat ct original ip daddr ${address} ct original proto-dst 6443`;
    expect(chains.get('postrouting')?.slice(1)).toEqual([`${match('10.0.0.50')} masquerade fully-random`]);
    expect(chains.get('forward')?.slice(1)).toEqual([50, 51].map((at) => `${match(`10.0.0.${at}`)} accept`));
  });

  test('without backends leaves the VIP to its holder: its chain is there and empty', () => {
    expect(chainsOf(toScript('ipv4', [{ ...one, backends: [] }])).get(vipChainName(one.vip))).toEqual([]);
  });

  test('without VIPs is none', () => {
    expect(renderNftTable('ipv6', [])).toBeNull();
  });
});
