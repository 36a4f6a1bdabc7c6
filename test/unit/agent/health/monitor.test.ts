import { local, second, third, Monitored } from './monitored.ts';
import { countMost } from '../../../support/fakes/sent-log.ts';
import { expect, test } from '@jest/globals';
import { type Behaviour, FakeApiservers } from '../../../support/fakes/apiserver.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import type { Clock } from '../../../../lib/clock.ts';
import { HealthMonitor, probeOnce } from '../../../../agent/health/monitor.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import type { HealthView } from '../../../../agent/health/usable.ts';

const all = [local, second, third] as const;
const minuteMs = 60_000;

/** What one apiserver may be sent, whatever happens (I13). */
const limits = {
  questions: { most: 4, withinMs: 1000 },
  // One more that began together with the first.
  connects: { most: 40 + 13 + 1, withinMs: 10_000 },
  pings: { most: 4, withinMs: 1000 },
  pingConnections: { most: 2, withinMs: 4000 },
};

function expectWithinLimits({ sent }: Monitored): void {
  for (const [kind, { most, withinMs }] of Object.entries(limits)) {
    const counts = all.map((one) => countMost(sent.to(one)[kind as keyof typeof limits], withinMs));
    expect([kind, Math.max(...counts, most)]).toEqual([kind, most]);
  }
}

test('who fails all the time costs the others one question, not one for each answer', async () => {
  const world = await Monitored.start();
  world.sent.clear();
  world.apiservers.set(second, 'ailing');
  world.apiservers.set(third, 'ailing');
  await world.clock.advance(minuteMs);
  expect(world.sent.to(local).questions.length).toBeLessThanOrEqual(60 + 2);
});

test('who has answered well, and fails again, may cost the others another question', async () => {
  const world = await Monitored.start();
  for (let turn = 0; turn < 3; turn += 1) {
    // Between two regular questions, so that a witness has to be asked.
    await world.clock.advance(500);
    world.sent.clear();
    world.apiservers.set(second, 'failing');
    expect(await world.waitFor(second, 'draining')).toBeLessThanOrEqual(1010);
    world.apiservers.set(second, 'healthy');
    await world.waitFor(second, 'ready');
  }
});

test.each(all)('a witness is asked at once, at any phase of its own questions: %s fails', async (one) => {
  const world = await Monitored.start();
  // Each is asked at a time of its own.
  for (const endpoint of all) {
    world.watch(all.filter((other) => other !== endpoint));
    await world.clock.advance(300);
    world.watch(all);
  }
  await world.clock.advance(20_000);
  world.sent.clear();
  world.apiservers.set(one, 'failing');
  await world.waitFor(one, 'draining');
  const failedAt = world.sent.to(one).questions.at(-1) ?? Infinity;
  expect(world.clock.now() - failedAt).toBeLessThanOrEqual(5);
});

const flapsMs = [3, 60, 250, 251, 400];

test.each<[Behaviour, Behaviour, number[], forMs?: number]>([
  ['ailing', 'healthy', [130], minuteMs],
  ['healthy', 'clogged', flapsMs],
  ['healthy', 'unreachable', flapsMs],
  ['hanging up', 'unreachable', flapsMs],
  ['curt', 'refusing', flapsMs],
])('who is %s and %s by turns stays within the limits (I13)', async (...[one, other, flaps, forMs]) => {
  const [world, behaviours] = [await Monitored.start(), [one, other]];
  for (const flapMs of flaps) {
    world.sent.clear();
    for (let passedMs = 0; passedMs < (forMs ?? minuteMs / 4); passedMs += flapMs) {
      const behaviour = behaviours[Math.round(passedMs / flapMs) % 2] ?? 'healthy';
      for (const endpoint of all) world.apiservers.set(endpoint, behaviour);
      await world.clock.advance(flapMs);
    }
    expectWithinLimits(world);
  }
});

test('nothing of the limits is kept for those who have been gone for a while', async () => {
  const world = await Monitored.start();
  world.watch([local]);
  await world.clock.advance(20_000);
  world.watch([local, second]);
  await world.clock.advance(5);
  expect(world.find(second).history).toMatchObject({ connect: 'open', readyAnswers: 1 });
});

test('no timer is set into the past, though time passes between two looks at the clock', async () => {
  const clock = new FakeClock();
  const delays: number[] = [];
  let lookedTimes = 0;
  const moving: Clock = {
    now: () => clock.now() + (lookedTimes += 1) / 1e6,
    date: () => clock.date(),
    schedule: (delayMs, callback) => {
      delays.push(delayMs);
      return clock.schedule(delayMs, callback);
    },
  };
  const apiservers = new FakeApiservers(clock);
  for (const endpoint of all) apiservers.set(endpoint, 'clogged');
  const monitor = new HealthMonitor({
    ...{ apiserver: apiservers, clock: moving, settings: { intervalMs: 250, timeoutMs: 250 } },
    onChange: () => undefined,
  });
  monitor.watch({ endpoints: all.map(toEndpoint), localAddresses: new Set() });
  await clock.advance(10_000);
  monitor.stop();
  expect(delays.length).toBeGreaterThan(100);
  expect(Math.min(...delays)).toBeGreaterThanOrEqual(0);
});

interface Outcome {
  readonly states: readonly (string | undefined)[];
  readonly tookMs: number;
}

/** Probes three apiservers once, the third of which behaves in some way. */
async function probe(
  behaviour: Behaviour,
  endpoints: readonly string[] = [local, second, third],
  inUse: readonly string[] = [],
): Promise<Outcome> {
  const clock = new FakeClock();
  const apiservers = new FakeApiservers(clock);
  apiservers.set(third, behaviour);
  const settings = { intervalMs: 250, timeoutMs: 250 };
  let view: HealthView | null = null;
  void probeOnce(
    { apiserver: apiservers, clock, settings },
    {
      endpoints: endpoints.map(toEndpoint),
      localAddresses: new Set(['10.0.0.11']),
      inUse: inUse.map(toEndpoint),
    },
  ).then((found) => (view = found));
  for (let ms = 0; ms < 10_000; ms += 1) {
    await clock.advance(1);
    const found = view as HealthView | null;
    if (found === null) continue;
    const tookMs = clock.now();
    await clock.advance(10_000);
    const sockets = apiservers.open + apiservers.openForPings;
    expect({ timers: clock.pending, sockets }).toEqual({ timers: 0, sockets: 0 });
    return { states: endpoints.map((endpoint) => found.get(endpoint)?.state), tookMs };
  }
  throw new Error('no answer');
}

// States that the agent would have by then, and those of one that is left out by rules which are there.
test.each([
  ['healthy', 'ready', 'ready', [10, 10]],
  ['refusing', 'dead', 'dead', [10, 10]],
  ['silent', 'dead', 'dead', [750, 750]],
  ['failing', 'draining', 'draining', [1100, 1100]],
  ['ailing', 'ready', 'warming', [1600, 1100]],
  ['frozen', 'ready', 'warming', [1600, 1600]],
  ['slow', 'ready', 'warming', [1600, 1600]],
] as const)('one that is %s is %s, or %s if left out: %j', async (behaviour, state, leftOut, mostMs) => {
  const [found, without] = [await probe(behaviour), await probe(behaviour, undefined, [local, second])];
  expect(found.states).toEqual(['ready', 'ready', state]);
  expect(without.states).toEqual(['ready', 'ready', leftOut]);
  expect(found.tookMs).toBeLessThanOrEqual(mostMs[0]);
  expect(without.tookMs).toBeLessThanOrEqual(mostMs[1]);
});

test('with no apiserver to probe it answers at once', async () => {
  expect((await probe('healthy', [])).tookMs).toBeLessThanOrEqual(1);
});

test('all that were left out are found well, where the rules name somebody who is not listed any more', async () => {
  const { states, tookMs } = await probe('healthy', undefined, ['10.0.0.99:6443']);
  expect(states).toEqual(['ready', 'ready', 'ready']);
  expect(tookMs).toBeLessThanOrEqual(1600);
});

test.each([
  ['healthy', 'ready'],
  ['refusing', undefined],
  ['ailing', undefined],
  ['hanging up', undefined],
] as const)('where nobody else lives, what is %s at this host’s address is %s', async (behaviour, state) => {
  const clock = new FakeClock();
  const apiservers = new FakeApiservers(clock);
  apiservers.set(third, 'refusing');
  apiservers.set(local, behaviour);
  const settings = { intervalMs: 250, timeoutMs: 250 };
  const [endpoints, own] = [[toEndpoint(third)], [toEndpoint(local)]];
  const found = probeOnce(
    { apiserver: apiservers, clock, settings },
    { endpoints, own, localAddresses: new Set(['10.0.0.11']) },
  );
  await clock.advance(10);
  expect((await found).get(local)?.state).toBe(state);
});
