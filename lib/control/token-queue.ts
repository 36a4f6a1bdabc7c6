import { type Bucket, type Budget, fillBucket, takeToken } from './backoff.ts';
import { type Clock } from './clock.ts';

/** Lets through so much and no more, first come first served: who comes too early waits for its turn. */
export class TokenQueue {
  readonly #budget: Budget;
  readonly #clock: Clock;
  #bucket: Bucket;
  #last: Promise<void> = Promise.resolve();

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

  async #wait(): Promise<void> {
    for (;;) {
      const { bucket, waitMs } = takeToken(this.#budget, this.#bucket, this.#clock.now());
      this.#bucket = bucket;
      if (waitMs === 0) return;
      await this.#sleep(waitMs);
    }
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.#clock.schedule(ms, resolve));
  }
}
