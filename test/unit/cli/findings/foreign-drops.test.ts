import { expect, test } from '@jest/globals';
import { findForeignDrops } from '../../../../cli/findings/foreign-drops.ts';
import { type ForwardChain } from '../../../../lib/kernel/port.ts';
import { lookOnce, restoreCaptures } from '../../../support/agent/captured-host.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';

const chains: ForwardChain[] = [
  { table: 'inet firewall', name: 'forward', isDropping: true },
  { table: 'inet polite', name: 'forward', isDropping: false },
  { table: 'ip filter', name: 'FORWARD', isDropping: true },
  { table: 'ip6 filter', name: 'FORWARD', isDropping: true },
  { table: 'ip filter', name: 'forward', isDropping: true },
  { table: 'ip6 filter', name: 'forward', isDropping: true },
  { table: 'ip vipnat', name: 'forward', isDropping: true },
];

async function namesAt(capture: string, hasIptables: boolean): Promise<string[]> {
  const kernel = restoreCaptures([capture]);
  kernel.hasIptables = hasIptables;
  return findForeignDrops(chains, await lookOnce(kernel, ordinaryConfig)).map(
    ({ table, name }) => `${table} ${name}`,
  );
}

test("chains of the VIP's family that drop and are not ours to write to are named", async () => {
  expect(await namesAt('nft-kube-proxy.three-endpoints.json', true)).toEqual([
    'inet firewall forward',
    // iptables has a chain of another name in that table.
    'ip filter forward',
  ]);
});

test("where no iptables is installed, iptables' own chain is one of them", async () => {
  expect(await namesAt('nft-kube-proxy.three-endpoints.json', false)).toEqual([
    'inet firewall forward',
    'ip filter FORWARD',
    'ip filter forward',
  ]);
});

test('what is not balanced is not dropped on its way', async () => {
  expect(await namesAt('nft-kube-proxy.no-endpoints.json', true)).toEqual([]);
});
