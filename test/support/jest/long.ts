/** Whether everything is proven at length: `scripts/test --long`. */
export const isLong = process.env['TEST_LONG'] === 'true';

/**
 * What only `--long` runs: all of it then, and nothing otherwise. Whole files of that kind end in `.long.test.ts`.
 * docs/testing.md lists what is left out of the default run, and why.
 */
export function onlyLong<T>(...items: readonly T[]): readonly T[] {
  return isLong ? items : [];
}
