import { test, expect } from '@jest/globals';
import { findSilence } from '../../../../tools/demo/services/silence.ts';

test('an address that answers all the time was never silent, also where single requests are given up', () => {
  expect([findSilence([]), findSilence([1000, 1040, 1450, 1490])]).toEqual([null, null]);
});

test('the first silence is the one of the move; those after it are of pods that are gone', () => {
  expect(findSilence([1000, 1040, 2140, 2200, 3400])).toBe(1100);
});
