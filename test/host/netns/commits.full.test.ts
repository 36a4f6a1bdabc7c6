/** A program that writes to nftables all the time, beside a kube-proxy with a thousand Services. */
import { expect, test } from '@jest/globals';
import { useCluster } from '../../support/network/use-cluster.ts';
import { vips } from '../../support/network/layout.ts';
import { startStranger, writeServices } from './busy-host.ts';
import { expectAnswers, expectBalanced, startProxies, client } from './traffic.ts';
import { startAgent, waitUntil } from '../../support/host/vipnat.ts';

const cluster = useCluster('each test');

test('while a stranger commits 25 times a second, vipnat starts, repairs its rules and takes out a dead apiserver', async () => {
  await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
  await writeServices(cluster, 'm1');
  await startStranger(cluster, 'm1');
  const agent = await startAgent(cluster, 'm1', ['--vip', vips.ipv4]);
  const printChain = () => cluster.shell('m1', 'iptables-nft -t nat -S VIPNAT');
  await waitUntil(async () => (await printChain()).includes('-j VIPNAT-'), 'no rules');
  await expectBalanced(cluster, client);
  // With iptables-nft-save neither ever came.
  await cluster.shell('m1', 'iptables-nft -t nat -F VIPNAT');
  await waitUntil(async () => (await printChain()).includes('-j VIPNAT-'), 'no repair');
  const from = agent.log.length;
  await cluster.shell('m3', 'iptables-nft -I INPUT -p tcp --dport 6443 -j REJECT --reject-with tcp-reset');
  await agent.waitForLine(/ service-chain -> direct to /, from);
  await expectAnswers(cluster, client, ['m1', 'm2']);
  expect(agent.listLines(/TOOL_TIMED_OUT/)).toEqual([]);
});
