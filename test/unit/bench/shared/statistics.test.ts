import { test, expect } from '@jest/globals';
import {
  median,
  measureSpread,
  pickPercentile,
  boundMedian,
} from '../../../../tools/bench/shared/statistics.ts';

test('the median is the middle one, or the mean of the middle two', () => {
  expect([median([5, 1, 30]), median([5, 1, 30, 7])]).toEqual([5, 6]);
  expect(median([])).toBeNaN();
});

test('a spread is the median with the least and the most; of nothing there is none', () => {
  expect(measureSpread([3, 1, 9])).toEqual({ median: 3, min: 1, max: 9 });
  expect(measureSpread([])).toBeNull();
});

test.each([
  [50, 10],
  [95, 19],
  [99, 20],
])('a percentile is one of the numbers: of 1 to 20 the %dth is %d', (percent, expected) => {
  const numbers = Array.from({ length: 20 }, (_, index) => 20 - index);
  expect(pickPercentile(numbers, percent)).toBe(expected);
  expect(pickPercentile([], percent)).toBeUndefined();
});

// Ranks from a table of the sign test.
test.each([
  [5, null],
  [6, { low: 1, high: 6 }],
  [9, { low: 2, high: 8 }],
  [20, { low: 6, high: 15 }],
  [60, { low: 22, high: 39 }],
])('the median is bounded by ranks: of %d numbers', (count, bounds) => {
  const descending = Array.from({ length: count }, (_, index) => count - index);
  expect(boundMedian(descending)).toEqual(bounds);
});
