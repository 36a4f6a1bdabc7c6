import { expect, test } from '@jest/globals';
import { local, Monitored, second, third } from './monitored.ts';

/** A drain check each two seconds, with the connect that is due then. */
const noticeMs = 2300;

test('one whose host is drained gets no new connections, and keeps those that are open', async () => {
  const world = await Monitored.start();
  world.apiservers.drain(second);
  expect(await world.waitFor(second, 'draining')).toBeLessThanOrEqual(noticeMs);
  expect(world.changes).toMatchObject([
    { endpoint: second, urgency: 'urgent', reason: 'its host is drained' },
  ]);
  expect(world.monitor.view.get(second)).toMatchObject({ isDrained: true, staleConnections: 'none' });
  await world.clock.advance(600_000);
  expect(world.changes).toHaveLength(1);
  expect(world.monitor.view.get(second)).toMatchObject({ state: 'draining', staleConnections: 'none' });
});

test('one whose host is no longer drained warms up, and then is ready', async () => {
  const world = await Monitored.start();
  world.apiservers.drain(second);
  await world.waitFor(second, 'draining');
  await world.clock.advance(60_000);
  world.apiservers.drain(second, false);
  expect(await world.waitFor(second, 'warming')).toBeLessThanOrEqual(noticeMs);
  const warmingMs = await world.waitFor(second, 'ready');
  expect(warmingMs).toBeGreaterThan(1900);
  expect(warmingMs).toBeLessThanOrEqual(3100);
  expect(world.find(second).isDrained).toBe(false);
});

test('one that comes back while its host is drained is draining, and never ready', async () => {
  const world = await Monitored.start();
  world.apiservers.drain(second);
  await world.waitFor(second, 'draining');
  world.apiservers.set(second, 'refusing');
  await world.waitFor(second, 'dead');
  expect(world.monitor.view.get(second)).not.toHaveProperty('isDrained');
  await world.clock.advance(60_000);
  world.apiservers.set(second, 'healthy');
  await world.clock.advance(30_000);
  expect(world.states).toEqual(['ready', 'draining', 'ready']);
  expect(world.changes.map(({ state }) => state)).not.toContain('ready');
});

test('a drain that leaves no other apiserver still takes none away that lives: all of them drain', async () => {
  const world = await Monitored.start();
  world.apiservers.set(third, 'refusing');
  world.apiservers.drain(local);
  world.apiservers.drain(second);
  await world.clock.advance(10_000);
  expect(world.states).toEqual(['draining', 'draining', 'dead']);
});

test('one that is shut down while its host is drained, and back after that, becomes ready', async () => {
  const world = await Monitored.start();
  world.apiservers.drain(second);
  await world.waitFor(second, 'draining');
  world.apiservers.set(second, 'failing');
  await world.clock.advance(5000);
  world.apiservers.drain(second, false);
  await world.clock.advance(5000);
  expect(world.states).toEqual(['ready', 'draining', 'ready']);
  expect(world.find(second)).toMatchObject({ isDrained: false, reason: expect.stringContaining('shutdown') });
  world.apiservers.set(second, 'healthy');
  await world.waitFor(second, 'ready');
});

test('one drain check is made in two seconds, and none of an apiserver that accepts nothing', async () => {
  const world = await Monitored.start();
  world.apiservers.set(third, 'refusing');
  await world.clock.advance(1000);
  world.sent.clear();
  await world.clock.advance(60_000);
  expect(world.sent.to(second).drainChecks.length).toBeGreaterThan(25);
  expect(world.sent.to(second).drainChecks.length).toBeLessThanOrEqual(31);
  expect(world.sent.to(third).drainChecks).toEqual([]);
});
