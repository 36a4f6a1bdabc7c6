import { vips } from '../../support/network/layout.ts';
import { vipArguments, useProxiedCluster, askPage } from './traffic.ts';
import { test, expect } from '@jest/globals';
import { startAgent, limitMs, vipnat, vipnatCommand, waitUntil } from '../../support/host/vipnat.ts';
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

test('status --watch draws one screen over the other, by keys and sizes, and leaves the terminal as it was', async () => {
  const terminal = ['env', '-u', 'COLUMNS', '-u', 'NO_COLOR', 'TERM=xterm', 'LC_ALL=C.UTF-8'];
  const command = quoteWords([...terminal, ...vipnatCommand(['status', '--watch=600', ...vipArguments])]);
  const run = `sh -c 'echo "pid $$"; exec "$@"' sh ${command}; echo "status $?"; stty -g`;
  const script = `stty rows 6 cols 120; tty; stty -g; ${run}; ${run}`;
  const child = cluster.start('m1', ['script', '--quiet', '--command', script, '/dev/null']);
  let all = '';
  child.stdout?.on('data', (text: Buffer) => (all += text.toString().replaceAll('\r', '')));
  // The next screen is due in ten minutes: each of these is drawn for its key.
  const see = async (last: string, key = '') => {
    child.stdin?.write(key);
    const read = () => stripVTControlCharacters(all.split('\u001b[?7l\u001b[H').at(-1) ?? '');
    await waitUntil(() => read().includes(last), `no ${last} on the terminal`);
    return read().split('\n');
  };
  await see('0 lines above, 8 below · space pauses · q ends');
  const keyToAbove = { ' ': 0, '\u001b[6~': 5, '\u001b[A': 4, '\u001b[H': 0, '\u001b[B': 1, '\u001b[F': 8 };
  for (const [key, above] of Object.entries(keyToAbove))
    await see(`paused · ${above} lines above, ${8 - above} below`, key);
  const tty = /^\/dev\/\S+$/m.exec(all)?.[0] ?? '';
  await cluster.run('m1', ['stty', '-F', tty, 'cols', '40', 'rows', '50']);
  const narrow = await see('paused · space goes on · q ends');
  expect([narrow.length > 14, narrow.filter((line) => line.length > 40)]).toEqual([true, []]);
  await see('space pauses · q ends', ' ');
  await see('status 2\n', 'q');
  await waitUntil(() => all.split('\u001b[?25l').length === 3, 'no second screen');
  process.kill(Number(/[^]*^pid (\d+)/m.exec(all)?.[1]), 'SIGTERM');
  await waitUntil(() => /status 143\n.+\n/.test(all), 'SIGTERM does not end it');
  expect(new Set(all.match(/^[\da-f]+(?::[\da-f]+){20,}$/gm)).size).toBe(1);
  expect(all.match(/\u001b\[(?:\?25[lh]|2J)/g)?.join('')).toBe('\u001b[?25l\u001b[?25h'.repeat(2));
});
