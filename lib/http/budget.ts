import { type Clock } from '../control/clock.ts';

/** How much there is at a time, and how much comes back in a second. */
export interface Allowance {
  readonly capacity: number;
  readonly ofSecond: number;
}

/** How much may be done of something that anybody can ask for: the process has other work. Full at first. */
export class Budget {
  readonly #allowance: Allowance;
  readonly #clock: Clock;
  #left: number;
  #filledAt: number;

  constructor(allowance: Allowance, clock: Clock) {
    this.#allowance = allowance;
    this.#clock = clock;
    this.#left = allowance.capacity;
    this.#filledAt = clock.now();
  }

  /** How much may be done now. */
  get left(): number {
    const { capacity, ofSecond } = this.#allowance;
    const now = this.#clock.now();
    this.#left = Math.min(capacity, this.#left + ((now - this.#filledAt) * ofSecond) / 1000);
    this.#filledAt = now;
    return this.#left;
  }

  /** Whether nothing is taken that has not come back. */
  get isFull(): boolean {
    return this.left >= this.#allowance.capacity;
  }

  /** Whether so much more may be done now. It counts as soon as it may. */
  take(count: number): boolean {
    if (this.left < count) return false;
    this.#left -= count;
    return true;
  }
}
