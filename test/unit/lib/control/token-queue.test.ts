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
