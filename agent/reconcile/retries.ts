import { isRace } from './converge.ts';
import { backOff } from '../../lib/control/backoff.ts';

/** The first retry after a failure, doubled each time: tools fail for milliseconds (a lock) or for good. */
const firstRetryMs = 50;
const maxRetryMs = 10_000;

/** When to look again after failures in a row. */
export class Retries {
  #failures = 0;

  /** To be called after each look or write that failed. Answers in how long to try again, and whether it is worth a line. */
  fail(error: unknown): { readonly delayMs: number; readonly isWorthALine: boolean } {
    const delayMs = backOff(this.#failures, firstRetryMs, maxRetryMs);
    this.#failures += 1;
    // A refused transaction is how a race is lost; the second one in a row is no accident.
    return { delayMs, isWorthALine: !isRace(error) || this.#failures > 1 };
  }

  /** To be called after each look that did not fail. */
  succeed(): void {
    this.#failures = 0;
  }
}
