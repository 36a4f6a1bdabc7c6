import { expect, test } from '@jest/globals';
import { endVerdict } from '../../../../agent/health/end.ts';
import { local, Monitored, second, third } from './monitored.ts';

test.each([local, third])(
  'a process that closes both connections of its probes is out at once, while its host still accepts others: %s',
  async (one) => {
    const world = await Monitored.start();
    world.apiservers.set(one, 'ending');
    expect(world.find(one).state).toBe('draining');
    expect(world.changes).toMatchObject([{ endpoint: one, urgency: 'urgent', reason: endVerdict.reason }]);
    await world.clock.advance(2000);
    expect(world.find(one).state).toBe('draining');
    world.apiservers.set(one, 'refusing');
    expect(await world.waitFor(one, 'dead')).toBeLessThanOrEqual(251);
  },
);

test('in whichever order they close, within a tenth of a second', async () => {
  const world = await Monitored.start();
  world.apiservers.closeHeld(third);
  await world.clock.advance(90);
  world.apiservers.closePings(third);
  expect(world.find(third).state).toBe('draining');
});

test.each([
  [
    'only the held connection closes',
    (world: Monitored) => {
      world.apiservers.closeHeld(third);
    },
  ],
  [
    'only that of the pings closes',
    (world: Monitored) => {
      world.apiservers.closePings(third);
    },
  ],
  [
    'each answer is the last on its connection',
    (world: Monitored) => {
      world.apiservers.set(third, 'curt');
    },
  ],
  [
    'they close while the agent itself does not run',
    (world: Monitored) => {
      world.clock.stall(120_000);
      world.apiservers.closePings(third);
      world.apiservers.closeHeld(third);
    },
  ],
])('where %s, it stays', async (_what, act) => {
  const world = await Monitored.start();
  act(world);
  await world.clock.advance(30_000);
  expect(world.changes).toEqual([]);
});

test('one that closed them and answers again was alive: it is used after three good answers', async () => {
  const world = await Monitored.start();
  world.apiservers.set(third, 'ending');
  world.apiservers.set(third, 'healthy');
  await world.clock.advance(4000);
  expect(world.changes.map(({ state }) => state)).toEqual(['draining', 'warming', 'ready']);
  expect(world.logger.lines.filter(({ level }) => level === 'info').map(({ message }) => message)).toEqual([
    `${third} is draining: ${endVerdict.reason}`,
    expect.stringContaining(`${third} is ready again after`),
  ]);
});

test('what closes the connections of both other hosts may be the network: one of them stays', async () => {
  const world = await Monitored.start();
  for (const endpoint of [second, third]) world.apiservers.set(endpoint, 'ending');
  expect(world.states).toEqual(['ready', 'draining', 'ready']);
});

test('one that no other could replace stays', async () => {
  const world = await Monitored.start();
  for (const endpoint of [local, second]) world.apiservers.set(endpoint, 'failing');
  await world.clock.advance(4000);
  const before = world.find(third).state;
  world.apiservers.set(third, 'ending');
  expect(world.find(third).state).toBe(before);
});

test('however often it closes them, it is out once in ten seconds at most', async () => {
  const world = await Monitored.start();
  for (let time = 0; time < 10; time += 1) {
    world.apiservers.closePings(third);
    world.apiservers.closeHeld(third);
    await world.clock.advance(5000);
  }
  expect(world.changes.filter(({ state }) => state === 'draining').length).toBeLessThanOrEqual(5);
});
