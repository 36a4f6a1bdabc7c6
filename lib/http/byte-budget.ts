import { type Clock } from '../control/clock.ts';

/** As much as waits at a time, and as much as is read in a second: hundreds of pods. To read a megabyte takes some milliseconds. */
const capacity = 32_000_000;
const ofSecond = 8_000_000;

/** How many bytes may be read: anybody may connect, and the process has other work. */
export class ByteBudget {
  readonly #clock: Clock;
  #left = capacity;
  #filledAt: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#filledAt = clock.now();
  }

  /** Whether so many more bytes may be read now. They count as soon as they may. */
  take(count: number): boolean {
    const now = this.#clock.now();
    this.#left = Math.min(capacity, this.#left + ((now - this.#filledAt) * ofSecond) / 1000);
    this.#filledAt = now;
    if (this.#left < count) return false;
    this.#left -= count;
    return true;
  }
}
