import { type Clock } from '../../lib/control/clock.ts';

/**
 * Makes a reading cheap for many who ask: while one is under way, and for so long after it began, all get that one. One
 * that failed is not kept.
 */
export function shareReading<T>(
  read: () => Promise<T>,
  { clock, freshMs }: { readonly clock: Clock; readonly freshMs: number },
): () => Promise<T> {
  let last: { readonly begunAt: number; readonly reading: Promise<T>; isUnderWay: boolean } | null = null;
  return () => {
    const now = clock.now();
    if (last !== null && (last.isUnderWay || now - last.begunAt < freshMs)) return last.reading;
    const begun = { begunAt: now, reading: read(), isUnderWay: true };
    last = begun;
    begun.reading.then(
      () => (begun.isUnderWay = false),
      () => {
        if (last === begun) last = null;
      },
    );
    return begun.reading;
  };
}
