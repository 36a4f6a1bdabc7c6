import { FakeClock } from '../../support/fakes/clock.ts';
import { KeyedQueue, type TurnResult, TokenQueue, SharedLock } from '../../../lib/queue.ts';
import { type Steps, testSteps, toChecks } from '../steps.ts';
import { test, expect } from '@jest/globals';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** A queue whose turns take 100 ms, and end as a test says: by key, `done` unless given. */
class Bench {
  readonly clock = new FakeClock();
  readonly queue: KeyedQueue;
  readonly results = new Map<string, TurnResult | Error>();
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
        const result = this.results.get(key) ?? { kind: 'done' };
        if (result instanceof Error) throw result;
        return result;
      },
      onError: (key, error) => void this.errors.push(`${key}: ${String(error)}`),
    });
  }
}

function start(...options: ConstructorParameters<typeof Bench>): Steps {
  const { clock, queue, results, starts, errors } = new Bench(...options);
  let isStopped = false;
  return {
    add: (keys) => {
      for (const key of keys.split(' ')) queue.add(key);
    },
    /** `many a 300`: a0, a1, … */
    many: (text) => {
      const [group = '', count] = text.split(' ');
      for (let index = 0; index < Number(count); index += 1) queue.add(`${group}${index}`);
    },
    fail: (key) => results.set(key, { kind: 'failed' }),
    throw: (key) => results.set(key, new Error('x')),
    done: (key) => results.set(key, { kind: 'done' }),
    /** `again a 1000` */
    again: (text) => {
      const [key = '', afterMs] = text.split(' ');
      results.set(key, { kind: 'again', afterMs: Number(afterMs) });
    },
    wait: (ms) => clock.advance(Number(ms)),
    forget: () => starts.splice(0),
    stop: () => void queue.stop().then(() => (isStopped = true)),
    ...toChecks({
      stopped: (text) => [String(isStopped), text],
      turns: (text) => [starts.map(([at, key]) => `${at} ${key}`).join(', '), text],
      errors: (text) => [errors.join(', '), text],
      /** `has depth 1, working 2` */
      has: (text) => {
        const figures = text.split(', ').map((figure) => figure.split(' '));
        const wanted = Object.fromEntries(figures.map(([name = '', one]) => [name, Number(one)] as const));
        return [queue.statistics, expect.objectContaining(wanted)];
      },
      rests: () => [clock.pending, 0],
    }),
  };
}

testSteps(start, {
  'gives a key that is added often one more turn, and keys in the order of their coming':
    'add a b a b c; wait 1000; turns 0 a, 100 b, 200 c, 300 a',
  'news of a key do not wait for its retry, nor does one key for another':
    'fail a; add a; wait 100000; forget; add b a; wait 200; turns 100000 b, 100100 a',
  'gives a key another turn when its turn asked for one, once':
    'again a 1000; add a; wait 500; done a; wait 10000; turns 0 a, 1100 a; rests',
  'a turn that throws has failed: it is told, and tried again':
    'throw a; add a; wait 100; done a; wait 1000; errors a: Error: x; turns 0 a, 150 a; ' +
    'has turns 2, failures 1, working 0, delayed 0',
  'stops after the turns under way, and begins no other':
    'fail a; add a b; wait 50; add a; stop; wait 10; stopped false; wait 100000; add c; wait 100000; stopped true; ' +
    'turns 0 a; rests',
});

testSteps(() => start(2), {
  'works on so many keys at once, and never twice on one':
    'add a b c; wait 50; has depth 1, working 2, longestWaitMs 50, longestTurnMs 50; add a a; wait 950; ' +
    'turns 0 a, 0 b, 100 c, 100 a',
});

testSteps(() => start(1, 0), {
  'spreads retries: half of the wait is by chance': 'fail a; add a; wait 500; turns 0 a, 125 a, 275 a, 475 a',
});

testSteps(() => start(1, 1, (key) => key.slice(0, 1)), {
  'gives groups of keys their turns one after the other: many keys of one keep no other waiting':
    'many a 300; add b0 b1 c0; wait 700; has depth 295, longestWaitMs 700; ' +
    'turns 0 a0, 100 a1, 200 b0, 300 c0, 400 a2, 500 b1, 600 a3, 700 a4',
});

test.each([1, 4])('turns that await no answer let timers in between, with %i workers', async (workers) => {
  const clock = new FakeClock();
  let turns = 0;
  const work = () => {
    clock.stall(1);
    turns += 1;
    return Promise.resolve({ kind: 'done' } as const);
  };
  const queue = new KeyedQueue({ clock, random: () => 1, workers, work, onError: () => undefined });
  const seen: number[] = [];
  clock.schedule(5, () => seen.push(turns));
  clock.schedule(500, () => seen.push(turns));
  for (let key = 0; key < 1000; key += 1) queue.add(String(key));
  await clock.advance(2000);
  expect(turns).toBe(1000);
  expect(seen[0]).toBeLessThanOrEqual(20);
  expect(seen[1]).toBeLessThanOrEqual(520);
  expect(clock.pending).toBe(0);
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

test('lets a burst of its capacity through at once, then one in each interval, in order', async () => {
  const clock = new FakeClock();
  const queue = new TokenQueue({ capacity: 3, refillMs: 50 }, clock);
  const times: string[] = [];
  for (let index = 0; index < 6; index += 1)
    void queue.take().then(() => times.push(`${index} at ${clock.now()}`));
  await clock.advance(10_000);
  expect(times.join(', ')).toBe('0 at 0, 1 at 0, 2 at 0, 3 at 50, 4 at 100, 5 at 150');
  expect(clock.pending).toBe(0);
});

test.each([3, 7, 20, 63])('%i a second are no more in any, whatever parts an interval has', async (rate) => {
  const clock = new FakeClock();
  const queue = new TokenQueue({ capacity: 1, refillMs: 1000 / rate }, clock);
  const times: number[] = [];
  for (let index = 0; index < 10 * rate; index += 1) void queue.take().then(() => times.push(clock.now()));
  await clock.advance(9500);
  expect(times.length).toBeGreaterThan(9 * rate);
  const spans = times.map((ms, at) => (times[at + rate + 1] ?? Infinity) - ms);
  expect(Math.min(...spans)).toBeGreaterThanOrEqual(1000);
});

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

test('who is alone begins when those that share have ended', async () => {
  const lock = new SharedLock();
  const { promise, resolve } = Promise.withResolvers<string>();
  const order: string[] = [];
  const note = (one: string) => void order.push(one);
  const ends = [lock.share(() => promise).then(note), lock.alone(() => Promise.resolve('alone')).then(note)];
  await new Promise(setImmediate);
  resolve('shared');
  await Promise.all(ends);
  expect(order).toEqual(['shared', 'alone']);
});
