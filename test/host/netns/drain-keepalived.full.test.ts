import { jest, expect, test } from '@jest/globals';
import { limitMs, type Agent, startAgent, vipnat } from '../../support/host/vipnat.ts';
import { KeepalivedHosts } from './keepalived-hosts.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { expectAnswers, client, bothVips, allEndpoints } from './traffic.ts';
import { sleep, waitUntil } from '../../support/jest/waiting.ts';

jest.setTimeout(4 * limitMs);

const [holder, other] = ['m1', 'm2'] as const;
const args = [...bothVips, '--endpoints', allEndpoints];
const vacant = /no other host has taken \S+: this host may hold it until vipnat undrain/;

/** As long as two silences that count. */
const quietMs = 16_000;

let keepaliveds: KeepalivedHosts;
let agent: Agent;

const cluster = useCluster('each test', async () => {
  keepaliveds = new KeepalivedHosts(cluster, args);
  await keepaliveds.prepare(holder);
  await keepaliveds.prepare(other);
  agent = await startAgent(cluster, holder, args);
  await startAgent(cluster, other, args);
  keepaliveds.start(holder);
  await keepaliveds.waitForVips(holder);
  // The apiserver of the other master takes connections.
  await expectAnswers(cluster, client, ['m1', 'm2', 'm3'], 60);
});

const run = async (command: string) => {
  expect(await vipnat(cluster, holder, [command])).toMatchObject({ exitCode: 0 });
};

async function readDrained(): Promise<string> {
  const { stdout } = await vipnat(cluster, holder, ['status', ...args]);
  return stdout.replaceAll(/\s+/g, ' ');
}

test('where no other keepalived runs, the VIPs come back to the drained holder, and stay also with its next agent until undrain', async () => {
  await run('drain');
  await keepaliveds.waitForVips(holder, false);
  const goneAt = performance.now();
  await keepaliveds.waitForVips(holder);
  process.stderr.write(`drain-keepalived: no holder for ${Math.round(performance.now() - goneAt)} ms\n`);
  expect(agent.listLines(vacant)).toHaveLength(1);
  expect(await readDrained()).toContain('the VIP may stay: no other host took it');
  // The drain itself goes on.
  await expectAnswers(cluster, client, ['m2', 'm3'], 60);

  await agent.stop('SIGKILL');
  agent = await startAgent(cluster, holder, args);
  await agent.waitForLine(/the VIP may stay, because no other host took it/);
  keepaliveds.start(other);
  await sleep(quietMs);
  await keepaliveds.waitForVips(holder);
  expect(agent.listLines(vacant)).toEqual([]);

  await run('undrain');
  await run('drain');
  await keepaliveds.waitForVips(other);
  await sleep(quietMs);
  await keepaliveds.waitForVips(holder, false);
  expect(agent.listLines(vacant)).toEqual([]);
  await expectAnswers(cluster, client, ['m2', 'm3'], 60);
});

test('a drained host takes the VIPs of a holder that dies, where nobody else does', async () => {
  const second = keepaliveds.start(other);
  await keepaliveds.waitForBackup(second);
  await run('drain');
  await keepaliveds.waitForVips(other);
  await sleep(quietMs);
  expect(agent.listLines(vacant)).toEqual([]);
  second.kill('SIGTERM');
  await keepaliveds.waitForVips(holder);
  await waitUntil(() => agent.listLines(vacant).length === 1, 'not told');
});
