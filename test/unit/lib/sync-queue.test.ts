import { type Requeue, TriggerQueue } from '../../../lib/sync-queue.ts';
import type { LoopCause, Cause } from '../../../agent/report/events.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { describe, test, expect } from '@jest/globals';

const quiet: Requeue<LoopCause> = { cause: 'tick', delayMs: 60_000 };

/** A queue whose looks take so long and end like this, one after the other; the last is repeated. */
class Paced {
  readonly clock = new FakeClock();
  readonly queue: TriggerQueue<LoopCause>;
  /** When each look began. */
  readonly starts: number[] = [];
  readonly causes: (readonly Cause[])[] = [];

  constructor(...looks: readonly { readonly costMs: number; readonly next?: Requeue<LoopCause> }[]) {
    const sync = async (causes: readonly Cause[]) => {
      const { costMs = 0, next = quiet } = looks[Math.min(this.starts.length, looks.length - 1)] ?? {};
      this.starts.push(this.clock.now());
      this.causes.push(causes);
      await new Promise<void>((resolve) => this.clock.schedule(costMs, resolve));
      return next;
    };
    this.queue = new TriggerQueue<LoopCause>({
      clock: this.clock,
      awaited: ['start', 'verify', 'health', 'own-rules'],
      urgent: ['own-rules'],
      sync,
    });
    this.queue.requeueAfter('start', 0);
  }
}

describe('the slow tick', () => {
  test.each([0, 50, 717, 8000])('comes 60 s after a look of %i ms', async (costMs) => {
    const { clock, starts } = new Paced({ costMs });
    await clock.advance(130_000 + 2 * costMs);
    expect(starts).toEqual([0, 60_000 + costMs, 2 * (60_000 + costMs)]);
  });

  test.each([30_000, 100_000])('comes 60 s after tools that hung for %i ms', async (costMs) => {
    const { clock, starts } = new Paced({ costMs }, { costMs: 0 });
    await clock.advance(costMs + 61_000);
    expect(starts).toEqual([0, costMs + 60_000]);
  });
});

describe('a write is checked', () => {
  test.each([20, 100, 999])('at once after a look of %i ms', async (costMs) => {
    const { clock, starts } = new Paced({ costMs, next: { cause: 'verify', delayMs: 0 } }, { costMs });
    await clock.advance(5000);
    expect(starts).toEqual([0, costMs]);
  });

  test('after a rest where looks cost much', async () => {
    const { clock, starts } = new Paced(
      { costMs: 3000, next: { cause: 'verify', delayMs: 0 } },
      { costMs: 10 },
    );
    await clock.advance(10_000);
    expect(starts).toEqual([0, 3000 + 2 * 3000 - 2000]);
  });
});

describe('a trigger', () => {
  test('right after a look waits until it has rested, as one during the look does', async () => {
    const { clock, queue, starts } = new Paced({ costMs: 717 });
    await clock.advance(400);
    queue.trigger('nft-generation');
    await clock.advance(3000);
    queue.trigger('nft-generation');
    await clock.advance(3000);
    expect(starts).toEqual([0, 3 * 717, 6 * 717]);
  });

  test('of each second leaves looks of 717 ms a third of the time', async () => {
    const { clock, queue, starts } = new Paced({ costMs: 717 });
    for (let second = 0; second < 300; second += 1) {
      queue.trigger('nft-generation');
      await clock.advance(1000);
    }
    expect((starts.length * 717) / 300_000).toBeLessThan(0.34);
  });

  test('that tells of own rules comes soon, also where hints have found nothing all the time', async () => {
    const { clock, queue, starts } = new Paced({ costMs: 10 });
    for (let tenth = 0; tenth < 300; tenth += 1) {
      queue.trigger('nft-generation');
      queue.recordOutcome(true);
      await clock.advance(100);
    }
    expect((starts.at(-1) ?? 0) - (starts.at(-2) ?? 0)).toBeGreaterThanOrEqual(1000);
    const at = clock.now();
    queue.trigger('own-rules');
    await clock.advance(3000);
    expect(starts.filter((start) => start > at)[0]).toBe(at + 5);
  });

  test('that tells of own rules leaves looks a third of the time, too', async () => {
    const { clock, queue, starts } = new Paced({ costMs: 717 });
    for (let tenth = 0; tenth < 3000; tenth += 1) {
      queue.trigger('own-rules');
      await clock.advance(100);
    }
    expect((starts.length * 717) / 300_000).toBeLessThan(0.34);
  });

  test('does not have looks that fail follow each other faster than one a second', async () => {
    const { clock, queue, starts } = new Paced({ costMs: 1, next: { cause: 'retry', delayMs: 10_000 } });
    for (let tenth = 0; tenth < 600; tenth += 1) {
      queue.trigger('nft-generation');
      queue.recordOutcome(true);
      await clock.advance(100);
    }
    expect(starts.length).toBeLessThan(75);
  });
});

describe('where little rest may be owed', () => {
  const ports = (clock: FakeClock, starts: number[]) => ({
    ...{ clock, awaited: ['verify'] as const, urgent: [], mostRestMs: 2500 },
    sync: async () => {
      starts.push(clock.now());
      const costMs = starts.length === 1 ? 8000 : 10;
      await new Promise<void>((resolve) => clock.schedule(costMs, resolve));
      return quiet;
    },
  });

  test('what somebody waits for comes soon after a look of 8 s, and all else after the rest', async () => {
    const clock = new FakeClock();
    const starts: number[] = [];
    const queue = new TriggerQueue<LoopCause>(ports(clock, starts));
    queue.requeueAfter('tick', 0);
    await clock.advance(8000);
    queue.trigger('verify');
    await clock.advance(600);
    expect(starts).toEqual([0, 8500]);
    queue.trigger('nft-generation');
    await clock.advance(3000);
    expect(starts).toEqual([0, 8500, 10_530]);
  });
});

describe('a death', () => {
  const failing = { costMs: 3000, next: { cause: 'retry', delayMs: 10_000 } } as const;

  test('is looked at without rest', async () => {
    const { clock, queue, starts, causes } = new Paced(failing);
    await clock.advance(4000);
    queue.press('health');
    await clock.advance(10);
    expect(starts).toEqual([0, 4000]);
    expect(causes.at(-1)).toEqual(['retry', 'health']);
  });

  test('during a look is looked at right after it, also when it fails', async () => {
    const { clock, queue, starts } = new Paced(failing);
    await clock.advance(1000);
    queue.press('health');
    await clock.advance(5000);
    expect(starts).toEqual([0, 3000]);
  });

  test('is paid for: what comes after it rests for both', async () => {
    const { clock, queue, starts } = new Paced({ costMs: 1000 });
    await clock.advance(1000);
    queue.press('health');
    await clock.advance(1500);
    queue.trigger('addresses');
    await clock.advance(10_000);
    expect(starts).toEqual([0, 1000, 2000 + 4 * 1000]);
  });
});
