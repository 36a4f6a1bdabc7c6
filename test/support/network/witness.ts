import { WaitedTooLong } from '../jest/waiting.ts';
import type { Seat } from './seat.ts';
import type { ConnectReport, ConnectTask, Target } from './seat-tasks.ts';

/** So long after a SYN that was lost comes the third one like it: what takes longer has gone astray, and is never answered. */
export const lostMs = 10_000;

/** A machine that answers nobody for so long stands still. A connection through the VIP may take longer than that. */
const stallMs = 500;

/** Of straight connections: with more of them without an answer the machine was too busy to say anything about others. */
const maxTimedOut = 0.1;

/** Straight connections: a fifth of the others together, and to each server enough to meet every time at which a machine stands still. */
const straightShare = 1 / 5;
const leastStraight = 20;

/** Far from the ports at which other clients begin: one entry for both would mislead them. */
const [firstPort, portCount] = [31_000, 29_000];
let portsTaken = 0;

/** What new connections saw, without what straight ones saw too. */
export interface WitnessedReport extends ConnectReport {
  /** Those that failed while straight ones had an answer. */
  readonly failures: ConnectReport['failures'];
  /** Those that timed out while straight ones did, and those whose own port was in use. */
  readonly excused: ConnectReport['failures'];
  /** How many were there in the end, but only by a second SYN, while straight ones were quick. */
  readonly lostSyns: number;
}

/** New connections at a steady rate with their witnesses. */
export interface WitnessedLoad {
  /**
   * Ends as `Seat.settle` does. Rejects with WaitedTooLong when the witnesses say that nothing can be said, and where the task's time was over
   * before: what happened since then had no load.
   */
  end(): Promise<WitnessedReport>;
  /** The same at the end of the task's time. */
  readonly report: Promise<WitnessedReport>;
}

/**
 * Begins new connections at a steady rate, and straight ones to these servers beside them, which no rule is in the way of: where they
 * get no answer either, the machine stood still. The servers are to live all the while. `seatOf` answers a client at the same place for a role.
 */
export function connectWitnessed(
  seatOf: (role: string) => Pick<Seat, 'connectAtRate' | 'settle'>,
  task: Omit<ConnectTask, 'kind'>,
  servers: readonly Target[],
): WitnessedLoad {
  const { perSecond, durationMs, limitMs = 2 * stallMs } = task;
  const rate = Math.max(leastStraight, (perSecond * straightShare) / Math.max(1, servers.length));
  const firstLocalPort = firstPort + portsTaken;
  portsTaken = (portsTaken + Math.ceil((rate * durationMs) / 1000)) % portCount;
  const how = { perSecond: rate, limitMs: limitMs / 2, slowMs: stallMs, quietMs: 0, firstLocalPort };
  const connecting = seatOf('connects');
  const connects = connecting.connectAtRate(task);
  const witnesses = servers.map((server) => {
    const seat = seatOf(`straight to ${server.host}`);
    return { seat, straight: seat.connectAtRate({ ...task, ...server, ...how }) };
  });
  const conclude = async () => {
    const seen = await connects;
    for (const { seat } of witnesses) seat.settle();
    return judge(seen, await Promise.all(witnesses.map(({ straight }) => straight)));
  };
  const report = conclude();
  let isOver = false;
  // Whoever awaits it later hears of it then.
  report
    .catch(() => undefined)
    .finally(() => {
      isOver = true;
    });
  return {
    report,
    async end() {
      if (isOver) throw new Error(`the load ended by itself, after ${durationMs} ms`);
      connecting.settle();
      return report;
    },
  };
}

/**
 * Tells what connections lost from what a machine kept waiting. `straight` are reports of connections to servers' own addresses at the
 * same time, with half the limit, and slow after half a second. Excused is a timeout within half a second of one of theirs: no
 * standstill resets or refuses. So is a port that the client itself has in use. Tells on stderr how many those are. Throws WaitedTooLong where connections timed out, and so did more than a tenth of the straight ones.
 */
export function judge(connects: ConnectReport, straight: readonly ConnectReport[]): WitnessedReport {
  const { startedAt, failures, slowAtMs, resentSyns } = connects;
  const at = (report: ConnectReport, times: readonly number[]) => times.map((ms) => report.startedAt + ms);
  const timedOutAt = straight.flatMap((one) => at(one, listTimes(one.failures.filter(isTimeout))));
  const slowAt = straight.flatMap((one) => at(one, one.slowAtMs));
  const isNear = (ms: number, times: readonly number[]) =>
    times.some((time) => Math.abs(time - startedAt - ms) <= stallMs);
  const excused = failures.filter(
    (failure) => failure.error === 'EADDRINUSE' || (isTimeout(failure) && isNear(failure.atMs, timedOutAt)),
  );
  const slow = slowAtMs.filter((ms) => !isNear(ms, [...timedOutAt, ...slowAt]));
  const sent = straight.reduce((sum, one) => sum + one.sent, 0);
  const figures = `${timedOutAt.length} of ${sent} straight connections timed out`;
  if (failures.some(isTimeout) && timedOutAt.length > maxTimedOut * sent)
    throw new WaitedTooLong(`inconclusive: the machine stood still: ${figures}`);
  if (excused.length > 0)
    process.stderr.write(`excused: ${excused.length} of ${connects.sent} connections, as ${figures}\n`);
  return {
    ...connects,
    failures: failures.filter((failure) => !excused.includes(failure)),
    excused,
    // A program that waits for the processor is slow as well, but its kernel sends nothing again.
    lostSyns: Math.min(slow.length, resentSyns),
  };
}

function isTimeout({ error }: ConnectReport['failures'][number]): boolean {
  return error === 'timeout';
}

function listTimes(failures: ConnectReport['failures']): number[] {
  return failures.map(({ atMs }) => atMs);
}
