/** How often steps are taken that can wait: half of what all steps together may write. */
const intervalMs = 100;

/** When keys with such a step have their turn: one after the other, in the order in which they came. */
export class LowPriority {
  readonly #keyToMs = new Map<string, number>();
  /** Of the last turn. */
  #lastMs = -Infinity;

  /** How long a key has to wait; 0 when its turn has come. It has to ask again then. */
  wait(key: string, nowMs: number): number {
    // One place for each key that waits: those that wait no longer have none.
    const dueMs = this.#keyToMs.get(key) ?? this.#lastMs + (this.#keyToMs.size + 1) * intervalMs;
    const earliestMs = Math.max(dueMs, this.#lastMs + intervalMs);
    if (earliestMs > nowMs) {
      this.#keyToMs.set(key, earliestMs);
      return earliestMs - nowMs;
    }
    this.#keyToMs.delete(key);
    this.#lastMs = nowMs;
    return 0;
  }

  /** There is nothing to wait for any more. */
  forget(key: string): void {
    this.#keyToMs.delete(key);
  }
}
