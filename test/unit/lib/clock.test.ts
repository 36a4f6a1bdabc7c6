import { test, expect } from '@jest/globals';
import { fillBucket, takeToken, refill, backOff } from '../../../lib/clock.ts';

const budget = { capacity: 2, refillMs: 1000 };

test('a budget grants its capacity at once and then one token per interval', () => {
  let bucket = fillBucket(budget, 0);
  const waits = [0, 0, 0, 400, 1000, 1001].map((now) => {
    const grant = takeToken(budget, bucket, now);
    bucket = grant.bucket;
    return grant.waitMs;
  });
  expect(waits).toEqual([0, 0, 1000, 600, 0, 999]);
});

test('a quiet time refills a budget to its capacity and no further', () => {
  const empty = { tokens: 0, filledAt: 0 };
  expect(refill(budget, empty, 1_000_000).tokens).toBe(2);
});

test('a token that was being earned is not lost when the budget is asked in between', () => {
  let bucket = { tokens: 0, filledAt: 0 };
  for (let now = 100; now < 1000; now += 100) bucket = takeToken(budget, bucket, now).bucket;
  expect(takeToken(budget, bucket, 1000).waitMs).toBe(0);
});

test('retries back off to a limit', () => {
  expect([0, 1, 2, 3, 100].map((failures) => backOff(failures, 50, 300))).toEqual([50, 100, 200, 300, 300]);
});
