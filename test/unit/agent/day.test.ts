import { isLong } from '../../support/jest/extent.ts';
import type { Behaviour } from '../../support/fakes/apiserver.ts';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Monitored, local, second, third } from './health/monitored.ts';
import { test, expect } from '@jest/globals';
import { FakeClock } from '../../support/fakes/clock.ts';

const hourMs = 3_600_000;

/** What piles up does so in every hour. */
const hours = isLong ? 24 : 2;

/** Some two million timers in a day, on a machine that may be busy. */
const limitMs = 240_000;

/** What may come to an apiserver, and for how long, in turn: short and long enough to cross every threshold in judge.ts. */
const troubles: readonly Behaviour[] = ['silent', 'refusing', 'failing', 'frozen', 'slow', 'unreachable'];
const durationsMs = [200, 700, 3000, 11_000, 90_000];

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Everything that could pile up. */
function measure({ clock, apiservers, monitor }: Monitored): Record<string, number> {
  collectGarbage();
  const ejections = monitor.all.reduce((sum, one) => sum + one.ejections.length, 0);
  return {
    ...{ heap: process.memoryUsage().heapUsed, timers: clock.pending, ejections },
    sockets: apiservers.open + apiservers.openForPings,
  };
}

test(
  `${hours} hours of troubles leave no socket, timer or memory behind, and at their end all is well`,
  async () => {
    const world = await Monitored.start([local, second, third], new FakeClock(undefined, 1));
    const pass = async (untilMs: number) => {
      for (let trouble = 0; world.clock.now() < untilMs; trouble += 1) {
        const endpoint = [local, second, third][Math.floor(trouble / troubles.length) % 3] ?? local;
        world.apiservers.set(endpoint, troubles[trouble % troubles.length] ?? 'silent');
        await world.clock.advance(durationsMs[trouble % durationsMs.length] ?? 1000);
        world.apiservers.set(endpoint, 'healthy');
        await world.clock.advance(120_000);
        // What was told is of no interest here, and would pile up.
        world.changes.splice(0);
        world.sent.clear();
      }
    };
    await pass(hourMs);
    const before = measure(world);
    await pass(hours * hourMs);
    const after = measure(world);
    expect(world.states).toEqual(['ready', 'ready', 'ready']);
    expect(world.apiservers.connects).toBeGreaterThan(hours * 3600 * 4 * 2);
    // A connect, a question and a ping for each, and what is under way.
    expect(after['timers']).toBeLessThanOrEqual(9);
    // One for questions and one for pings.
    expect(after['sockets']).toBeLessThanOrEqual(6);
    expect(after['ejections']).toBeLessThanOrEqual(12);
    expect((after['heap'] ?? 0) - (before['heap'] ?? 0)).toBeLessThan(3_000_000);
  },
  limitMs,
);
