import { expect, test } from '@jest/globals';
import { endVerdict } from '../../../../agent/health/end.ts';
import { meet, trusted } from '../../../../agent/health/first-sight.ts';
import { judgeAll } from '../../../../agent/health/judge.ts';
import { emptyHistory } from '../../../../agent/probe/probe-history.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
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

test('of many that end together only one is out, also if it was truly the network that ended them', async () => {
  const others = [second, third, '10.0.0.14:6443', '10.0.0.15:6443'];
  const world = await Monitored.start([local, ...others]);
  for (const endpoint of others) world.apiservers.set(endpoint, 'ending');
  for (const endpoint of others) world.apiservers.set(endpoint, 'healthy');
  await world.clock.advance(10_000);
  expect(world.changes.map(({ state, endpoint }) => `${endpoint} ${state}`)).toEqual([
    `${second} draining`,
    `${second} warming`,
    `${second} ready`,
  ]);
});

test('one that dies while others end is out by its own refusal, or by theirs', async () => {
  const world = await Monitored.start();
  for (const endpoint of [second, third]) world.apiservers.set(endpoint, 'ending');
  world.apiservers.set(second, 'refusing');
  expect(await world.waitFor(second, 'dead')).toBeLessThanOrEqual(251);
  expect(world.find(third).state).toBe('draining');
});

test('one of another family replaces nobody', async () => {
  const [one, other] = ['10.0.0.12:6443', '[fd00::13]:6443'];
  const world = await Monitored.start([one, other]);
  world.apiservers.set(one, 'ending');
  expect(world.states).toEqual(['ready', 'ready']);
});

test('one that answers nothing afterwards, and whose host accepts connections on, is told of', async () => {
  const world = await Monitored.start();
  world.apiservers.set(third, 'ending');
  await world.clock.advance(5000);
  expect(world.events.recorded).toEqual([`ApiserverDraining ${third} is draining: ${endVerdict.reason}`]);
});

test('one that was suspected and ends is suspected no longer', () => {
  const [one, other] = [second, third].map((text) => ({
    ...meet(toEndpoint(text), trusted, { now: 0, isLocal: false, isOwn: false }),
    history: { ...emptyHistory, connect: 'open' } as const,
  }));
  if (one === undefined || other === undefined) throw new Error('there are two');
  const suspected = { ...one, unconfirmedFailure: { reason: 'it is slow', since: 0 } };
  const ended = { ...suspected, history: { ...one.history, isEnded: true, endedAt: 5 } };
  expect(judgeAll([ended, other], 5)[0]).toMatchObject({ state: 'draining', unconfirmedFailure: null });
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
