import { expect, test } from '@jest/globals';
import { countCommonBits } from '../../../../lib/address/prefix.ts';

test.each([
  ['10.77.0.50', '10.77.0.50', 32],
  ['10.77.0.50', '10.77.0.51', 31],
  ['10.77.0.50', '10.77.0.178', 24],
  ['10.77.0.50', '138.77.0.50', 0],
  ['fd77::50', 'fd77::11', 121],
  ['fd77::50', '10.77.0.50', 0],
])('%s and %s share %i leading bits', (left, right, bits) => {
  expect(countCommonBits(left, right)).toBe(bits);
  expect(countCommonBits(right, left)).toBe(bits);
});
