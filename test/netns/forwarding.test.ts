import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Cluster } from '../network/cluster.ts';
import { vips } from '../network/layout.ts';
import { expectAnswers, expectBalanced, startProxies } from './traffic.ts';
import { limitMs, vipnat } from './vipnat.ts';

const vipArguments = ['--vip', vips.ipv4];
const client = { seat: 'outside client', host: vips.ipv4 } as const;

describe("a VIP's holder that does not forward", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await Cluster.create();
    await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
    await cluster.namespaces.shell(cluster.namespaceOf('m1'), 'echo 0 >/proc/sys/net/ipv4/ip_forward');
  }, limitMs);

  // Also when the set-up failed half-way.
  afterAll(() => (cluster as Cluster | undefined)?.close(), limitMs);

  const run = (...words: string[]) => vipnat(cluster, 'm1', [...words, ...vipArguments]);

  test(
    'serves its own apiserver as long as it may not be changed',
    async () => {
      const { stderr } = await run('run', '--once', '--sysctls', 'check');
      expect(stderr).toContain('NOT BALANCED');
      expect(stderr).toContain('this host does not forward (net.ipv4.ip_forward is 0)');
      await expectAnswers(cluster, client, ['m1']);
    },
    limitMs,
  );

  test(
    'is shown as it is by check and plan',
    async () => {
      expect(await run('check')).toMatchObject({
        exitCode: 2,
        stdout: expect.stringContaining('drift: net.ipv4.ip_forward is 0: this host does not forward'),
      });
      expect((await run('plan')).stdout).toContain('\nsysctl -w net.ipv4.ip_forward=1\n');
      expect(JSON.parse((await run('plan', '--json')).stdout)).toMatchObject({
        inSync: false,
        sysctls: [{ name: 'net.ipv4.ip_forward', value: '0', wanted: '1' }],
      });
    },
    limitMs,
  );

  test(
    'is switched on and balanced by run',
    async () => {
      expect(await run('run', '--once')).toMatchObject({
        exitCode: 0,
        stderr: expect.stringContaining('net.ipv4.ip_forward was 0, and is 1 now'),
      });
      await expectBalanced(cluster, client);
      expect(await run('check')).toMatchObject({ exitCode: 0 });
    },
    limitMs,
  );
});
