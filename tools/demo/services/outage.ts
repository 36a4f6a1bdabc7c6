import type { ConnectReport } from '../../../test/support/network/seat-tasks.ts';

/** What clients saw of something that was done while they opened connections at a steady rate. */
export interface Outage {
  readonly sent: number;
  /** Those that were not there within a second. */
  readonly failed: number;
  /** From what was done until the last connection that failed was opened, in milliseconds; 0 when none failed. */
  readonly lastFailedMs: number;
  /** Whether the last 2.5 s were without a failure. */
  readonly isOver: boolean;
}

/** Reads the report of a load that had something done to it at `actedAtMs` (since the epoch). Pure. */
export function measureOutage(report: ConnectReport, actedAtMs: number): Outage {
  // A port that the client has in use is no failure of the Service.
  const failures = report.failures.filter(({ error }) => error !== 'EADDRINUSE');
  const lastAtMs = failures.at(-1)?.atMs ?? -Infinity;
  return {
    sent: report.sent,
    failed: failures.length,
    lastFailedMs: Math.max(0, report.startedAt + lastAtMs - actedAtMs),
    isOver: report.isQuiet,
  };
}
