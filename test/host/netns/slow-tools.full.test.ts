import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { useCluster } from '../../support/network/use-cluster.ts';
import { vips } from '../../support/network/layout.ts';
import { dumpRules } from '../../support/host/foreign-rules.ts';
import { useShims } from '../../support/host/shims.ts';
import { expectAnswers, startProxies } from './traffic.ts';
import { type Agent, startAgent, waitForSync, waitUntil } from '../../support/host/vipnat.ts';

const vipArguments = ['--vip', vips.ipv4];
const client = { seat: 'outside client', host: vips.ipv4 } as const;
const refusal = '-I INPUT -p tcp --dport 6443 -j REJECT --reject-with tcp-reset';

let agent: Agent;
const shims = useShims();

const cluster = useCluster('all tests', async () => {
  await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
});

beforeEach(async () => {
  // Each leaves a file that says how far it has come.
  const folder = shims.onlyPath;
  shims.replaceLater('iptables-nft-save', `: >${folder}/reading; sleep 2`);
  agent = await startAgent(cluster, 'm1', vipArguments, { ...process.env, PATH: shims.path });
  await waitForSync(cluster, 'm1', vipArguments);
});

afterEach(async () => {
  await (agent as Agent | undefined)?.stop();
  await treat('m3', '-F INPUT');
});

const treat = (machine: string, rule: string) => cluster.shell(machine, `iptables-nft ${rule}`);

/** Waits until a shim has left this file. */
const waitForFile = (name: string) =>
  waitUntil(
    () => existsSync(join(shims.onlyPath, name)),
    () => `no shim left ${name}:\n${agent.log}`,
  );

test('SIGTERM while a look reads slowly lets no dead apiserver in (I8)', async () => {
  await treat('m3', refusal);
  await agent.waitForLine(/service-chain -> direct to /);
  await waitForSync(cluster, 'm1', vipArguments);
  const rules = await dumpRules(cluster, 'm1');
  shims.breakNow();
  await cluster.shell('m1', 'nft add table ip stranger; nft delete table ip stranger');
  await waitForFile('reading');
  expect(await agent.stop('SIGTERM')).toBe(0);
  expect(await dumpRules(cluster, 'm1')).toBe(rules);
  await expectAnswers(cluster, client, ['m1', 'm2']);
  const lines = agent.listLines(/./);
  const [said, ...more] = lines.slice(lines.findIndex((line) => line.includes('SIGTERM')));
  expect(said).toContain('SIGTERM: vipnat stops. Its rules stay');
  expect(more).toEqual([expect.stringContaining('the local route of')]);
});
