import { expect, test } from '@jest/globals';
import { measureSpread, median } from '../../bench/statistics.ts';

test('the median is the middle one, or the mean of the middle two', () => {
  expect(median([5, 1, 30])).toBe(5);
  expect(median([5, 1, 30, 7])).toBe(6);
  expect(median([])).toBeNaN();
});

test('a spread is the median with the least and the most; of nothing there is none', () => {
  expect(measureSpread([3, 1, 9])).toEqual({ median: 3, min: 1, max: 9 });
  expect(measureSpread([])).toBeNull();
});
