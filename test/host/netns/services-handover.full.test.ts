import { describe, test, expect } from '@jest/globals';
import { useWebService, balanced, vip } from './web-service.ts';
import { startLoad, expectNoneLost, probeHeartbeat, readHeartbeat } from './traffic.ts';
import { waitUntil } from '../../support/jest/waiting.ts';
import { vipnat } from '../../support/host/vipnat.ts';

const waits = / \[BALANCER_ALREADY_RUNNING\] waiting for /;
const takesOver = / vipnat takes over from the balancer that ended, after /;

/** What a pod has of its own, besides: `ip netns exec` gives each command its own mounts. */
const inPod = ['sh', '-ec', 'mount -t tmpfs tmpfs /dev/shm; export VIPNAT_POD=daemonset; exec "$@"', 'sh'];

describe('a second balancer of a node', () => {
  const web = useWebService();

  test.each(['SIGTERM', 'SIGKILL'] as const)(
    'waits, and takes over at %s: no connection fails',
    async (signal) => {
      const first = await web.startBalancer(balanced);
      const second = await web.startBalancer(waits, { prefix: inPod });
      expect(second.log).toMatch(new RegExp(`another balancer of this host .* pid ${first.pid} in its`));
      const load = startLoad(web.cluster, { host: vip, port: 80 }, 200);
      const before = await web.shell('m1', 'nft -n -a list table ip vipnat-lb');
      await first.stop(signal);
      await second.waitForLine(balanced);
      expect(second.listLines(waits)).toHaveLength(1);
      expect(second.listLines(takesOver)).toHaveLength(1);
      const after = await web.shell('m1', 'nft -n -a list table ip vipnat-lb');
      expect(/handle \d+/.exec(after)?.[0]).toBe(/handle \d+/.exec(before)?.[0]);
      await expectNoneLost(load, 20);
    },
  );

  test('is alive for its kubelet while it waits and after it has taken over, until it hangs', async () => {
    const first = await web.startBalancer(balanced, { prefix: inPod });
    const second = await web.startBalancer(waits, { prefix: inPod });
    expect([await probeHeartbeat(first), await probeHeartbeat(second)]).toEqual([0, 0]);
    await first.stop();
    await second.waitForLine(balanced);
    expect(await probeHeartbeat(second)).toBe(0);
    const before = readHeartbeat(second);
    await waitUntil(() => readHeartbeat(second) > before, 'it says nothing new');
  });

  test('and a cleanup beside a balancer that runs: its tables stay, and the command says so', async () => {
    const { pid } = await web.startBalancer(balanced);
    const refused = await vipnat(web.cluster, 'm1', ['cleanup']);
    const why = `[BALANCER_ALREADY_RUNNING] a balancer (pid ${pid}) is running here, so its tables stay`;
    expect(refused).toMatchObject({ exitCode: 1, stderr: expect.stringContaining(why) });
    expect(refused.stderr).not.toContain('removed');
    expect((await web.cluster.seat('outside client').greet(vip, 80, 30)).errors).toEqual({});
    expect(await vipnat(web.cluster, 'm1', ['cleanup', '--dry-run'])).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('nft delete table ip vipnat-lb'),
    });
    const { exitCode } = await vipnat(web.cluster, 'm1', ['cleanup', '--vip', '10.77.0.50']);
    expect(exitCode).toBe(0);
  });
});
