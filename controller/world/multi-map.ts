/** Keys to sets of names. A key without names is not there. */
export class MultiMap {
  readonly #map = new Map<string, Set<string>>();

  /** A view, which changes with it. */
  get map(): ReadonlyMap<string, ReadonlySet<string>> {
    return this.#map;
  }

  /** The names of a key. */
  get(key: string): readonly string[] {
    return [...(this.#map.get(key) ?? [])];
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
