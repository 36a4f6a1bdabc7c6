/** Whether everything is proven at length: `scripts/test --long`. */
export const isLong = process.env['TEST_LONG'] === 'true';

/**
 * What only `--long` runs: all of it then, and nothing otherwise. Whole files of that kind end in `.long.test.ts`.
 * docs/testing.md lists what is left out of the default run, and why.
 */
export function onlyLong<T>(...items: readonly T[]): readonly T[] {
  return isLong ? items : [];
}

/**
 * How often a test repeats what it measures, by default and with `--long`, which is the same when left out. The environment
 * variable ROUNDS says otherwise, so that somebody can measure in parts.
 */
export function chooseRounds(usual: number, long = usual): number {
  const given = Number(process.env['ROUNDS'] ?? '');
  return Number.isInteger(given) && given > 0 ? given : isLong ? long : usual;
}
