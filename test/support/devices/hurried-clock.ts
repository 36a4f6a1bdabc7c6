import type { Clock, Cancel } from '../../../lib/clock.ts';

/** A clock for what talks to real servers: pauses take no time, and count. Limits are over when the test says so. */
export class HurriedClock implements Clock {
  #nowMs = 0;
  readonly #limits = new Map<() => void, number>();
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
      this.#limits.set(callback, delayMs);
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

  expire(): void {
    const limits = new Map(this.#limits);
    this.#limits.clear();
    this.#nowMs += Math.max(0, ...limits.values());
    for (const callback of limits.keys()) callback();
  }
}
