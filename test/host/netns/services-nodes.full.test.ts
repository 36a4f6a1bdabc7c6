/** Nodes that lose their power, and nodes that only the API cannot reach, while m1 holds the address. */
import { describe, expect, test } from '@jest/globals';
import { type Agent, sleep, waitUntil } from '../../support/host/vipnat.ts';
import { hosts } from '../../support/network/layout.ts';
import { makeLoadBalancer, makeVirtualIp } from '../../support/kube-api/service-objects.ts';
import { overPods, podPort, pods, serviceVips, useServices } from './service-world.ts';
import { makeSeat } from '../../support/fakes/seat-objects.ts';

const limitMs = 180_000;
const vip = serviceVips.ipv4;

const lost = pods.find(({ node }) => node === 'worker') ?? { ipv4: '' };

const seat = makeSeat(0, vip, ['m1', 'm2', 'worker']);
const pool = {
  metadata: { name: 'pool', uid: 'uid-of-pool', generation: 1 },
  spec: { addresses: ['10.77.0.60'], seats: 1 },
  status: { seats: [seat] },
};

describe('a Service with pods on three nodes', () => {
  let holder: Agent;

  const world = useServices('all tests', async () => {
    await world.put(
      ['Service', makeLoadBalancer('web', [{ port: 80 }])],
      ...overPods('web', [{ port: podPort }], ['ipv4']),
      ['VirtualIP', makeVirtualIp(vip, ['web'])],
      ['AddressPool', pool],
    );
    const start = async (node: string) => {
      const address = hosts.find(({ name }) => name === node)?.addresses.ipv4 ?? '';
      const words = ['--node-address', address];
      return await world.startBalancer(/default\/web is balanced/, { node, words });
    };
    await Promise.all([start('m2'), start('worker')]);
    // No keepalived runs: this is what shows who holds the seat.
    await world.shell('m1', `ip addr add ${seat.anchor}/32 dev lo`);
    holder = await start('m1');
    await holder.waitForLine(/this node holds seat pool\/0/);
  });

  const { cluster } = world;

  const isListed = async () => (await world.shell('m1', 'nft list table ip vipnat-lb')).includes(lost.ipv4);

  const listServing = async () =>
    Object.keys((await cluster.seat('outside client').greet(vip, 80, 60)).apiservers).sort();

  const setLink = async (node: string, state: 'up' | 'down') => {
    await world.shell('switch', `ip link set ${node} ${state}`);
  };

  const underLoad = async (action: () => Promise<number>) => {
    const client = cluster.seat('outside client');
    const pace = { perSecond: 100, durationMs: limitMs, limitMs: 10_000 };
    const load = client.connectAtRate({ host: vip, port: 80, isNamed: true, ...pace });
    const sinceMs = await action();
    client.settle();
    const { startedAt, sent, failures } = await load;
    return { sent, failedAfterMs: failures.map(({ atMs }) => startedAt + atMs - sinceMs) };
  };

  test('loses a node: its pods get no new connection once that is seen, and get them again when it is back', async () => {
    const { sent, failedAfterMs } = await underLoad(async () => {
      await sleep(8000);
      await setLink('worker', 'down');
      await holder.waitForLine(/node worker \(10\.77\.0\.21\) does not answer/);
      await waitUntil(async () => !(await isListed()), 'its pod still gets connections');
      const sinceMs = Date.now();
      await sleep(1000);
      return sinceMs;
    });
    // None may fail: a SYN that is sent again goes to another pod.
    expect(sent).toBeGreaterThan(100);
    expect(failedAfterMs.filter((ms) => ms > 0)).toEqual([]);
    expect(await listServing()).toEqual(['pod-m1', 'pod-m2']);
    await setLink('worker', 'up');
    await holder.waitForLine(/node worker is in use again/);
    await waitUntil(isListed, 'its pod gets no connection again');
    expect(await listServing()).toEqual(['pod-m1', 'pod-m2', 'pod-worker']);
  });

  test('waits for the balancer of a node that was away for long: it may have started again', async () => {
    await setLink('worker', 'down');
    await holder.waitForLine(/node worker \(10\.77\.0\.21\) does not answer/);
    // So long it is silent that it may have started again.
    await sleep(14_000);
    await setLink('worker', 'up');
    await holder.waitForLine(/node worker answers again\. It may have started again/);
    expect(await listServing()).toEqual(['pod-m1', 'pod-m2']);
    // Its balancer renews its Lease within ten seconds.
    await waitUntil(isListed, 'its pod gets no connection again');
  });

  test('loses no connection while a node is cut from the API only', async () => {
    const { sent, failedAfterMs } = await underLoad(async () => {
      await world.shell('worker', 'ip route add blackhole 10.77.0.13/32');
      await sleep(5000);
      return Date.now();
    });
    await world.shell('worker', 'ip route del blackhole 10.77.0.13/32');
    expect({ failed: failedAfterMs.length, hasSent: sent > 100 }).toEqual({ failed: 0, hasSent: true });
  });
});
