/** How often steps are taken that can wait: half of what all steps together may write. */
const intervalMs = 100;

/** When keys with such a step have their turn: one after the other, in the order in which they came. */
export class Patience {
  readonly #keyToMs = new Map<string, number>();
  #nextMs = -Infinity;

  /** How long a key has to wait; 0 when its turn has come. It has to ask again then. */
  wait(key: string, nowMs: number): number {
    const dueMs = this.#keyToMs.get(key) ?? this.#plan(key, nowMs);
    if (dueMs > nowMs) return dueMs - nowMs;
    this.#keyToMs.delete(key);
    return 0;
  }

  /** There is nothing to wait for any more. */
  forget(key: string): void {
    this.#keyToMs.delete(key);
  }

  #plan(key: string, nowMs: number): number {
    const dueMs = Math.max(nowMs, this.#nextMs);
    this.#nextMs = dueMs + intervalMs;
    this.#keyToMs.set(key, dueMs);
    return dueMs;
  }
}
