import { isFull } from '../jest/extent.ts';

/** How many cases a property is tried with: a tenth of them in the gate. */
export function chooseRuns(full: number): number {
  return isFull ? full : Math.ceil(full / 10);
}

/** All of these, and in the gate the first of each so many. */
export function chooseOneIn<T>(number: number, items: readonly T[]): readonly T[] {
  return items.filter((_, index) => isFull || index % number === 0);
}
