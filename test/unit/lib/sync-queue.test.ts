import { TriggerQueue } from '../../../lib/sync-queue.ts';
import type { LoopCause, Cause } from '../../../agent/report/events.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { type Steps, playSteps, testSteps, toChecks } from '../steps.ts';
import { describe } from '@jest/globals';

/** Who waits for what, as the agent has it. */
const ofAgent = { awaited: ['start', 'verify', 'health', 'own-rules'], urgent: ['own-rules'] } as const;

/** A queue that `looks` starts. */
function start(given: { awaited: readonly LoopCause[]; urgent: readonly LoopCause[]; mostRestMs?: number }) {
  const clock = new FakeClock();
  /** What each look costs, and what it asks for next; the last is repeated. */
  let looks: readonly string[][] = [];
  const starts: number[] = [];
  let causes: readonly Cause[] = [];
  let markedMs = 0;
  const queue: TriggerQueue<LoopCause> = new TriggerQueue<LoopCause>({
    ...{ ...given, clock },
    sync: async (now) => {
      const look = looks[Math.min(starts.length, looks.length - 1)] ?? [];
      const [costMs, cause = 'tick', delayMs = 60_000] = look;
      starts.push(clock.now());
      causes = now;
      await new Promise<void>((resolve) => clock.schedule(Number(costMs), resolve));
      return { cause: cause as LoopCause, delayMs: Number(delayMs) };
    },
  });
  const steps: Steps = {
    looks: (text) => {
      looks = text.split(', ').map((look) => look.split(' '));
      queue.requeueAfter('start', 0);
    },
    wait: (ms) => clock.advance(Number(ms)),
    trigger: (cause) => {
      queue.trigger(cause as LoopCause);
    },
    press: (cause) => {
      queue.press(cause as LoopCause);
    },
    /** What may have changed, and has not. */
    hint: () => {
      queue.trigger('nft-generation');
      queue.recordOutcome(true);
    },
    /** `each 100 for 60000 hint` */
    each: async (text) => {
      const [, everyMs, ms, step = ''] = /^(\d+) for (\d+) (.*)$/.exec(text) ?? [];
      for (let passed = 0; passed < Number(ms); passed += Number(everyMs))
        await playSteps(steps, `${step}; wait ${everyMs}`);
    },
    mark: () => (markedMs = clock.now()),
    ...toChecks({
      starts: (text) => [starts.join(' '), text],
      /** How long after the mark the next look began. */
      after: (ms) => [(starts.find((at) => at > markedMs) ?? 0) - markedMs, Number(ms)],
      causes: (text) => [causes.join(' '), text],
      gap: (ms) => [(starts.at(-1) ?? 0) - (starts.at(-2) ?? 0) >= Number(ms), true],
      fewer: (count) => [starts.length < Number(count), true],
    }),
  };
  return steps;
}

describe('looks', () => {
  testSteps(() => start(ofAgent), {
    'come 60 s after a look of no time': 'looks 0; wait 130000; starts 0 60000 120000',
    'come 60 s after a look of 717 ms': 'looks 717; wait 131434; starts 0 60717 121434',
    'come 60 s after a look of 8 s': 'looks 8000; wait 146000; starts 0 68000 136000',
    'come 60 s after tools that hung for 100 s': 'looks 100000, 0; wait 161000; starts 0 160000',
    'check a write at once after a look of 20 ms': 'looks 20 verify 0, 20; wait 5000; starts 0 20',
    'check a write at once after a look of 999 ms': 'looks 999 verify 0, 999; wait 5000; starts 0 999',
    'check a write after a rest where they cost much': 'looks 3000 verify 0, 10; wait 10000; starts 0 7000',
    'that a trigger asks for wait until the one before has rested, whether it came during that or after it':
      'looks 717; wait 400; trigger nft-generation; wait 3000; trigger nft-generation; wait 3000; starts 0 2151 4302',
    // 717 ms each are a third of 300 s.
    'of 717 ms take a third of the time where each second has a trigger':
      'looks 717; each 1000 for 300000 trigger nft-generation; fewer 143',
    'of 717 ms take a third of the time where each trigger tells of own rules':
      'looks 717; each 100 for 300000 trigger own-rules; fewer 143',
    'for own rules come soon, also where hints have found nothing all the time':
      'looks 10; each 100 for 30000 hint; gap 1000; mark; trigger own-rules; wait 3000; after 5',
    'that fail follow each other no faster than one a second':
      'looks 1 retry 10000; each 100 for 60000 hint; fewer 75',
    'for a death come without rest':
      'looks 3000 retry 10000; wait 4000; press health; wait 10; starts 0 4000; causes retry health',
    'for a death come right after the one under way, also when that fails':
      'looks 3000 retry 10000; wait 1000; press health; wait 5000; starts 0 3000',
    'for a death are paid for: what comes after them rests for both':
      'looks 1000; wait 1000; press health; wait 1500; trigger addresses; wait 10000; starts 0 1000 6000',
  });

  testSteps(() => start({ awaited: ['verify'], urgent: [], mostRestMs: 2500 }), {
    'that somebody waits for come soon after one of 8 s where little rest may be owed, and all else after the rest':
      'looks 8000, 10; wait 8000; trigger verify; wait 600; starts 0 8500; trigger nft-generation; wait 3000; ' +
      'starts 0 8500 10530',
  });
});
