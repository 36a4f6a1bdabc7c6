/**
 * How much of a part runs. `gate` is what each submission has to pass, `full` is all but what takes hours, and `long` is
 * everything. scripts/test chooses it; a part that is named runs in full. docs/testing.md says what is where, and why.
 */
export type Extent = 'gate' | 'full' | 'long';

const chosen = process.env['TEST_EXTENT'];

/** Of this run; `full` for a Jest that was started without scripts/test. */
export const extent: Extent = chosen === 'gate' || chosen === 'long' ? chosen : 'full';

/** Whether everything is proven at length: `scripts/test --long`. */
export const isLong = extent === 'long';

/** Whether more than the gate runs: `--full`, `--long`, or a part by its name. */
export const isFull = extent !== 'gate';

/** What only `--long` runs: all of it then, and nothing otherwise. Whole files of that kind end in `.long.test.ts`. */
export function onlyLong<T>(...items: readonly T[]): readonly T[] {
  return isLong ? items : [];
}

/** What the gate leaves out: all of it with `--full` and `--long`. Whole files of that kind end in `.full.test.ts`. */
export function onlyFull<T>(...items: readonly T[]): readonly T[] {
  return isFull ? items : [];
}

/** A figure by extent: how often, how many, how long. */
export function byExtent<T>(figures: Readonly<Record<Extent, T>>): T {
  return figures[extent];
}

/**
 * How often a test repeats what it measures, by default and with `--long`, which is the same when left out. The environment
 * variable ROUNDS says otherwise, so that somebody can measure in parts.
 */
export function chooseRounds(usual: number, long = usual): number {
  const given = Number(process.env['ROUNDS'] ?? '');
  return Number.isInteger(given) && given > 0 ? given : isLong ? long : usual;
}
