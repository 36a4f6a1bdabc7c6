import { test, expect } from '@jest/globals';
import { takeToken, backOff } from '../../../lib/clock.ts';

const budget = { capacity: 2, refillMs: 1000 };

test('a token that was being earned is not lost when the budget is asked in between', () => {
  let bucket = { tokens: 0, filledAt: 0 };
  for (let now = 100; now < 1000; now += 100) bucket = takeToken(budget, bucket, now).bucket;
  expect(takeToken(budget, bucket, 1000).waitMs).toBe(0);
});

test('retries back off to a limit', () => {
  expect([0, 1, 2, 3, 100].map((failures) => backOff(failures, 50, 300))).toEqual([50, 100, 200, 300, 300]);
});
