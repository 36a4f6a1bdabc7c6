import { expect, test } from '@jest/globals';
import { type Cluster } from '../../support/network/cluster.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { vips } from '../../support/network/layout.ts';
import { startProxies } from './traffic.ts';
import { limitMs, sleep, startAgent, vipnat, waitForSync } from '../../support/host/vipnat.ts';

const vipArguments = ['--vip', vips.ipv4];
const restarts = 8;
/** A frozen apiserver is out 2.75 s after it froze, or after three questions without an answer (docs/adr/0029). */
const detectionMs = 10_000;
const lifeMs = 1200;

let cluster: Cluster;

useCluster('all tests', async (made) => {
  cluster = made;
  await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
});

test(
  'however often the agent is stopped or killed while an apiserver is frozen, no connection gets to that one',
  async () => {
    let agent = await startAgent(cluster, 'm1', vipArguments);
    cluster.apiserver('m3').freeze();
    await sleep(detectionMs);
    await agent.waitForLine(/10\.77\.0\.13:6443 is draining: /);

    const seat = cluster.seat('outside client');
    const task = { host: vips.ipv4, port: 6443, perSecond: 100, isNamed: true, durationMs: limitMs };
    const traffic = seat.connectAtRate(task);
    for (let restart = 0; restart < restarts; restart += 1) {
      await agent.stop(restart % 2 === 0 ? 'SIGKILL' : 'SIGTERM');
      agent = await startAgent(cluster, 'm1', vipArguments);
      expect(agent.log).toContain(
        "direct to 10.77.0.11:6443, 10.77.0.12:6443: kube-proxy's list is out of date: it names 3 apiservers",
      );
      await sleep(lifeMs);
    }
    await agent.stop();
    // A process that looks once cannot see that one is frozen; the rules know.
    expect(await vipnat(cluster, 'm1', ['check', ...vipArguments])).toMatchObject({ exitCode: 0 });
    seat.settle();
    const { failures, apiservers } = await traffic;
    expect(failures).toEqual([]);
    expect(Object.keys(apiservers).sort()).toEqual(['m1', 'm2']);

    cluster.apiserver('m3').thaw();
    agent = await startAgent(cluster, 'm1', vipArguments);
    await agent.waitForLine(/10\.77\.0\.13:6443 is ready /);
    await agent.waitForLine(/direct -> service-chain: /);
    await waitForSync(cluster, 'm1', vipArguments);
    await agent.stop();
  },
  2 * limitMs,
);
