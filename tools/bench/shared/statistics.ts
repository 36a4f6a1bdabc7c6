/** Of some numbers: the middle one, and how far they lie apart. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** The mean of the middle two where there are two; NaN of nothing. */
export function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const at = (index: number) => sorted[Math.floor(index)] ?? Number.NaN;
  return (at((sorted.length - 1) / 2) + at(sorted.length / 2)) / 2;
}

/** Null of nothing. */
export function measureSpread(numbers: readonly number[]): Spread | null {
  if (numbers.length === 0) return null;
  return { median: median(numbers), min: Math.min(...numbers), max: Math.max(...numbers) };
}

/** The percentile by nearest rank, which is one of the numbers: of 20 the 99th is the greatest. Undefined of nothing. */
export function pickPercentile(numbers: readonly number[], percent: number): number | undefined {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.ceil((percent / 100) * sorted.length) - 1];
}

/**
 * Between which two of the numbers the median of all that could have been measured lies, with 95 % or more: by their ranks, whatever
 * their distribution (sign test). Null where there are too few of them for that: five or less.
 */
export function boundMedian(
  numbers: readonly number[],
): { readonly low: number; readonly high: number } | null {
  const sorted = numbers.toSorted((a, b) => a - b);
  let rank = 0;
  let chance = 0.5 ** sorted.length;
  for (let below = chance; below <= 0.025; below += chance) {
    chance *= (sorted.length - rank) / (rank + 1);
    rank += 1;
  }
  const [low, high] = [sorted[rank - 1], sorted[sorted.length - rank]];
  return rank === 0 || low === undefined || high === undefined ? null : { low, high };
}
