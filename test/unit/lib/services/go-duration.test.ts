import { describe, expect, test } from '@jest/globals';
import { parseGoDuration } from '../../../../lib/services/go-duration.ts';

describe('a duration as Go writes it', () => {
  test.each([
    ['300ms', 300],
    ['1.1s', 1100],
    ['1m30s', 90_000],
    ['2h', 7_200_000],
    ['0s', 0],
  ])('%s is %d ms', (text, ms) => {
    expect(parseGoDuration(text)).toBe(ms);
  });

  test.each(['', '300', '-1s', '1.5ms', '1 s', 's', '1d', '1s1'])('%j is none', (text) => {
    expect(parseGoDuration(text)).toBeNull();
  });
});
