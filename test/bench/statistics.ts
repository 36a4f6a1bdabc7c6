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
