/** Keys to sets of names. A key without names is not there. */
export class MultiMap {
  readonly #map = new Map<string, Set<string>>();

  /** A view, which changes with it. */
  get map(): ReadonlyMap<string, ReadonlySet<string>> {
    return this.#map;
  }

  /** A name that had some keys has others now. */
  move(name: string, before: Iterable<string>, after: Iterable<string>): void {
    for (const key of before) {
      const names = this.#map.get(key);
      names?.delete(name);
      if (names?.size === 0) this.#map.delete(key);
    }
    for (const key of after) {
      const names = this.#map.get(key);
      if (names === undefined) this.#map.set(key, new Set([name]));
      else names.add(name);
    }
  }
}

/** Puts what a key stands for now; null removes it. */
export function put<T>(map: Map<string, T>, key: string, value: T | null): void {
  if (value === null) map.delete(key);
  else map.set(key, value);
}

/** The texts that one of two lists has and the other has not, each once. Its cost grows with their lengths, not with the square. Pure. */
export function listDiffering(old: Iterable<string> = [], now: Iterable<string> = []): string[] {
  const [were, are] = [new Set(old), new Set(now)];
  return [...[...were].filter((text) => !are.has(text)), ...[...are].filter((text) => !were.has(text))];
}

/** Whether two lists have the same texts in the same order. */
export function isSameList(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((text, at) => text === other[at]);
}
