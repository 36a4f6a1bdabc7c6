import type { Cache, ClusterView } from '../../../../controller/cache/cache.ts';
import { Random } from '../../../support/random/random.ts';
import {
  publishOf,
  makeDeviceService,
  makeBalancer,
  makeDevice,
  makeDeviceCache,
  makeDeviceWorld,
  whole,
} from '../../../support/fakes/device-objects.ts';
import { makeVirtualIp, makeService } from '../../../support/fakes/service-objects.ts';
import { test, expect } from '@jest/globals';
import { toBlock } from '../../../../lib/net.ts';
import { toWanted } from '../../../../controller/devices/wanted.ts';
import { countSteps } from '../../../support/fakes/count-steps.ts';
import { setCondition } from '../../../../controller/cache/parts.ts';
import { decide } from '../../../support/fakes/service-steps.ts';

/** Somebody comes, changes or goes. */
function changeSomething(cache: Cache, random: Random): void {
  const [text, key] = [`10.9.0.${random.below(9)}`, `apps/s${random.below(9)}`];
  const deviceStatus = random.pick(['serves', 'unknown', 'absent'] as const);
  const asking = random.chance(50) ? { spec: { loadBalancerIP: text } } : { status: publishOf(text) };
  const [source, name, after] = random.pick([
    ['services', key, makeDeviceService(key, 'd', asking)],
    ['deviceBalancers', `d uid of ${key}`, makeBalancer('d', key, { addresses: [text], deviceStatus })],
    ['virtualIps', text, makeVirtualIp(text, random.chance(50) ? [key] : [])],
    ['devices', 'd', makeDevice('d', { addresses: ['10.9.0.6-10.9.0.8', `10.9.0.${random.below(3)}`] })],
  ] as const);
  cache.take(source, { key: name, after: random.chance(60) ? (after as never) : null });
}

function isTaken(address: string, world: ClusterView): boolean {
  const serving = [...world.deviceBalancers.values()].filter(({ deviceStatus }) => deviceStatus !== 'absent');
  return (
    world.addressToPublishers.has(address) ||
    world.addressToAskers.has(address) ||
    serving.some(({ addresses }) => addresses.includes(address)) ||
    (world.virtualIps.get(address)?.spec.services ?? []).length > 0
  );
}

test('whoever comes and goes, the first free address is the first that nobody has', () => {
  const random = new Random(1);
  const cache = makeDeviceCache({});
  let [free, full] = [0, 0];
  for (let turn = 0; turn < 1000; turn += 1) {
    changeSomething(cache, random);
    const world = cache.view(0);
    const [, one = null] = world.devices.get('d')?.spec.addresses ?? [];
    const all = one === null ? [] : [one, '10.9.0.6', '10.9.0.7', '10.9.0.8'];
    const expected = all.find((address) => !isTaken(address, world));
    expect([turn, world.takenAddresses.findFree('d', 'ipv4')?.text]).toEqual([turn, expected]);
    if (expected !== undefined) free += 1;
    else if (one !== null) full += 1;
  }
  expect(Math.min(free, full)).toBeGreaterThan(100);
});

test('a range that another device may have is passed over, and nothing behind it', () => {
  const device = makeDevice('d', { addresses: ['10.9.0.1-10.9.0.9', '10.9.1.1'] });
  const { takenAddresses } = makeDeviceWorld({ devices: [device] });
  const others = [toBlock({ family: 'ipv4', text: '10.9.0.0' }, 24)].flatMap((range) => range ?? []);
  expect(takenAddresses.findFree('d', 'ipv4', others)?.text).toBe('10.9.1.1');
});

test('a Service that waits for an address costs as little on a device with many as on one with few', () => {
  const count = (length: number) => {
    const device = makeDevice('d', { addresses: [`10.9.0.1-10.9.${length >> 8}.${length & 255}`] });
    const deviceBalancers = Array.from({ length }, (_, at) =>
      makeBalancer('d', `apps/b${at}`, { addresses: [`10.9.${(at + 1) >> 8}.${(at + 1) & 255}`] }),
    );
    const service = makeDeviceService('apps/a', 'd');
    const world = makeDeviceWorld({ devices: [device], services: [service], deviceBalancers });
    const query = { service, device, capabilities: whole, present: [], former: new Map(), nowMs: 0 };
    expect(toWanted(query, world).problem?.reason).toBe('NoFreeAddress');
    return countSteps(() => toWanted(query, world));
  };
  expect(count(1024)).toBe(count(16));
});

test('a message is cut to what the API takes, and is then as wanted', () => {
  const wanted = { type: 'A', status: 'True', reason: 'B', message: 'x'.repeat(40_000) } as const;
  const conditions = setCondition([], wanted, 0);
  expect(conditions[0]?.message).toHaveLength(32_768);
  expect(setCondition(conditions, wanted, 1)).toBe(conditions);
});

test.each([
  ['vipnat.io/addresses', '\u0001'.repeat(200_000)],
  ['vipnat.io/addresses', `10.0.9.10,10.0.9.11${'x'.repeat(200_000)}`],
  ['vipnat.io/pool', '\u0001'.repeat(200_000)],
  ['vipnat.io/method', '\u0001'.repeat(200_000)],
])('what a tenant writes into %s is quoted with a limit', (name, text) => {
  const service = makeService('apps/a', { metadata: { annotations: { [name]: text } } });
  expect(JSON.stringify(decide({ services: [service] })).length).toBeLessThan(2000);
});
