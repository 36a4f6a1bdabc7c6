import type { ConnectReport } from '../network/seat-tasks.ts';

/** A machine that answers nobody for so long stands still. A connection through the VIP may take longer than that. */
export const stallMs = 500;

/**
 * The connections of a report that timed out while a machine stood still. `straight` are reports of connections to each machine's own
 * address at the same time, with `stallMs` as their limit: no rule is in their way, so only a machine can make them late.
 */
export function findStalled(
  { startedAt, failures }: ConnectReport,
  straight: readonly ConnectReport[],
): ConnectReport['failures'] {
  const stalledAt = straight.flatMap((report) =>
    report.failures.filter(isTimeout).map(({ atMs }) => report.startedAt + atMs),
  );
  return failures.filter(
    (failure) =>
      isTimeout(failure) && stalledAt.some((at) => Math.abs(at - startedAt - failure.atMs) <= stallMs),
  );
}

function isTimeout({ error }: ConnectReport['failures'][number]): boolean {
  return error === 'timeout';
}
