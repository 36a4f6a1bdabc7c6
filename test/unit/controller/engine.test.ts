import { jest, beforeEach, afterEach, test, expect, describe } from '@jest/globals';
import { EngineWorld } from '../../support/fakes/engine-world.ts';
import { makeReport } from '../../support/fakes/service-objects.ts';
import { loadBalancerClass, finalizer } from '../../../lib/api/vipnat.ts';
import { advanceUntil } from '../advance-until.ts';

jest.setTimeout(120_000);

/** All that a controller may write in a second, and what it may save up (S7). */
const perSecond = 20;
const burst = 20;

let world: EngineWorld;
beforeEach(() => {
  world = new EngineWorld();
});
afterEach(() => world.stop());

async function begin({ services, addresses }: { services: number; addresses?: string }) {
  world.createNode();
  await world.begin(services, addresses);
}

/** Somebody takes the finalizer away, again and again: each time there is something to write. */
function flap(): () => void {
  const again = () => {
    world.api.patch('Service', 'apps/s0', { metadata: { finalizers: null } });
    cancel = world.clock.schedule(20, again);
  };
  let cancel = world.clock.schedule(0, again);
  return () => {
    cancel();
  };
}

const isOf = (name: string) => (what: string) => what.includes(`/services/${name}`);
const listOf = (name: string) => world.sent.filter(({ what }) => isOf(name)(what));

test('a VirtualIP that somebody deletes goes with its last Service, and is not made again', async () => {
  await begin({ services: 1 });
  await world.clock.advance(30_000);
  const [name = ''] = world.api.list('VirtualIP').keys();
  world.api.remove('VirtualIP', name);
  await world.clock.advance(10_000);
  expect(world.listServed()).toEqual(['apps/s0']);
  const before = world.sent.length;
  world.api.remove('Service', 'apps/s0');
  await world.clock.advance(10_000);
  expect([...world.api.list('VirtualIP').keys(), ...world.api.list('Service').keys()]).toEqual([]);
  expect(world.sent.slice(before).filter(({ what }) => what.startsWith('POST'))).toEqual([]);
});

test('a Service for which one family has no pool gets the other one as soon as its holder says so', async () => {
  await begin({ services: 0 });
  const report = (announced: string) => {
    world.hear(makeReport('node-1', 1_000_000_000, { announced }));
  };
  report('1');
  const families = { ipFamilies: ['IPv4', 'IPv6'], ipFamilyPolicy: 'PreferDualStack' };
  const ports = [{ protocol: 'TCP', port: 80 }];
  const spec = { type: 'LoadBalancer', loadBalancerClass, ...families, ports };
  world.api.create('Service', 'apps/dual', { spec });
  await world.clock.advance(30_000);
  expect(world.listServed()).toEqual([]);
  report('1000000000');
  await world.clock.advance(100);
  expect(world.listServed()).toEqual(['apps/dual']);
});

test('Services that wait for one node have no turn by what others report', async () => {
  const stuck = makeReport('stuck', 1, { seats: [] });
  world.createNode('stuck', stuck);
  await begin({ services: 20 });
  await world.clock.advance(60_000);
  expect(world.listServed()).toEqual([]);
  const { turns } = world.engine.statistics;
  for (let version = 1; version <= 100; version += 1) {
    world.hear(makeReport('node-1', 1_000_000_000 + version));
    await world.clock.advance(20);
  }
  expect(world.engine.statistics.turns).toBe(turns);
  world.hear(makeReport('stuck', 1_000_000_000, { seats: [] }));
  await world.clock.advance(10_000);
  expect(world.listServed()).toHaveLength(20);
});

test('10,000 Services at once, and one that flaps 50 times a second: nobody waits for it', async () => {
  await begin({ services: 10_000 });
  const cancel = flap();
  // One that comes last has its turn after all others had theirs, once.
  await world.clock.advance(60_000);
  expect(world.sent.length).toBeGreaterThan(perSecond * 55);
  expect(world.findHighestRate()).toBeLessThanOrEqual(perSecond + burst);
  // In a queue of thousands it has hardly a turn more than each of them.
  expect(listOf('s0').length).toBeLessThanOrEqual(3);
  const started = [...world.api.list('Service').values()].filter(({ metadata }) =>
    metadata.finalizers?.includes(finalizer),
  );
  expect(started.length).toBeGreaterThan(1000);
  cancel();
});

test('when the holder of 300 addresses balances in another way, a new Service does not wait for what is said of that', async () => {
  await begin({ services: 300 });
  await world.clock.advance(120_000);
  expect(world.listServed()).toHaveLength(300);
  const from = world.sent.length;
  world.hear(makeReport('node-1', 1_000_000_000, { mode: 'kube-proxy' }));
  world.createServices(1, 'new');
  await world.clock.advance(3000);
  expect(world.listServed()).toContain('apps/new0');
  // Meanwhile ten a second are told, and all of them in the end.
  expect(world.sent.length - from).toBeLessThan(50);
  await world.clock.advance(60_000);
  const told = [...world.api.list('VirtualIP').values()].filter(
    ({ status }) => status?.['mode'] === 'kube-proxy',
  );
  expect(told).toHaveLength(301);
});

describe('an API', () => {
  test('whose informer is silent is written to once: the key waits for its own write', async () => {
    await begin({ services: 1 });
    world.shownMs = null;
    await world.clock.advance(14_000);
    expect(listOf('s0')).toHaveLength(1);
    // Fifteen seconds later it tries again, and its version tells that it knows an old state.
    await world.clock.advance(2000);
    const [first, ...others] = listOf('s0').map(({ outcome }) => outcome);
    expect([first, ...new Set(others)]).toEqual(['taken', 'conflict']);
    expect(others.length).toBeLessThan(8);
  });

  test('with conflicts on every write is not stormed', async () => {
    world.answer = () => 'conflict';
    await begin({ services: 100 });
    await world.clock.advance(60_000);
    expect(world.findHighestRate()).toBeLessThanOrEqual(perSecond + burst);
    expect(listOf('s0').length).toBeLessThanOrEqual(12);
    world.answer = null;
    await world.clock.advance(120_000);
    expect(world.listServed()).toHaveLength(100);
  });
});

describe('a Service that is deleted while no informer shows its VirtualIP', () => {
  const path = '/apis/vipnat.io/v1alpha1/virtualips/10.0.0.1';
  const isRemoval = (what: string) => what === 'PATCH /api/v1/namespaces/apps/services/s0';

  async function deleteEarly() {
    world.unresponsive.add('VirtualIP');
    await begin({ services: 1, addresses: '10.0.0.1' });
    await world.clock.advance(10_000);
    expect([...world.api.list('VirtualIP').keys()]).toEqual(['10.0.0.1']);
    world.api.remove('Service', 'apps/s0');
    await world.clock.advance(300_000);
    expect(world.api.list('Service').size).toBe(1);
    expect(world.sent.filter(({ what }) => isRemoval(what))).toHaveLength(1);
  }

  test.each([
    ['whose answer was lost', true],
    ['whose answer came', false],
  ])('%s: it keeps its finalizer, and the informer is told', async (_, losesAnswer) => {
    if (losesAnswer) world.losesAnswer = (what) => what.startsWith('POST');
    await deleteEarly();
    expect(world.read.every((each) => each === path)).toBe(true);
    // Once each 15 s, and each time after the first the informer is said to be behind.
    expect(world.read.length).toBeGreaterThan(15);
    expect(world.read.length).toBeLessThan(25);
    expect(new Set(world.behind)).toEqual(new Set(['VirtualIP']));
  });

  test('which was never made: the finalizer goes', async () => {
    world.answer = (asked) => (asked.endsWith('/virtualips') ? 'unreachable' : null);
    await begin({ services: 1, addresses: '10.0.0.1' });
    await world.clock.advance(60_000);
    const posts = world.sent.filter(({ what }) => what.startsWith('POST'));
    // Longer pauses each time, although each read in between is answered.
    expect([posts.length > 5, posts.length < 14]).toEqual([true, true]);
    expect(world.read).toHaveLength(posts.length - 1);
    world.api.remove('Service', 'apps/s0');
    await world.clock.advance(30_000);
    expect([world.api.list('Service').size, world.behind]).toEqual([0, []]);
  });
});

test.each([-3_600_000, 3_600_000])('a date that jumps by %d ms keeps no address for long', async (jumpMs) => {
  await begin({ services: 1, addresses: '10.0.0.1' });
  await world.clock.advance(10_000);
  world.api.remove('Service', 'apps/s0');
  await world.clock.advance(5000);
  expect([world.api.list('Service').size, world.api.list('VirtualIP').size]).toEqual([0, 1]);
  world.dateOffsetMs = jumpMs;
  await world.clock.advance(600_000);
  expect(world.api.list('VirtualIP').size).toBe(0);
});

test('a Service whose status the API drops is written once a minute', async () => {
  await begin({ services: 1 });
  world.drops = (path) => path.endsWith('/services/s0/status');
  await world.clock.advance(360_000);
  expect(listOf('s0').length).toBeLessThanOrEqual(3 + 2 * 11 + 5);
  expect(world.conflicts).toEqual(['Service/apps/s0 ']);
  world.drops = null;
  await world.clock.advance(200_000);
  const { status } = world.api.list('Service').get('apps/s0') ?? {};
  expect(JSON.stringify(status)).toContain('"reason":"Ready"');
});

describe('a pool that is deleted right after an address of it was given', () => {
  const start = async () => {
    world.unresponsive.add('VirtualIP');
    await begin({ services: 1, addresses: '10.0.0.1' });
    await world.clock.advance(10_000);
    world.api.remove('AddressPool', 'pool');
    await world.clock.advance(60_000);
  };

  test.each([
    ['was lost', true],
    ['came', false],
  ])('where the answer %s stays until the address is shown and given back', async (_, losesAnswer) => {
    if (losesAnswer) world.losesAnswer = (what) => what.startsWith('POST');
    await start();
    expect([...world.api.list('VirtualIP').keys()]).toEqual(['10.0.0.1']);
    expect([...world.api.list('AddressPool').keys()]).toEqual(['pool']);
  });

  test('where it was not given after all goes', async () => {
    world.answer = (asked) => (asked.endsWith('/virtualips') ? 'refused' : null);
    await start();
    expect(world.api.list('AddressPool').size).toBe(0);
  });
});

test('S8: writes are shared out by namespaces: a Service does not wait for the hundreds of another tenant', async () => {
  world.createServices(1, 'web', 'shop');
  await begin({ services: 400 });
  await advanceUntil(world.clock, 'shop/web0 is served', () => world.listServed().includes('shop/web0'), 50);
  // Five writes of its own, and as many of the other namespace and of the pool beside each of them.
  expect(world.sent.length).toBeLessThan(80);
  expect(world.listServed().length).toBeLessThan(20);
});
