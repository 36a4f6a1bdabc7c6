import { test, expect } from '@jest/globals';
import { hasLargeRegisters } from '../../../../tools/lab/build/whole-registers.ts';

test('only processors with AMX have more registers than user-mode Linux has room for', () => {
  const describe = (flags: string) => `processor\t: 0\nflags\t\t: fpu vme${flags} sse2\nbugs\t\t:\n`;
  expect(hasLargeRegisters(describe(' avx512f amx_bf16 amx_tile amx_int8'))).toBe(true);
  expect(hasLargeRegisters(describe(' avx512f'))).toBe(false);
  // arm64 has Features in its place.
  expect(hasLargeRegisters('processor\t: 0\nFeatures\t: fp asimd\n')).toBe(false);
});
