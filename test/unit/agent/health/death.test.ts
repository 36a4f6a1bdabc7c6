import { expect, test } from '@jest/globals';
import { formatEndpoint } from '../../../../lib/address/endpoint.ts';
import { local, Monitored, second, third } from './monitored.ts';

/** A probe begun just before the fault, and two more of 250 ms. */
const twoSilentConnectsMs = 750;

test('a process that dies is dead within milliseconds: its connections close, and a connect is refused', async () => {
  const world = await Monitored.start();
  world.apiservers.set(second, 'refusing');
  expect(await world.waitFor(second, 'dead')).toBeLessThanOrEqual(10);
  expect(world.changes).toMatchObject([
    { endpoint: second, urgency: 'urgent', state: 'draining' },
    {
      endpoint: second,
      urgency: 'calm',
      state: 'dead',
      reason: expect.stringMatching(/^connection refused \d ms after the probe's connection closed$/),
    },
  ]);
  expect(world.monitor.view.get(second)).toMatchObject({ staleConnections: 'none' });
});

test.each([0, 60, 120, 180, 249])(
  'a host that is gone is dead after two connects without an answer, whenever it went (%i ms into a probe interval)',
  async (phaseMs) => {
    const world = await Monitored.start();
    await world.clock.advance(phaseMs);
    world.apiservers.set(third, 'silent');
    expect(await world.waitFor(third, 'dead')).toBeLessThanOrEqual(twoSilentConnectsMs);
    expect(world.monitor.view.get(third)).toMatchObject({ staleConnections: 'half-open' });
  },
);

test('after five seconds without an answer its connections are lost, which is urgent news', async () => {
  const world = await Monitored.start();
  world.apiservers.set(third, 'silent');
  await world.clock.advance(5000);
  expect(world.monitor.view.get(third)).toMatchObject({ staleConnections: 'half-open' });
  await world.clock.advance(510);
  expect(world.monitor.view.get(third)).toMatchObject({ staleConnections: 'all' });
});

/** Each ends before TCP gives up, and open connections go on. */
test.each([
  ['an accept queue that is full', 1500],
  ['a guest that is stunned', 2000],
  ['a bond that fails over', 3000],
])('%s, for %i ms, costs no open connection, and others get the new ones meanwhile', async (_what, ms) => {
  const world = await Monitored.start();
  for (let round = 0; round < 3; round += 1) {
    world.apiservers.set(third, 'silent');
    for (let passed = 0; passed < ms; passed += 50) {
      await world.clock.advance(50);
      expect(world.monitor.view.get(third)?.staleConnections).not.toBe('all');
    }
    expect(world.find(third).state).toBe('dead');
    world.apiservers.set(third, 'healthy');
    await world.waitFor(third, 'ready');
    await world.clock.advance(60_000);
  }
});

test('time in which the agent itself did not run is no silence of an apiserver', async () => {
  const world = await Monitored.start();
  world.apiservers.set(third, 'silent');
  await world.clock.advance(1000);
  world.clock.stall(60_000);
  await world.clock.advance(2000);
  expect(world.monitor.view.get(third)).toMatchObject({ state: 'dead', staleConnections: 'half-open' });
});

test('of several that go silent half lose their open connections within a minute, more of them only after half a minute', async () => {
  const four = [second, third, '10.0.0.14:6443', '10.0.0.15:6443'];
  const world = await Monitored.start([local, ...four]);
  const lost = four.slice(1);
  for (const endpoint of lost) world.apiservers.set(endpoint, 'silent');
  const countLost = () =>
    lost.filter((endpoint) => world.monitor.view.get(endpoint)?.staleConnections === 'all').length;
  await world.clock.advance(20_000);
  expect(countLost()).toBe(2);
  await world.clock.advance(12_000);
  expect(countLost()).toBe(3);
});

test('who lost its connections and left the list, as it expires there, counts as one of that half', async () => {
  const world = await Monitored.start([second, third, '10.0.0.14:6443']);
  world.apiservers.set(second, 'silent');
  await world.clock.advance(15_000);
  expect(world.monitor.view.get(second)).toMatchObject({ staleConnections: 'all' });
  world.watch([third, '10.0.0.14:6443']);
  world.apiservers.set(third, 'silent');
  await world.clock.advance(20_000);
  expect(world.monitor.view.get(third)).toMatchObject({ state: 'dead', staleConnections: 'half-open' });
  await world.clock.advance(12_000);
  expect(world.monitor.view.get(third)).toMatchObject({ staleConnections: 'all' });
});

test('a lost packet is nothing', async () => {
  const world = await Monitored.start();
  world.apiservers.set(third, 'silent');
  await world.clock.advance(251);
  world.apiservers.set(third, 'healthy');
  await world.clock.advance(5000);
  expect(world.changes).toEqual([]);
});

test('one that was dead for under a second is back at once', async () => {
  const world = await Monitored.start();
  world.apiservers.set(third, 'silent');
  await world.waitFor(third, 'dead');
  world.apiservers.set(third, 'healthy');
  expect(await world.waitFor(third, 'ready')).toBeLessThanOrEqual(501);
});

test('one that was dead for longer is used after three good answers', async () => {
  const world = await Monitored.start();
  world.apiservers.set(third, 'refusing');
  await world.clock.advance(10_000);
  world.apiservers.set(third, 'healthy');
  await world.waitFor(third, 'warming');
  const warmedMs = await world.waitFor(third, 'ready');
  expect(warmedMs).toBeGreaterThanOrEqual(1900);
  expect(warmedMs).toBeLessThanOrEqual(2500);
});

test('an agent whose own node is cut off changes nothing, says so, and finds all well when it is back', async () => {
  const world = await Monitored.start();
  for (const endpoint of [second, third]) world.apiservers.set(endpoint, 'silent');
  await world.clock.advance(2000);
  // By then the kernel has no neighbour any more.
  for (const endpoint of [second, third]) world.apiservers.set(endpoint, 'unreachable');
  await world.clock.advance(30_000);
  expect(world.monitor.view.get(second)).toMatchObject({
    state: 'ready',
    isSilent: true,
    unconfirmedFailure: expect.stringMatching(
      /\. No apiserver on another host answers: this node may be cut off$/,
    ),
  });
  for (const endpoint of [second, third]) world.apiservers.set(endpoint, 'healthy');
  await world.clock.advance(100);
  expect(world.changes).toEqual([]);
  expect(world.suspicions).toEqual([second, third]);
  await world.clock.advance(5000);
  expect(world.monitor.view.get(second)?.isSilent).toBeUndefined();
  expect(world.states).toEqual(['ready', 'ready', 'ready']);
  expect(world.monitor.all.map(({ unconfirmedFailure }) => unconfirmedFailure)).toEqual([null, null, null]);
});

test('probes that a firewall refuses while the held connections live are the firewall’s doing, not the apiservers’', async () => {
  const world = await Monitored.start();
  for (const endpoint of [second, third]) world.apiservers.block(endpoint);
  await world.clock.advance(30_000);
  expect(world.changes).toEqual([]);
  expect(world.suspicions).toEqual([second, third]);
});

test('a host that refuses although an older connection lives is dead when another apiserver is reached', async () => {
  const world = await Monitored.start();
  world.apiservers.block(second);
  expect(await world.waitFor(second, 'dead')).toBeLessThanOrEqual(500);
});

test('where no new connection comes through at all, nobody is dead whose open connection answers', async () => {
  const world = await Monitored.start();
  for (const endpoint of [local, second, third]) world.apiservers.set(endpoint, 'clogged');
  await world.clock.advance(30_000);
  expect(world.changes).toEqual([]);
  expect(world.suspicions).toEqual([local, second, third]);
  // It serves what is open, so the virtual IP need not leave.
  expect(world.monitor.all.map(({ endpoint }) => world.monitor.view.get(formatEndpoint(endpoint)))).toEqual(
    Array(3).fill(expect.not.objectContaining({ isSilent: true })),
  );
});

test('one that new connections do not reach gets none, and those that are open live on', async () => {
  const world = await Monitored.start();
  world.apiservers.set(third, 'clogged');
  expect(await world.waitFor(third, 'dead')).toBeLessThanOrEqual(twoSilentConnectsMs);
  await world.clock.advance(30_000);
  expect(world.monitor.view.get(third)).toMatchObject({ state: 'dead', staleConnections: 'half-open' });
});

test('but when its host goes too, they are lost', async () => {
  const world = await Monitored.start();
  world.apiservers.set(third, 'clogged');
  await world.clock.advance(30_000);
  world.apiservers.set(third, 'silent');
  await world.clock.advance(4000);
  expect(world.monitor.view.get(third)).toMatchObject({ staleConnections: 'all' });
});

test('a router that knows no way to a host is believed when another host is reached', async () => {
  const world = await Monitored.start();
  world.apiservers.set(third, 'unreachable');
  expect(await world.waitFor(third, 'dead')).toBeLessThanOrEqual(501);
});

test('of two apiservers, the other one may die: there is nobody to ask', async () => {
  const world = await Monitored.start([local, third]);
  world.apiservers.set(third, 'silent');
  expect(await world.waitFor(third, 'dead')).toBeLessThanOrEqual(twoSilentConnectsMs);
});

test('when the second of three hosts goes after the first is dead, it is dead too', async () => {
  const world = await Monitored.start();
  world.apiservers.set(second, 'silent');
  await world.clock.advance(5000);
  world.apiservers.set(third, 'silent');
  expect(await world.waitFor(third, 'dead')).toBeLessThanOrEqual(twoSilentConnectsMs);
});

test('the apiserver on this host needs no network to be dead', async () => {
  const world = await Monitored.start();
  for (const endpoint of [local, second, third]) world.apiservers.set(endpoint, 'refusing');
  await world.clock.advance(20);
  expect(world.states).toEqual(['dead', 'dead', 'dead']);
});

test('a flapping apiserver falls four times a minute at first, then once in half a minute at most', async () => {
  const world = await Monitored.start();
  for (let flap = 0; flap < 300; flap += 1) {
    world.apiservers.set(third, 'silent');
    await world.clock.advance(800);
    world.apiservers.set(third, 'healthy');
    await world.clock.advance(1200);
  }
  const ejections = world.changes.filter(({ urgency }) => urgency === 'urgent');
  // Ten minutes of it.
  expect(ejections.length).toBeLessThanOrEqual(4 + 20);
  expect(world.find(third).state).not.toBe('ready');
  expect(world.changes.some(({ reason }) => reason.includes('failed 4 times within 60 s'))).toBe(true);
  await world.clock.advance(45_000);
  expect(world.find(third).state).toBe('ready');
});

test('apiservers come and go: who is new has to warm up, who is gone is not probed any more', async () => {
  const world = await Monitored.start([local, second]);
  world.watch([local, second, third]);
  expect(world.find(third).state).toBe('warming');
  expect(await world.waitFor(third, 'ready')).toBeLessThan(2500);
  world.watch([local]);
  expect(world.monitor.all.map(({ endpoint }) => formatEndpoint(endpoint))).toEqual([local]);
  expect(world.apiservers.open).toBe(1);
});
