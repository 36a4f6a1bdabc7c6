import { backOff, type Bucket, type Budget, fillBucket, takeToken } from './backoff.ts';
import { type Clock } from './clock.ts';

/** So many requests in a row may fail at full pace. */
const freely = 5;

/** The longest pause between two requests while all fail. */
const longestPauseMs = 1000;

/**
 * Lets through so much and no more, first come first served: who comes too early waits for its turn. While requests fail, whoever made
 * them, each waits twice as long as the one before, up to a second: a server that asks for fewer requests gets fewer.
 */
export class TokenQueue {
  readonly #budget: Budget;
  readonly #clock: Clock;
  #bucket: Bucket;
  #last: Promise<void> = Promise.resolve();
  /** Failures in a row, and when a request was let through last. */
  #failures = 0;
  #lastMs = -Infinity;

  constructor(budget: Budget, clock: Clock) {
    this.#budget = budget;
    this.#clock = clock;
    this.#bucket = fillBucket(budget, clock.now());
  }

  /** Ends when there is a token for whoever called, after all who called before. */
  take(): Promise<void> {
    this.#last = this.#last.then(() => this.#wait());
    return this.#last;
  }

  /** How a request that was let through has ended: one that has not failed gives all their pace back. */
  ended(hasFailed: boolean): void {
    this.#failures = hasFailed ? this.#failures + 1 : 0;
  }

  get #pauseMs(): number {
    const excess = this.#failures - freely;
    return excess < 0 ? 0 : backOff(excess, this.#budget.refillMs, longestPauseMs);
  }

  async #wait(): Promise<void> {
    const restMs = this.#lastMs + this.#pauseMs - this.#clock.now();
    if (restMs > 0) await this.#sleep(restMs);
    for (;;) {
      const { bucket, waitMs } = takeToken(this.#budget, this.#bucket, this.#clock.now());
      this.#bucket = bucket;
      if (waitMs > 0) await this.#sleep(waitMs);
      else {
        this.#lastMs = this.#clock.now();
        return;
      }
    }
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.#clock.schedule(ms, resolve));
  }
}
