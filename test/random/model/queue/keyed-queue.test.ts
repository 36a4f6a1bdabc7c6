import { jest, test, expect } from '@jest/globals';
import { fc } from '../../../support/random/fc.ts';
import { type TurnResult, KeyedQueue, maxRetryMs } from '../../../../lib/queue.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';

// Hundreds of runs take seconds; on a busy machine, several times that.
jest.setTimeout(120_000);

const keys = ['a', 'b', 'c', 'd', 'e'] as const;
const maxTurnMs = 500;

/** What happens next: time passes, then keys are added. */
const step = fc.record({
  afterMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 400 })),
  added: fc.subarray([...keys], { minLength: 1 }),
});

/** How a turn goes: how long it takes, and what it comes to; null when it throws. */
const turn = fc.record({
  costMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: maxTurnMs })),
  result: fc.oneof(
    fc.constant<TurnResult | null>({ kind: 'done' }),
    fc.constant<TurnResult | null>({ kind: 'failed' }),
    fc.constant<TurnResult | null>(null),
    fc.integer({ min: 0, max: 5000 }).map<TurnResult | null>((afterMs) => ({ kind: 'again', afterMs })),
  ),
});

interface Turn {
  readonly key: string;
  readonly from: number;
  to: number;
  result: TurnResult | null;
}

/** A queue with its history. Turns go as they are given; when these are spent, each takes no time and is done. */
class History {
  readonly clock = new FakeClock(undefined, 2);
  readonly added: { readonly key: string; readonly at: number; readonly turnsBefore: number }[] = [];
  readonly turns: Turn[] = [];
  readonly queue: KeyedQueue;
  readonly problems: string[] = [];
  readonly #working = new Set<string>();

  constructor(workers: number, plans: readonly { costMs: number; result: TurnResult | null }[]) {
    const left = [...plans];
    this.queue = new KeyedQueue({
      clock: this.clock,
      random: () => 0.5,
      workers,
      work: async (key) => {
        const { costMs, result } = left.shift() ?? { costMs: 0, result: { kind: 'done' } };
        if (this.#working.has(key)) this.problems.push(`two workers on ${key}`);
        if (this.#working.size === workers) this.problems.push(`more than ${workers} workers`);
        this.#working.add(key);
        const own: Turn = { key, from: this.clock.now(), to: Infinity, result };
        this.turns.push(own);
        if (costMs > 0) await new Promise<void>((resolve) => this.clock.schedule(costMs, resolve));
        this.#working.delete(key);
        own.to = this.clock.now();
        if (result === null) throw new Error('a fault');
        return result;
      },
      onError: () => undefined,
    });
  }

  add(key: string): void {
    this.added.push({ key, at: this.clock.now(), turnsBefore: this.turns.length });
    this.queue.add(key);
  }

  /** What was added and got no turn that began afterwards, or got it late: everybody before it has two turns at most. */
  findForgotten(workers: number): string[] {
    const boundMs = ((2 * keys.length) / workers + 2) * maxTurnMs;
    return this.added.flatMap(({ key, at, turnsBefore }) => {
      const next = this.turns.slice(turnsBefore).find((one) => one.key === key);
      if (next === undefined) return [`${key} of ${at} ms got no turn`];
      return next.from - at > boundMs ? [`${key} of ${at} ms waited until ${next.from} ms`] : [];
    });
  }

  /** Turns that failed, or asked for another, without one that came in time. */
  findLeft(): string[] {
    return this.turns.flatMap(({ key, to, result }, index) => {
      if (result?.kind === 'done') return [];
      const next = this.turns.slice(index + 1).find((one) => one.key === key);
      const boundMs = maxRetryMs + keys.length * maxTurnMs;
      return next !== undefined && next.from - to <= boundMs ? [] : [`${key} of ${to} ms was left`];
    });
  }
}

test('no key is lost, none has two workers, and none waits for one that fails', async () => {
  let turnCount = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 3 }),
      fc.array(step, { maxLength: 12 }),
      fc.array(turn, { maxLength: 25 }),
      async (workers, steps, plans) => {
        const history = new History(workers, plans);
        for (const { afterMs, added } of steps) {
          await history.clock.advance(afterMs);
          for (const key of added) history.add(key);
        }
        await history.clock.advance(3_600_000 * 5);
        turnCount += history.turns.length;
        expect(history.problems).toEqual([]);
        expect(history.findForgotten(workers)).toEqual([]);
        expect(history.findLeft()).toEqual([]);
        expect(history.queue.statistics).toMatchObject({ depth: 0, working: 0, delayed: 0 });
        expect(history.clock.pending).toBe(0);
      },
    ),
    { numRuns: 300 },
  );
  expect(turnCount).toBeGreaterThan(1000);
});
