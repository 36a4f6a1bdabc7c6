import { vips } from '../../support/network/layout.ts';
import { vipArguments, useProxiedCluster, askPage } from './traffic.ts';
import { test, expect } from '@jest/globals';
import { startAgent, limitMs, vipnat, vipnatCommand } from '../../support/host/vipnat.ts';
import { quoteWords } from '../../../lib/text.ts';
import { stripVTControlCharacters } from 'node:util';

const connections = 30;
const cluster = useProxiedCluster('each test');

test('status tells of the holder, the way, each apiserver with its connections, and the agent, and exits with 0', async () => {
  const agent = await startAgent(cluster, 'm1', vipArguments);
  const target = { host: vips.ipv4, port: 6443 };
  const { report } = await cluster.seat('outside client').hold(target, connections, limitMs);
  const { exitCode, stdout } = await vipnat(cluster, 'm1', ['status', '--json', ...vipArguments]);
  const { vips: told, agent: running } = JSON.parse(stdout) as {
    agent: object;
    vips: { held: boolean; mode: string; backends: { state: string; since: string; flows: number }[] }[];
  };
  expect([exitCode, running]).toEqual([0, { running: true, pid: agent.pid, since: expect.any(String) }]);
  expect(told).toMatchObject([{ held: true, mode: 'service-chain' }]);
  const backends = told.flatMap((vip) => vip.backends);
  expect(backends.map(({ state }) => state)).toEqual(['ready', 'ready', 'ready']);
  expect(backends.every(({ since }) => !Number.isNaN(Date.parse(since)))).toBe(true);
  expect(backends.reduce((sum, { flows }) => sum + flows, 0)).toBe(connections);
  expect(await askPage(cluster, '/healthz')).toBe('200 ok');
  const served = JSON.parse((await askPage(cluster, '/status')).slice(4)) as object;
  // The agent says nothing of Services.
  expect([...Object.keys(served), 'balancer']).toEqual(Object.keys(JSON.parse(stdout) as object));
  expect(served).toMatchObject({
    agent: running,
    inSync: true,
    vips: [{ held: true, mode: 'service-chain' }],
  });
  cluster.seat('outside client').settle();
  await report;
  await agent.stop();
});

test('status --watch ends when nobody reads it any more, also while it waits for the next screen', async () => {
  const namespace = cluster.namespaceOf('m1');
  for (const watch of ['--watch', '--watch=600']) {
    const command = quoteWords(vipnatCommand(['status', watch, ...vipArguments]));
    const script = `timeout 100 ${command} | head -1; echo "status \${PIPESTATUS[0]}"`;
    const { stdout, stderr } = await cluster.namespaces.run(namespace, ['bash', '--norc', '-c', script]);
    expect([stdout.split('\n').slice(1).join('\n'), stderr]).toEqual(['status 141', '']);
  }
});

/** What a command shows on a terminal of so many columns on m1. */
async function show(columns: number, words: readonly string[], environment: string[] = []): Promise<string> {
  const command = quoteWords(['env', '-u', 'COLUMNS', 'TERM=xterm', ...environment, ...vipnatCommand(words)]);
  const script = `stty cols ${columns} rows 50; ${command}`;
  const { stdout } = await cluster.run('m1', ['script', '--quiet', '--command', script, '/dev/null']);
  return stdout.replaceAll('\r\n', '\n');
}

const unicode = ['LC_ALL=C.UTF-8'];

/** Commands are to be pasted, so they are not broken: doctor's stand nine columns in, check's on a line of its own. */
const commandLines = [/^ {9}(?:#|\S+ -|vipnat |docker |nft )/, /^ +vipnat run --once(?: --\S+)+$/];

test.each([60, 80, 120, 200])('status, check and doctor fit %p columns, in colour', async (columns) => {
  for (const words of [['status'], ['check'], ['doctor', '--capture', '0s']]) {
    const text = await show(columns, [...words, ...vipArguments], unicode);
    const isLongProse = (line: string) =>
      line.length > columns && !commandLines.some((pattern) => pattern.test(line));
    expect(stripVTControlCharacters(text).split('\n').filter(isLongProse)).toEqual([]);
    expect(text).toMatch(/\u001b\[3[123]m/);
  }
});
