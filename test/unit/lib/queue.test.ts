import { FakeClock } from '../../support/fakes/clock.ts';
import { KeyedQueue, type TurnResult, TokenQueue, SharedLock } from '../../../lib/queue.ts';
import { test, expect } from '@jest/globals';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** A queue whose turns take 100 ms, and end as a test says: by key, `done` unless given. */
class Bench {
  readonly clock = new FakeClock();
  readonly queue: KeyedQueue;
  readonly results = new Map<string, TurnResult>();
  /** When each turn began, of which key, after how many failures. */
  readonly starts: [number, string, number][] = [];
  readonly errors: string[] = [];

  constructor(workers = 1, random = 1, toGroup?: (key: string) => string) {
    this.queue = new KeyedQueue({
      clock: this.clock,
      random: () => random,
      workers,
      ...(toGroup === undefined ? {} : { toGroup }),
      work: async (key, failures) => {
        this.starts.push([this.clock.now(), key, failures]);
        await new Promise<void>((resolve) => this.clock.schedule(100, resolve));
        return this.results.get(key) ?? { kind: 'done' };
      },
      onError: (key, error) => void this.errors.push(`${key}: ${String(error)}`),
    });
  }
}

test('gives a key that is added often one more turn, and keys in the order of their coming', async () => {
  const { clock, queue, starts } = new Bench();
  for (const key of ['a', 'b', 'a', 'b', 'c']) queue.add(key);
  await clock.advance(1000);
  expect(starts).toEqual([
    [0, 'a', 0],
    [100, 'b', 0],
    [200, 'c', 0],
    [300, 'a', 0],
  ]);
});

test('works on so many keys at once, and never twice on one', async () => {
  const { clock, queue, starts } = new Bench(2);
  for (const key of ['a', 'b', 'c']) queue.add(key);
  await clock.advance(50);
  expect(queue.statistics).toMatchObject({ depth: 1, working: 2, longestWaitMs: 50, longestTurnMs: 50 });
  queue.add('a');
  queue.add('a');
  await clock.advance(950);
  expect(starts).toEqual([
    [0, 'a', 0],
    [0, 'b', 0],
    [100, 'c', 0],
    [100, 'a', 0],
  ]);
});

test('tries a failure again, each time after twice as long, at most 5 min; success forgets it', async () => {
  const { clock, queue, starts, results } = new Bench();
  results.set('a', { kind: 'failed' });
  queue.add('a');
  await clock.advance(3 * 3_600_000);
  const waits = starts.slice(1).map(([at], index) => at - (starts[index]?.[0] ?? 0) - 100);
  expect(waits.slice(0, 14)).toEqual([
    ...[50, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 102_400, 204_800, 300_000],
  ]);
  expect(new Set(waits.slice(13))).toEqual(new Set([300_000]));
  expect(starts.map(([, , failures]) => failures)).toEqual(starts.map((_, index) => index));
  results.set('a', { kind: 'done' });
  await clock.advance(600_000);
  queue.add('a');
  await clock.advance(1000);
  expect(starts.at(-1)?.[2]).toBe(0);
});

test('of many that fail, tries one a second, and keeps no other waiting; the first success brings others along', async () => {
  const { clock, queue, starts, results } = new Bench(4);
  const bad = Array.from({ length: 100 }, (_, index) => `bad-${index}`);
  for (const key of bad) results.set(key, { kind: 'failed' });
  for (const key of bad) queue.add(key);
  await clock.advance(60_000);
  const tries = starts.length;
  expect(tries).toBeLessThanOrEqual(100 + 5 + 60);
  await clock.advance(60_000);
  expect(starts.length - tries).toBeGreaterThan(50);
  expect(starts.length - tries).toBeLessThanOrEqual(60);
  queue.add('good');
  await clock.advance(0);
  expect(starts.at(-1)).toEqual([120_000, 'good', 0]);
  results.clear();
  await clock.advance(5000);
  expect(new Set(starts.filter(([at]) => at > 120_000).map(([, key]) => key)).size).toBe(100);
  expect(clock.pending).toBe(0);
});

test('spreads retries: half of the wait is by chance', async () => {
  const { clock, queue, starts, results } = new Bench(1, 0);
  results.set('a', { kind: 'failed' });
  queue.add('a');
  await clock.advance(500);
  expect(starts.map(([at]) => at)).toEqual([0, 125, 275, 475]);
});

test('news of a key do not wait for its retry, nor does one key for another', async () => {
  const { clock, queue, starts, results } = new Bench();
  results.set('a', { kind: 'failed' });
  queue.add('a');
  await clock.advance(100_000);
  starts.length = 0;
  queue.add('b');
  queue.add('a');
  await clock.advance(200);
  expect(starts.map(([at, key]) => [at, key])).toEqual([
    [100_000, 'b'],
    [100_100, 'a'],
  ]);
});

test('gives a key another turn when its turn asked for one, once', async () => {
  const { clock, queue, starts, results } = new Bench();
  results.set('a', { kind: 'again', afterMs: 1000 });
  queue.add('a');
  await clock.advance(500);
  results.set('a', { kind: 'done' });
  await clock.advance(10_000);
  expect(starts.map(([at]) => at)).toEqual([0, 1100]);
  expect(clock.pending).toBe(0);
});

test('a turn that throws has failed: it is told, and tried again', async () => {
  const clock = new FakeClock();
  const errors: unknown[] = [];
  let turns = 0;
  const queue = new KeyedQueue({
    clock,
    random: () => 1,
    workers: 1,
    work: () => {
      turns += 1;
      return turns === 1 ? Promise.reject(new Error('x')) : Promise.resolve({ kind: 'done' });
    },
    onError: (key, error) => void errors.push([key, String(error)]),
  });
  queue.add('a');
  await clock.advance(1000);
  expect(errors).toEqual([['a', 'Error: x']]);
  expect(turns).toBe(2);
  expect(queue.statistics).toMatchObject({ turns: 2, failures: 1, working: 0, delayed: 0 });
});

test('stops after the turns under way, and begins no other', async () => {
  const { clock, queue, starts, results } = new Bench();
  results.set('a', { kind: 'failed' });
  queue.add('a');
  queue.add('b');
  await clock.advance(50);
  queue.add('a');
  let isStopped = false;
  void queue.stop().then(() => (isStopped = true));
  await clock.advance(10);
  expect(isStopped).toBe(false);
  await clock.advance(100_000);
  queue.add('c');
  await clock.advance(100_000);
  expect(isStopped).toBe(true);
  expect(starts.map(([, key]) => key)).toEqual(['a']);
  expect(clock.pending).toBe(0);
});

test('gives groups of keys their turns one after the other: many keys of one keep no other waiting', async () => {
  const { clock, queue, starts } = new Bench(1, 1, (key) => key.slice(0, 1));
  for (let index = 0; index < 300; index += 1) queue.add(`a${index}`);
  queue.add('b0');
  queue.add('b1');
  queue.add('c0');
  await clock.advance(700);
  expect(starts.map(([, key]) => key)).toEqual(['a0', 'a1', 'b0', 'c0', 'a2', 'b1', 'a3', 'a4']);
  expect(queue.statistics).toMatchObject({ depth: 295, longestWaitMs: 700 });
});

test('lets a burst of its capacity through at once, then one in each interval, in order', async () => {
  const clock = new FakeClock();
  const queue = new TokenQueue({ capacity: 3, refillMs: 50 }, clock);
  const times: [number, number][] = [];
  for (let index = 0; index < 6; index += 1) void queue.take().then(() => times.push([index, clock.now()]));
  await clock.advance(10_000);
  expect(times).toEqual([
    ...[
      [0, 0],
      [1, 0],
      [2, 0],
    ],
    ...[
      [3, 50],
      [4, 100],
      [5, 150],
    ],
  ]);
  expect(clock.pending).toBe(0);
});

test.each([3, 7, 20, 63])(
  '%i a second are no more in any second, whatever fractions an interval has',
  async (rate) => {
    const clock = new FakeClock();
    const queue = new TokenQueue({ capacity: 1, refillMs: 1000 / rate }, clock);
    const times: number[] = [];
    for (let index = 0; index < 10 * rate; index += 1) void queue.take().then(() => times.push(clock.now()));
    await clock.advance(9500);
    expect(times.length).toBeGreaterThan(9 * rate);
    const spans = times.map((ms, at) => (times[at + rate + 1] ?? Infinity) - ms);
    expect(Math.min(...spans)).toBeGreaterThanOrEqual(1000);
  },
);

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

test('what was answered under a lock is not kept by it', async () => {
  const lock = new SharedLock();
  const answers: WeakRef<object>[] = [];
  const answer = () => {
    const one = { list: [] };
    answers.push(new WeakRef(one));
    return Promise.resolve(one);
  };
  for (let turn = 0; turn < 5; turn += 1) await lock.share(answer);
  await lock.alone(answer);
  await new Promise(setImmediate);
  collect();
  expect(answers.map((one) => one.deref())).toEqual(Array<undefined>(6).fill(undefined));
  await lock.share(answer);
});
