import { vipArguments, useProxiedCluster, askPage, probeHeartbeat, readHeartbeat } from './traffic.ts';
import { describe, test, expect } from '@jest/globals';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { uptime } from 'node:os';
import { makeFolderEach } from '../../support/network/own-folder.ts';
import { Agent, vipnatCommand, startAgent, vipnat } from '../../support/host/vipnat.ts';
import { dumpRules } from '../../support/host/foreign-rules.ts';
import { isFull } from '../../support/jest/extent.ts';
import { sleep, waitUntil } from '../../support/jest/waiting.ts';

const waits = / waiting for /;
const takesOver = / vipnat takes over from the agent that ended, after /;
const serves = / (?:service-chain|direct to \S.*): /;
const cluster = useProxiedCluster('each test');
const folder = makeFolderEach('second');

/** What a pod has of its own, besides: each command in a namespace has its own mounts. */
const inPod = ['sh', '-ec', 'mount -t tmpfs tmpfs /dev/shm; exec "$@"', 'sh'];

/** Starts one more agent on m1, in a pod of this kind; answers once it waits. */
async function startWaiting(args: readonly string[] = [], pod = ''): Promise<Agent> {
  const files = ['--state-dir', join(folder.path, 'state'), '--run-dir', join(folder.path, 'run')];
  const command = [...inPod, ...vipnatCommand(['run', ...vipArguments, ...files, ...args])];
  const agent = new Agent(cluster.start('m1', command, { ...process.env, VIPNAT_POD: pod }));
  await agent.waitForLine(waits);
  return agent;
}

/** Ends the first, and answers how many milliseconds later the second has looked. */
async function handOver(first: Agent, second: Agent, signal: NodeJS.Signals): Promise<number> {
  const from = second.log.length;
  await first.stop(signal);
  const endedAt = performance.now();
  await second.waitForLine(serves, from);
  return performance.now() - endedAt;
}

const ask = (path: string) => askPage(cluster, path);

describe('a second agent', () => {
  test('says once whom it waits for, writes nothing, and ends with 0 when it is told to', async () => {
    const first = await startAgent(cluster, 'm1', vipArguments);
    const before = await dumpRules(cluster, 'm1');
    const second = await startWaiting(['--mode', 'direct']);
    // Longer than a holder lets a silent connection be.
    if (isFull) await sleep(6000);
    expect(second.listLines(waits)).toHaveLength(1);
    expect(second.log).toMatch(
      new RegExp(
        `waiting for another agent of this host to end: vipnat \\S+, since 20\\S+, pid ${first.pid} in its`,
      ),
    );
    expect(await dumpRules(cluster, 'm1')).toBe(before);
    expect(await second.stop()).toBe(0);
    const made = ['state', 'run'].filter((name) => existsSync(join(folder.path, name)));
    expect(made).toEqual([]);
    expect(await dumpRules(cluster, 'm1')).toBe(before);
  });

  test.each(['SIGTERM', 'SIGKILL'] as const)('takes over after %s, at its port too', async (signal) => {
    const first = await startAgent(cluster, 'm1', vipArguments);
    const second = await startWaiting(['--mode', 'direct']);
    const tookMs = await handOver(first, second, signal);
    process.stderr.write(`second-agent.test.ts: ${signal}: served after ${Math.round(tookMs)} ms\n`);
    expect(second.listLines(takesOver)).toHaveLength(1);
    expect(second.log).not.toContain('LISTEN_FAILED');
    expect(await ask('/healthz')).toBe('200 ok');
    expect(await vipnat(cluster, 'm1', ['check'])).toMatchObject({
      exitCode: 0,
      stderr: expect.stringContaining(`the running agent (pid ${second.pid})`),
    });
  });

  test('waits for one that hangs too, and for the next one where several wait', async () => {
    const first = await startAgent(cluster, 'm1', vipArguments);
    first.signal('SIGSTOP');
    const waiting = await Promise.all(['a', 'b', 'c'].map((pod) => startWaiting([], pod)));
    for (const agent of waiting) expect(agent.log).toContain('and does not answer');
    await first.stop('SIGKILL');
    const isServing = (agent: Agent) => agent.listLines(takesOver).length === 1;
    await waitUntil(() => waiting.some(isServing), 'nobody took over');
    const [winner] = waiting.filter(isServing);
    const others = waiting.filter((agent) => agent !== winner);
    for (const other of others)
      await other.waitForLine(new RegExp(`waiting for another agent .* pid ${winner?.pid} `));
    expect(waiting.filter(isServing)).toEqual([winner]);
    await winner?.stop('SIGKILL');
    await waitUntil(() => others.some(isServing), 'nobody took over from the second');
    await sleep(500);
    expect(others.filter(isServing)).toHaveLength(1);
    for (const other of others) expect(await other.stop()).toBe(0);
  });

  test('is alive and not ready for its kubelet, whoever has the port that both share', async () => {
    const first = await startAgent(cluster, 'm1', vipArguments);
    const second = await startWaiting([], 'daemonset');
    await waitUntil(async () => (await ask('/readyz')) === '200 ok', 'the agent is not ready');
    expect(await ask('/healthz?pod=daemonset')).toBe('200 ok');
    expect(await ask('/readyz?pod=daemonset')).toBe(
      '503 not ready: waiting for another agent, which runs on this host outside any pod',
    );
    expect(await ask('/metrics')).toContain('\nvipnat_waiting 0\n');
    await handOver(first, second, 'SIGTERM');
    await waitUntil(async () => (await ask('/readyz?pod=daemonset')) === '200 ok', 'the agent is not ready');
    expect(await ask('/readyz?pod=static-pod')).toBe(
      '503 not ready: waiting for another agent, which runs on this host from a daemonset',
    );
  });

  test('stays alive for its kubelet beside a frozen one of the same kind, and after it has taken over', async () => {
    const first = await startAgent(cluster, 'm1', vipArguments);
    first.signal('SIGSTOP');
    const [second, third] = [await startWaiting([], 'daemonset'), await startWaiting([], 'daemonset')];
    expect([await probeHeartbeat(second), await probeHeartbeat(third)]).toEqual([0, 0]);
    // curl gets no answer, as the kubelet does.
    expect(await ask('/readyz?pod=daemonset')).toBe('000 ');
    await first.stop('SIGKILL');
    await waitUntil(() => [second, third].some((agent) => serves.test(agent.log)), 'nobody took over');
    expect([await probeHeartbeat(second), await probeHeartbeat(third)]).toEqual([0, 0]);
    second.signal('SIGSTOP');
    const before = [readHeartbeat(second), readHeartbeat(third)];
    await waitUntil(() => readHeartbeat(third) > (before[1] ?? 0), 'the other one says nothing new');
    expect(readHeartbeat(second)).toBe(before[0]);
    expect(before[0]).toBeLessThanOrEqual(uptime() + 120);
    second.signal('SIGCONT');
  });

  test('answers by itself where the first has another port or none', async () => {
    await startAgent(cluster, 'm1', [...vipArguments, '--listen', 'off']);
    await startWaiting([], 'static-pod');
    await waitUntil(async () => (await ask('/healthz?pod=static-pod')) === '200 ok', 'nobody listens');
    expect(await ask('/readyz?pod=static-pod')).toMatch(
      /^503 not ready: waiting for another agent of this host to end: /,
    );
    expect(await ask('/metrics')).toContain('\nvipnat_waiting 1\n');
    expect(await ask('/status')).toMatch(/^503 /);
  });
});
