/**
 * Keys that wait for a turn. Groups of keys have their turns one after the other, and keys of one group in the order of their coming: so
 * a group with many keys keeps no other from its turn.
 */
export class WaitingKeys {
  readonly #toGroup: (key: string) => string;
  /** The group whose turn it is first. Each has keys, to when each was added. */
  readonly #groups = new Map<string, Map<string, number>>();
  readonly #keyToGroup = new Map<string, string>();

  constructor(toGroup: (key: string) => string) {
    this.#toGroup = toGroup;
  }

  /** How many there are. */
  get size(): number {
    return this.#keyToGroup.size;
  }

  /** When the one that has waited longest was added; null where there is none. */
  get firstAdded(): number | null {
    let first: number | null = null;
    for (const keys of this.#groups.values())
      for (const added of keys.values()) {
        first = first === null ? added : Math.min(first, added);
        break;
      }
    return first;
  }

  /** Adds a key, unless it waits. */
  add(key: string, now: number): void {
    if (this.#keyToGroup.has(key)) return;
    const group = this.#toGroup(key);
    this.#keyToGroup.set(key, group);
    const keys = this.#groups.get(group);
    if (keys === undefined) this.#groups.set(group, new Map([[key, now]]));
    else keys.set(key, now);
  }

  /** Takes the key whose turn it is; null where none waits. */
  take(): string | null {
    for (const [group, keys] of this.#groups) {
      this.#groups.delete(group);
      for (const [key] of keys) {
        keys.delete(key);
        this.#keyToGroup.delete(key);
        if (keys.size > 0) this.#groups.set(group, keys);
        return key;
      }
    }
    return null;
  }

  /** Forgets all. */
  clear(): void {
    this.#groups.clear();
    this.#keyToGroup.clear();
  }
}
