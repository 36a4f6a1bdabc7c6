import { describe, expect, test } from '@jest/globals';
import { freezeVerdict } from '../../../../agent/health/freeze.ts';
import { local, Monitored, second, third } from './monitored.ts';

const all = [local, second, third] as const;

/** Ten ticks of 250 ms, and one until the first ping that is not answered. */
const frozenMs = 2750;

/** Points in time against the probes' own. */
const phasesMs = [0, 70, 140, 210, 333, 499, 700, 930];

async function startAt(phaseMs: number): Promise<Monitored> {
  const world = await Monitored.start();
  await world.clock.advance(phaseMs);
  return world;
}

describe.each(phasesMs)('whenever it begins (%i ms)', (phaseMs) => {
  test.each([local, third])(
    'a frozen one is out within 2.75 s, and no earlier than 2.5 s: %s',
    async (one) => {
      const world = await startAt(phaseMs);
      world.apiservers.set(one, 'frozen');
      const ms = await world.waitFor(one, 'draining');
      expect(ms).toBeGreaterThanOrEqual(2500);
      expect(ms).toBeLessThanOrEqual(frozenMs);
      expect(world.changes).toMatchObject([
        {
          endpoint: one,
          urgency: 'urgent',
          reason: freezeVerdict.reason,
        },
      ]);
    },
  );

  test('a freeze of 2.2 s is nothing', async () => {
    const world = await startAt(phaseMs);
    world.apiservers.set(third, 'frozen');
    await world.clock.advance(2200);
    world.apiservers.set(third, 'healthy');
    await world.clock.advance(30_000);
    expect(world.changes).toEqual([]);
    expect(world.suspicions).toEqual([]);
  });

  test('one that answers everything 2 s late from now on, handshakes too, is never out', async () => {
    const world = await startAt(phaseMs);
    world.apiservers.set(third, 'slow');
    await world.clock.advance(120_000);
    expect(world.changes).toEqual([]);
  });

  test('an agent that is stopped for 5 s takes nobody out, slow or well', async () => {
    const world = await Monitored.start();
    world.apiservers.set(third, 'slow');
    for (let turn = 0; turn < 5; turn += 1) {
      await world.clock.advance(10_000 + phaseMs);
      world.clock.stall(5000);
    }
    await world.clock.advance(10_000);
    expect(world.changes).toEqual([]);
  });

  test('an agent that is stopped together with an apiserver, which goes on 2 s later, takes nobody out', async () => {
    const world = await startAt(phaseMs);
    world.apiservers.set(third, 'frozen');
    world.clock.stall(60_000);
    await world.clock.advance(1900);
    world.apiservers.set(third, 'healthy');
    await world.clock.advance(10_000);
    expect(world.changes).toEqual([]);
  });
});

test('a date that jumps is nothing', async () => {
  const world = await Monitored.start();
  world.apiservers.set(third, 'slow');
  for (const ms of [86_400_000, -172_800_000]) {
    world.clock.jump(ms);
    await world.clock.advance(10_000);
  }
  expect(world.changes).toEqual([]);
});

test.each(['slow', 'frozen', 'ailing'] as const)(
  'where all others are %s, or have been, nobody is a witness',
  async (behaviour) => {
    const world = await Monitored.start();
    for (const endpoint of [local, second]) world.apiservers.set(endpoint, behaviour);
    await world.clock.advance(400);
    world.apiservers.set(third, 'frozen');
    await world.clock.advance(4000);
    for (const endpoint of [local, second]) world.apiservers.set(endpoint, 'healthy');
    await world.clock.advance(1000);
    world.apiservers.set(third, 'healthy');
    await world.clock.advance(20_000);
    expect(world.changes.filter(({ reason }) => reason === freezeVerdict.reason)).toEqual([]);
  },
);

test.each([2600, 5000, 8000])(
  'when all are frozen for %i ms and go on one after the other, who is first is no witness of a freeze',
  async (ms) => {
    const world = await Monitored.start();
    for (const endpoint of all) {
      world.apiservers.set(endpoint, 'frozen');
      await world.clock.advance(300);
    }
    await world.clock.advance(ms);
    for (const endpoint of [second, local, third]) {
      world.apiservers.set(endpoint, 'healthy');
      await world.clock.advance(900);
    }
    await world.clock.advance(20_000);
    expect(world.changes.filter(({ reason }) => reason === freezeVerdict.reason)).toEqual([]);
  },
);

test('where all are slow, a frozen one is out by three questions without an answer', async () => {
  const world = await Monitored.start();
  for (const endpoint of [local, second]) world.apiservers.set(endpoint, 'slow');
  world.apiservers.set(third, 'frozen');
  const ms = await world.waitFor(third, 'draining');
  expect(ms).toBeGreaterThan(8000);
  expect(ms).toBeLessThanOrEqual(12_000);
  expect(world.changes).toMatchObject([{ reason: 'it left 3 requests in a row unanswered' }]);
});

test('both others at once may be this host’s own network: they are out by three questions without an answer', async () => {
  const world = await Monitored.start();
  for (const endpoint of [second, third]) world.apiservers.set(endpoint, 'frozen');
  expect(await world.waitFor(third, 'draining')).toBeGreaterThan(8000);
  await world.waitFor(second, 'draining');
  expect(world.clock.now()).toBeLessThanOrEqual(5000 + 10_000);
});

test.each(['frozen', 'silent'] as const)(
  'when one is %s and known for it, nobody waits for it: the next one is out as soon',
  async (behaviour) => {
    const world = await Monitored.start();
    world.apiservers.set(second, behaviour);
    await world.clock.advance(5000);
    world.apiservers.set(third, 'frozen');
    expect(await world.waitFor(third, 'draining')).toBeLessThanOrEqual(frozenMs);
  },
);

test('of two apiservers, the other one may freeze: there is nobody else to ask', async () => {
  const world = await Monitored.start([local, third]);
  world.apiservers.set(third, 'frozen');
  expect(await world.waitFor(third, 'draining')).toBeLessThanOrEqual(frozenMs);
});

test('one that is frozen when the agent starts is out a second later than others', async () => {
  const world = await Monitored.start([]);
  world.apiservers.set(third, 'frozen');
  world.watch(all);
  expect(await world.waitFor(third, 'draining')).toBeLessThanOrEqual(frozenMs + 1000);
});

test('one that is slow when the agent starts stays', async () => {
  const world = await Monitored.start([]);
  world.apiservers.set(third, 'slow');
  world.watch(all);
  await world.clock.advance(60_000);
  expect(world.changes).toEqual([]);
});

test('one that goes on is used after three good answers, and a while of pings alone is none', async () => {
  const world = await Monitored.start();
  world.apiservers.set(third, 'frozen');
  await world.waitFor(third, 'draining');
  await world.clock.advance(20_000);
  expect(world.find(third).state).toBe('draining');
  world.apiservers.set(third, 'healthy');
  await world.waitFor(third, 'warming');
  const ms = await world.waitFor(third, 'ready');
  expect(ms).toBeGreaterThan(1900);
  expect(ms).toBeLessThanOrEqual(4000);
});

test('one whose host was gone is not taken for frozen when it is back', async () => {
  const world = await Monitored.start();
  world.apiservers.set(third, 'silent');
  await world.clock.advance(20_000);
  world.apiservers.set(third, 'healthy');
  await world.clock.advance(10_000);
  expect(world.changes.map(({ state }) => state)).toEqual(['dead', 'warming', 'ready']);
});
