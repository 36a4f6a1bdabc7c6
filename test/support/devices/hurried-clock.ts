import { type Cancel, type Clock } from '../../../lib/control/clock.ts';

/** A clock for what talks to real servers: pauses take no time, and count. Limits are over when the test says so. */
export class HurriedClock implements Clock {
  #nowMs = 0;
  readonly #limits = new Set<() => void>();
  readonly #longestPauseMs: number;

  /** What is longer is a limit, not a pause. */
  constructor(longestPauseMs = 5000) {
    this.#longestPauseMs = longestPauseMs;
  }

  now(): number {
    return this.#nowMs;
  }

  date(): Date {
    return new Date(Date.UTC(2027, 0) + this.#nowMs);
  }

  schedule(delayMs: number, callback: () => void): Cancel {
    if (delayMs > this.#longestPauseMs) {
      this.#limits.add(callback);
      return () => this.#limits.delete(callback);
    }
    const immediate = setImmediate(() => {
      this.#nowMs += delayMs;
      callback();
    });
    return () => {
      clearImmediate(immediate);
    };
  }

  /** All limits are over now. */
  expire(): void {
    const limits = [...this.#limits];
    this.#limits.clear();
    for (const callback of limits) callback();
  }
}
