import { afterEach, describe, expect, test } from '@jest/globals';
import { type Cluster } from '../../support/network/cluster.ts';
import { useCluster } from '../../support/network/use-cluster.ts';
import { chooseRounds } from '../../support/jest/long.ts';
import { sleep } from '../../support/host/vipnat.ts';
import { makeEndpoints, makeLoadBalancer, makeVirtualIp } from '../../support/kube-api/service-objects.ts';
import { podPort, pods, serviceVips, ServiceWorld } from './service-world.ts';

const rounds = chooseRounds(3, 20);

/** A round starts vipnat three times. */
const limitMs = 120_000 + rounds * 45_000;

const vip = serviceVips.ipv4;
const balanced = /default\/web is balanced: 10\.77\.0\.60:80 TCP to 3 endpoints/;
const waits = /\[BALANCER_ALREADY_RUNNING\] waiting for another balancer/;

describe('a Service with 500 connections a second', () => {
  let cluster: Cluster;
  let world: ServiceWorld;

  useCluster('each test', async (made) => {
    cluster = made;
    world = await ServiceWorld.create(cluster);
    const addresses = pods.map(({ ipv4 }) => ipv4);
    await world.put(
      ['Service', makeLoadBalancer('web', [{ port: 80 }])],
      ['EndpointSlice', makeEndpoints('web', [{ port: podPort }], addresses)],
      ['VirtualIP', makeVirtualIp(vip, ['web'])],
    );
  });

  afterEach(() => {
    (world as ServiceWorld | undefined)?.close();
  });

  test(
    `loses none while the balancer is killed, restarted and upgraded, ${rounds} times each`,
    async () => {
      let running = await world.startBalancer(balanced);
      const load = cluster
        .seat('outside client')
        .connectAtRate({ host: vip, port: 80, perSecond: 500, durationMs: limitMs, isNamed: true });
      for (let round = 0; round < rounds; round += 1) {
        for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
          await running.stop(signal);
          running = await world.startBalancer(balanced);
        }
        // As a rolling update does where both pods are there for a while.
        const next = await world.startBalancer(waits);
        await running.stop();
        await next.waitForLine(balanced);
        running = next;
        await sleep(200);
      }
      cluster.seat('outside client').settle();
      const { sent, failures, slowAtMs } = await load;
      const figures = `${sent} connections, ${failures.length} failed, ${slowAtMs.length} slow`;
      process.stderr.write(`services-upgrades.test.ts: ${rounds} rounds: ${figures}\n`);
      expect(failures).toEqual([]);
      expect(sent).toBeGreaterThan(1000);
    },
    limitMs,
  );
});
