/** The method `lc` in the balancer as a whole: an API on a local socket, a kernel in memory, and a clock that stands still. */
import { useCertificates } from '../../support/api/api-world.ts';
import { BalancerWorld } from '../../support/api/balancer-world.ts';
import { beforeEach, afterEach, describe, test, expect } from '@jest/globals';
import { makeLoadBalancer } from '../../support/kube-api/service-objects.ts';
import type { BalancedFlow } from '../../../lib/kernel/port.ts';
import { VipnatError } from '../../../lib/errors.ts';

const certificates = useCertificates();
const pods = ['10.244.1.2', '10.244.2.2', '10.244.3.2'] as const;
const slotsOfWeb = 'slots/default/web/tcp/80';

let world: BalancerWorld;

beforeEach(async () => {
  world = await BalancerWorld.start(certificates());
  world.api.store.put(
    'Service',
    makeLoadBalancer('web', [{ port: 80 }], { annotations: { 'vipnat.io/method': 'lc' } }),
  );
  world.list('web', ...pods);
  open(150, 150, 0);
  await begin();
});

afterEach(async () => {
  await world.stop();
});

async function begin(): Promise<void> {
  world.startBalancer();
  await world.untilPrinted(/10\.77\.0\.61[\s\S]*10\.244\.3\.2/);
}

/** From now on, the pods have so many open connections. */
function open(...counts: readonly number[]): void {
  world.connections = pods.flatMap((address, at) =>
    Array.from({ length: counts[at] ?? 0 }, (): BalancedFlow => ({
      protocol: 'tcp',
      vip: { family: 'ipv4', address: '10.77.0.60', port: 80 },
      backend: { family: 'ipv4', address, port: 8080 },
    })),
  );
}

/** How many slots each pod has. */
async function readSlots(): Promise<number[]> {
  const [, text = ''] = new RegExp(`map ${slotsOfWeb} \\{([^]*?)\\n\\t\\}`).exec(await world.print()) ?? [];
  return pods.map((pod) => text.split(` : ${pod} . 8080`).length - 1);
}

/** The sets of which elements were changed, from the first one on. */
const listChanged = (from = 0) => world.kernel.changes.slice(from).map(({ set }) => set);

const [even, uneven] = [
  [20, 20, 20],
  [13, 12, 35],
];

describe('a Service with the method lc', () => {
  test('gives a pod with few connections more new ones until it has as many, and writes nothing else', async () => {
    const [lists, scripts] = [
      world.lists,
      world.kernel.scripts.filter((script) => script.includes('chain')).length,
    ];
    await world.pass(10);
    expect(await readSlots()).toEqual(uneven);
    open(150, 150, 140);
    await world.pass(10);
    expect(await readSlots()).toEqual(even);
    const written = listChanged();
    expect([...new Set(written)]).toEqual([slotsOfWeb]);
    open(150, 160, 140);
    await world.pass(120);
    expect(listChanged()).toEqual(written);
    // No rule is changed, and no table listed.
    expect(world.kernel.scripts.filter((script) => script.includes('chain'))).toHaveLength(scripts);
    expect(world.lists).toBe(lists);
    expect(world.readLog('info').filter((line) => line.includes('default/web is balanced'))).toEqual([
      'default/web is balanced: 10.77.0.60:80 TCP to 3 endpoints',
      'default/web is balanced: 10.77.0.60:80 TCP to 3 endpoints, more to endpoints with fewer open connections',
      'default/web is balanced: 10.77.0.60:80 TCP to 3 endpoints',
    ]);
  });

  test('is written once in five seconds at most, however counts change', async () => {
    await world.pass(10);
    const from = world.kernel.changes.length;
    for (let second = 0; second < 60; second += 1) {
      open(...pods.map((_, at) => ((second + at) % 3) * 100));
      await world.pass(1);
    }
    const { length } = listChanged(from);
    expect(length).toBeGreaterThan(2);
    expect(length).toBeLessThanOrEqual(12);
  });

  test('keeps its shares when the balancer starts again, as long as nothing else was counted', async () => {
    await world.pass(10);
    await world.stopBalancer();
    world.walkFailure = new VipnatError('NETLINK_FAILED', 'the kernel is busy');
    const from = world.kernel.changes.length;
    const before = world.kernel.scripts.length;
    await begin();
    await world.pass(10);
    expect(await readSlots()).toEqual(uneven);
    expect(listChanged(from)).toEqual([]);
    expect(world.kernel.scripts.slice(before).filter((script) => script.includes('slots'))).toEqual([]);
    // A pod that comes gets an even part, whatever the others have.
    world.list('web', ...pods, '10.244.4.2');
    await world.untilPrinted(/10\.244\.4\.2/);
    expect(await readSlots()).toEqual(uneven);
    world.walkFailure = null;
    open(0, 0, 0);
    await world.pass(20);
    expect(await readSlots()).toEqual(even);
  });

  test('keeps its shares while two counts fail, and gives all pods the same after three', async () => {
    await world.pass(10);
    world.walkFailure = new VipnatError('NETLINK_FAILED', 'the kernel is busy');
    await world.pass(10);
    expect(await readSlots()).toEqual(uneven);
    await world.pass(20);
    expect(await readSlots()).toEqual(even);
    world.walkFailure = null;
    await world.pass(20);
    expect(await readSlots()).toEqual(uneven);
  });

  test('with another method has one slot for each pod, and is not counted any more', async () => {
    await world.pass(10);
    world.api.store.put('Service', makeLoadBalancer('web', [{ port: 80 }]));
    await world.until(async () => (await readSlots()).every((count) => count === 1), 'one slot for each');
    const from = world.kernel.changes.length;
    await world.pass(60);
    expect(listChanged(from)).toEqual([]);
  });
});
