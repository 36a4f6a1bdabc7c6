import { WaitedTooLong } from '../jest/waiting.ts';
import type { WitnessedReport } from '../network/witness.ts';

/** What something that was done cost new connections. */
export interface Failing {
  /** Those that failed or were there only by a second SYN, without the excused. */
  readonly failed: number;
  readonly errors: string;
  /** From the start of the first one that failed, but not from before it was done, to that of the last one, in milliseconds; 0 when none did. */
  readonly windowMs: number;
  /** From the start of the last one that failed to the end, in milliseconds; all of it when none did. */
  readonly quietMs: number;
}

/** A connection that began so shortly before may still meet what is done. */
const underWayMs = 500;

/**
 * What was done at a moment cost so much; both moments are in milliseconds since the epoch. Connections that failed before it are no part of
 * that, and say that the measurement began badly: it throws, WaitedTooLong where all they did was to wait.
 */
export function measureFailing(
  { startedAt, failures, excused, lostSyns }: WitnessedReport,
  { doneAt, endedAt }: { readonly doneAt: number; readonly endedAt: number },
): Failing {
  const early = failures.filter(({ atMs }) => startedAt + atMs < doneAt - underWayMs);
  if (early.length > 0) {
    const text = `inconclusive: before anything was done ${countErrors(early)}`;
    throw early.every(({ error }) => error === 'timeout') ? new WaitedTooLong(text) : new Error(text);
  }
  const times = failures.map(({ atMs }) => Math.max(doneAt, startedAt + atMs));
  const texts = [
    countErrors(failures),
    ...(lostSyns === 0 ? [] : [`${lostSyns} by a second SYN`]),
    ...(excused.length === 0 ? [] : [`${excused.length} excused: the machine stood still`]),
  ];
  return {
    failed: failures.length + lostSyns,
    errors: texts.filter((text) => text !== '').join(', '),
    windowMs: times.length === 0 ? 0 : Math.max(...times) - Math.min(...times),
    quietMs: endedAt - Math.max(startedAt, ...times),
  };
}

/** How often connections failed in which way, in a few words; none where none did. */
function countErrors(failures: readonly { readonly error: string }[]): string {
  const counts = new Map<string, number>();
  for (const { error } of failures) counts.set(error, (counts.get(error) ?? 0) + 1);
  return [...counts].map(([error, count]) => `${count} ${error}`).join(', ');
}
