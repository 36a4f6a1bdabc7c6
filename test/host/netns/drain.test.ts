import { jest, expect, test } from '@jest/globals';
import { limitMs, type Agent, startAgent, vipnat } from '../../support/host/vipnat.ts';
import { vips, masters } from '../../support/network/layout.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { join } from 'node:path';
import { locateDisk } from '../../support/network/namespaces.ts';
import { waitUntil, sleep } from '../../support/jest/waiting.ts';
import {
  expectAnswers,
  expectBalanced,
  client,
  endpoints,
  expectUnharmed,
  heldConnections,
} from './traffic.ts';
import { isFull } from '../../support/jest/extent.ts';
import { existsSync } from 'node:fs';

jest.setTimeout(2 * limitMs);

// The steps of an apiserver that was dead are told at this level only.
const args = ['--vip', vips.ipv4, '--endpoints', endpoints, '--log-level', 'debug'];
const drained = /10\.77\.0\.12:6443 is draining/;
const back = /10\.77\.0\.12:6443 is ready again/;

let agents: Map<string, Agent>;

const cluster = useCluster('each test', async () => {
  agents = new Map();
  for (const { name } of masters) agents.set(name, await startAgent(cluster, name, args));
});

const run = (name: string, ...words: readonly string[]) => vipnat(cluster, name, words);
const listTable = (name: string) => cluster.shell(name, 'nft -n list table inet vipnat-drain 2>&1 || true');
const locateFile = (name: string) => join(locateDisk(cluster.namespaceOf(name)), 'vipnat/drained');

function agentOf(name: string): Agent {
  const agent = agents.get(name);
  if (agent === undefined) throw new Error(`no agent on ${name}`);
  return agent;
}

const countWrites = (name: string) => agentOf(name).listLines(/wrote the table vipnat-drain/).length;

/** A repair is told once the tool has ended. */
async function waitForWrites(name: string, count: number): Promise<void> {
  await waitUntil(
    () => countWrites(name) >= count,
    () => `${countWrites(name)} writes instead of ${count}:\n${agentOf(name).log}`,
  );
}

/** Drains m2, and waits until the VIP's holder has seen it. */
async function drainSecond(): Promise<void> {
  const from = agentOf('m1').log.length;
  expect(await run('m2', 'drain')).toMatchObject({
    exitCode: 0,
    stderr: expect.stringMatching(/ is drained since 20\d\d-[^\n]*\n.*\n.*vipnat undrain$/),
  });
  await agentOf('m1').waitForLine(drained, from);
  await agentOf('m1').waitForLine(/now direct to 10\.77\.0\.11:6443, 10\.77\.0\.13:6443:/, from);
}

test('a drained master gets no new connection and keeps its open ones, also while its agent is killed and another one starts', async () => {
  const { report } = await cluster
    .seat('outside client')
    .hold({ host: vips.ipv4, port: 6443 }, heldConnections, limitMs);
  await drainSecond();
  const pod = { seat: 'pod on a worker', host: vips.ipv4 } as const;
  await expectAnswers(cluster, pod, ['m1', 'm3'], 60);

  const from = agentOf('m1').log.length;
  await agentOf('m2').stop('SIGKILL');
  expect(await listTable('m2')).toContain('tcp dport 6443 tcp sport 600-1023 reject');
  agents.set('m2', await startAgent(cluster, 'm2', args));
  await agentOf('m2').waitForLine(/this host is drained since 20\d\d-/);
  // Two checks of the drain, and all probes.
  await sleep(4500);
  expect(agentOf('m1').log.slice(from)).not.toMatch(back);
  await expectAnswers(cluster, pod, ['m1', 'm3'], 60);

  cluster.seat('outside client').settle();
  expectUnharmed(await report);

  expect(await run('m2', 'undrain')).toMatchObject({
    exitCode: 0,
    stderr: expect.stringContaining('is no longer drained'),
  });
  expect(await listTable('m2')).toContain('No such file or directory');
  await agentOf('m1').waitForLine(back, from);
  await agentOf('m1').waitForLine(/now direct to \S+, 10\.77\.0\.12:6443,/, from);
  await expectBalanced(cluster, client);
});

if (isFull)
  test('a master that was rebooted while it is drained never counts as ready', async () => {
    await drainSecond();
    const from = agentOf('m1').log.length;
    await cluster.apiserver('m2').kill();
    await agentOf('m2').stop('SIGKILL');
    await cluster.shell('m2', 'nft flush ruleset');
    agents.set('m2', await startAgent(cluster, 'm2', args));
    await waitUntil(
      async () => (await listTable('m2')).includes('tcp dport 6443'),
      'the agent that started does not refuse drain checks',
    );
    await cluster.apiserver('m2').start();
    await agentOf('m1').waitForLine(drained, from);
    await sleep(4500);
    expect(agentOf('m1').log.slice(from)).not.toMatch(back);
    await expectAnswers(cluster, client, ['m1', 'm3'], 60);
  });

test('a rule that others edit, flush or delete is put back; in sync nothing is written; cleanup ends the drain', async () => {
  await drainSecond();
  const whole = await listTable('m2');
  const damages = [
    'nft delete table inet vipnat-drain',
    'nft flush chain inet vipnat-drain input',
    'nft add rule inet vipnat-drain input tcp dport 22 drop',
    "nft 'add chain inet vipnat-drain input { policy drop; }'",
    'nft add chain inet vipnat-drain other',
  ];
  for (const damage of damages) {
    await cluster.shell('m2', damage);
    await waitUntil(async () => (await listTable('m2')) === whole, `not repaired after: ${damage}`);
  }
  await waitForWrites('m2', 1 + damages.length);
  await cluster.shell('m2', 'nft add table inet strangers');
  await sleep(2000);
  expect(countWrites('m2')).toBe(1 + damages.length);

  expect((await run('m2', 'cleanup')).exitCode).toBe(1);
  expect(await listTable('m2')).toBe(whole);
  await agentOf('m2').stop();
  const { stdout } = await run('m2', 'cleanup', '--dry-run');
  expect(stdout).toContain('nft delete table inet vipnat-drain');
  expect(await run('m2', 'cleanup')).toMatchObject({
    exitCode: 0,
    stderr: expect.stringContaining(`removed the file ${locateFile('m2')}`),
  });
  expect(await listTable('m2')).toContain('No such file or directory');
  expect(existsSync(locateFile('m2'))).toBe(false);
});

if (isFull)
  test('all drained is as none drained; the last one is refused without --force, another host and a host without an agent always', async () => {
    expect(await run('m2', 'drain', '--dry-run')).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('tcp dport 6443 tcp sport 600-1023'),
    });
    expect(existsSync(locateFile('m2'))).toBe(false);
    expect(await listTable('m2')).toContain('No such file or directory');

    expect(await run('m2', 'drain', 'no-such-host')).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(/\[DRAIN_REFUSED\] .* Run vipnat drain on no-such-host$/),
    });
    // Two at once.
    const both = await Promise.all([run('m2', 'drain'), run('m3', 'drain')]);
    expect(both.map(({ exitCode }) => exitCode)).toEqual([0, 0]);
    await agentOf('m1').waitForLine(/now direct to 10\.77\.0\.11:6443:/);
    await expectAnswers(cluster, client, ['m1'], 30);
    expect(await run('m1', 'drain')).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('no apiserver on another host is ready'),
    });
    expect(existsSync(locateFile('m1'))).toBe(false);
    expect(await run('m1', 'drain', '--force')).toMatchObject({ exitCode: 0 });
    await agentOf('m1').waitForLine(/now direct to \S+, 10\.77\.0\.12:6443, 10\.77\.0\.13:6443:/);
    await expectBalanced(cluster, client);

    await agentOf('m3').stop();
    expect(await run('m3', 'drain')).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('no agent that can drain runs on this host'),
    });
    // Without an agent, undrain removes the rule itself.
    expect(await run('m3', 'undrain')).toMatchObject({ exitCode: 0 });
    expect(await listTable('m3')).toContain('No such file or directory');
  });
