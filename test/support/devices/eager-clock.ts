import type { Clock, Cancel } from '../../../lib/clock.ts';

/** A clock that goes on by itself: when all else waits, the next call falls due. For what is in memory alone, as nothing else is waited for. */
export class EagerClock implements Clock {
  #nowMs = 0;
  #timers: { readonly atMs: number; readonly callback: () => void }[] = [];
  #isTurning = false;

  now(): number {
    return this.#nowMs;
  }

  date(): Date {
    return new Date(Date.UTC(2026, 0, 1) + this.#nowMs);
  }

  schedule(delayMs: number, callback: () => void): Cancel {
    const timer = { atMs: this.#nowMs + delayMs, callback };
    this.#timers.push(timer);
    this.#turnLater();
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  #turnLater(): void {
    if (this.#isTurning) return;
    this.#isTurning = true;
    // After all promises: what is not waited for has settled by then.
    setImmediate(() => {
      this.#isTurning = false;
      this.#turn();
      if (this.#timers.length > 0) this.#turnLater();
    });
  }

  #turn(): void {
    const [first] = this.#timers.toSorted((one, other) => one.atMs - other.atMs);
    if (first === undefined) return;
    this.#timers = this.#timers.filter((timer) => timer !== first);
    this.#nowMs = Math.max(this.#nowMs, first.atMs);
    first.callback();
  }
}
