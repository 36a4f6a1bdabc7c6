/** How often something may happen: at once while there are tokens, then one at a time. */
export interface Budget {
  readonly capacity: number;
  readonly refillMs: number;
}

/** A budget's state: pure data, so that the loop's pace can be tested without waiting. */
export interface Bucket {
  readonly tokens: number;
  /** When the last token was added, by the Clock. */
  readonly filledAt: number;
}

/** The answer to a request for one token. */
export interface Grant {
  readonly bucket: Bucket;
  /** 0 when the token was taken; otherwise how long to wait before asking again. */
  readonly waitMs: number;
}

/** A full bucket. */
export function fillBucket({ capacity }: Budget, now: number): Bucket {
  return { tokens: capacity, filledAt: now };
}

/** Adds the tokens that time has earned, never beyond the capacity. */
export function refill({ capacity, refillMs }: Budget, bucket: Bucket, now: number): Bucket {
  const earned = Math.max(0, Math.floor((now - bucket.filledAt) / refillMs));
  const tokens = Math.min(capacity, bucket.tokens + earned);
  return { tokens, filledAt: tokens === capacity ? now : bucket.filledAt + earned * refillMs };
}

/** Takes one token, or says how long it takes until there is one. */
export function takeToken(budget: Budget, bucket: Bucket, now: number): Grant {
  const filled = refill(budget, bucket, now);
  if (filled.tokens > 0) return { bucket: { ...filled, tokens: filled.tokens - 1 }, waitMs: 0 };
  // Fractions of an interval do not add up: without this one that has no token could wait for nothing, and so could all after it.
  return { bucket: filled, waitMs: Math.max(1, Math.ceil(filled.filledAt + budget.refillMs - now)) };
}

/** The wait before try number `failures` + 1: doubling from `firstMs`, at most `limitMs`. */
export function backOff(failures: number, firstMs: number, limitMs: number): number {
  return Math.min(limitMs, firstMs * 2 ** Math.min(failures, 30));
}
