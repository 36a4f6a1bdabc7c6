import { vips } from '../../support/network/layout.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { startProxies } from './traffic.ts';
import { test, expect } from '@jest/globals';
import { startAgent, limitMs, vipnat, vipnatCommand } from '../../support/host/vipnat.ts';
import { quoteWords } from '../../../lib/text.ts';

const vipArguments = ['--vip', vips.ipv4];
const connections = 30;

const cluster = useCluster('each test', async () => {
  await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
});

test('status tells of the holder, the way, each apiserver with its connections, and the agent, and exits with 0', async () => {
  const agent = await startAgent(cluster, 'm1', vipArguments);
  const target = { host: vips.ipv4, port: 6443 };
  const { report } = await cluster.seat('outside client').hold(target, connections, limitMs);
  const { exitCode, stdout } = await vipnat(cluster, 'm1', ['status', '--json', ...vipArguments]);
  const { vips: told, agent: running } = JSON.parse(stdout) as {
    agent: object;
    vips: { held: boolean; mode: string; backends: { state: string; since: string; flows: number }[] }[];
  };
  expect({ exitCode, running }).toEqual({
    exitCode: 0,
    running: { running: true, pid: agent.pid, since: expect.any(String) },
  });
  expect(told).toMatchObject([{ held: true, mode: 'service-chain' }]);
  const backends = told.flatMap((vip) => vip.backends);
  expect(backends.map(({ state }) => state)).toEqual(['ready', 'ready', 'ready']);
  expect(backends.every(({ since }) => !Number.isNaN(Date.parse(since)))).toBe(true);
  expect(backends.reduce((sum, { flows }) => sum + flows, 0)).toBe(connections);
  cluster.seat('outside client').settle();
  await report;
  await agent.stop();
});

test('status without an agent and without rules says both on one screen, and exits with 2', async () => {
  const { exitCode, stdout, stderr } = await vipnat(cluster, 'm1', ['status', ...vipArguments]);
  expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: '' });
  expect(stdout).toMatch(/^10\.77\.0\.50:6443 {3}held by this node · service-chain · NOT IN SYNC /);
  expect(stdout).toContain('agent       NOT RUNNING');
});

test('status --watch ends when nobody reads it any more, also while it waits for the next screen', async () => {
  const namespace = cluster.namespaceOf('m1');
  for (const watch of ['--watch', '--watch=600']) {
    const command = quoteWords(vipnatCommand(['status', watch, ...vipArguments]));
    const script = `timeout 100 ${command} | head -1; echo "status \${PIPESTATUS[0]}"`;
    const { stdout, stderr } = await cluster.namespaces.run(namespace, ['bash', '--norc', '-c', script]);
    expect({ last: stdout.split('\n').slice(1).join('\n'), stderr }).toEqual({
      last: 'status 141',
      stderr: '',
    });
  }
});
