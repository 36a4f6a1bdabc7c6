/** A program that writes to nftables all the time, beside a kube-proxy with a thousand Services. */
import type { ChildProcess } from 'node:child_process';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { Cluster } from '../../support/network/cluster.ts';
import { vips } from '../../support/network/layout.ts';
import { startStranger, writeServices } from './busy-host.ts';
import { expectAnswers, expectBalanced, startProxies } from './traffic.ts';
import { type Agent, startAgent, waitUntil } from '../../support/host/vipnat.ts';

const client = { seat: 'outside client', host: vips.ipv4 } as const;

let cluster: Cluster;
let agent: Agent | null = null;
let stranger: ChildProcess | null = null;

beforeEach(async () => {
  cluster = await Cluster.create();
});

afterEach(async () => {
  stranger?.kill('SIGKILL');
  await agent?.stop('SIGKILL');
  [agent, stranger] = [null, null];
  await (cluster as Cluster | undefined)?.close();
});

const shell = (machine: string, script: string) =>
  cluster.namespaces.shell(cluster.namespaceOf(machine), script);

test('while a stranger commits 25 times a second, vipnat starts, repairs its rules and takes out a dead apiserver', async () => {
  await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
  await writeServices(cluster, 'm1');
  stranger = await startStranger(cluster, 'm1');
  const running = await startAgent(cluster, 'm1', ['--vip', vips.ipv4]);
  agent = running;
  const printChain = () => shell('m1', 'iptables-nft -t nat -S VIPNAT');
  await waitUntil(
    async () => (await printChain()).includes('-j VIPNAT-'),
    () => `no rules:\n${running.log}`,
  );
  await expectBalanced(cluster, client);
  // With iptables-nft-save neither ever came.
  await shell('m1', 'iptables-nft -t nat -F VIPNAT');
  await waitUntil(
    async () => (await printChain()).includes('-j VIPNAT-'),
    () => `no repair:\n${running.log}`,
  );
  const from = running.log.length;
  await shell('m3', 'iptables-nft -I INPUT -p tcp --dport 6443 -j REJECT --reject-with tcp-reset');
  await running.waitForLine(/ service-chain -> direct to /, from);
  await expectAnswers(cluster, client, ['m1', 'm2']);
  expect(running.listLines(/TOOL_TIMED_OUT/)).toEqual([]);
});
