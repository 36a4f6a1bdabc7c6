/** The connections that one client began in half a second. */
export interface Slice {
  /** From 0, in the order of time. */
  readonly index: number;
  /** In milliseconds since 1970, as all times here. */
  readonly startedAt: number;
  readonly sent: number;
  /** When each connection began that failed. */
  readonly failedAt: readonly number[];
  /** How long the slowest took that did not fail. */
  readonly slowestMs: number;
}

/** How long a slice lasts. */
export const sliceMs = 500;

/** What takes longer has failed, as in scripts/bench failover. */
export const connectLimitMs = 2000;

/** What became of the connections that began in some slices. */
export interface Sum {
  readonly sent: number;
  readonly failed: number;
  /** From the start of the first that failed to that of the last one; 0 when none did. */
  readonly failingMs: number;
  readonly slowestMs: number;
}

/** Adds them up. Pure. */
export function addUp(slices: readonly Slice[]): Sum {
  const failedAt = slices.flatMap((slice) => slice.failedAt).sort((a, b) => a - b);
  return {
    sent: slices.reduce((sum, { sent }) => sum + sent, 0),
    failed: failedAt.length,
    failingMs: (failedAt.at(-1) ?? 0) - (failedAt[0] ?? 0),
    slowestMs: Math.max(0, ...slices.map(({ slowestMs }) => slowestMs)),
  };
}
