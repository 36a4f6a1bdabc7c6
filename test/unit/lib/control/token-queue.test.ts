import { expect, test } from '@jest/globals';
import { TokenQueue } from '../../../../lib/control/token-queue.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';

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

test('while all fail, each waits twice as long as the one before, up to a second; one that does not fail ends that', async () => {
  const clock = new FakeClock();
  const queue = new TokenQueue({ capacity: 20, refillMs: 50 }, clock);
  const times: number[] = [];
  const ask = async (hasFailed: boolean) => {
    await queue.take();
    times.push(clock.now());
    queue.ended(hasFailed);
  };
  const asking = Promise.all([
    ...Array.from({ length: 14 }, () => ask(true)),
    ask(false),
    ...[ask(true), ask(true)],
  ]);
  await clock.advance(60_000);
  await asking;
  const pauses = times.map((time, index) => time - (times[index - 1] ?? 0));
  expect(pauses).toEqual([
    ...Array.from({ length: 5 }, () => 0),
    ...[50, 100, 200, 400, 800, 1000, 1000, 1000, 1000, 1000],
    ...[0, 0],
  ]);
});
