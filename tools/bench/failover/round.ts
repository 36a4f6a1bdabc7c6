import type { Lab } from '../../lab/control-plane/lab.ts';
import type { Fault } from './faults.ts';
import { watched } from '../shared/client.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Seat } from '../../../test/support/network/seat.ts';
import type { WatchesReport } from '../../../test/support/network/seat-watches.ts';
import { masters } from '../../../test/support/network/layout.ts';
import type { ConnectReport } from '../../../test/support/network/seat-tasks.ts';
import { countErrors } from '../shared/failures.ts';

/** New connections each second, and watches; some of these send nothing until so long after a fault. */
export const load = { perSecond: 500, watches: 20, silentWatches: 10, silenceMs: 1400 };

/** How long a client may wait for the first bytes of an answer, how long a watch is given to end, and how long a round lasts at most. */
export const limits = { connectMs: 2000, watchMs: 20_000, roundMs: 40_000 };

/** What clients outside the cluster saw of one fault. */
export interface Outcome {
  /** New connections in all, and how many failed. */
  readonly sent: number;
  readonly failed: number;
  /** From the start of the first connection that failed to that of the last one; 0 when none did. */
  readonly windowMs: number;
  /** The same of those that did not even get a TCP connection. */
  readonly refusedMs: number;
  /** The same of those that failed or took more than a second. */
  readonly slowed: number;
  readonly slowedMs: number;
  /** Whether there still were such connections when the round was over. */
  readonly isOpen: boolean;
  /** From the fault until its client knew, for each watch that it broke and that sent all the time; null for those that did not know at the end. */
  readonly watchesMs: readonly (number | null)[];
  /** The same for those that sent nothing for the first 1.4 s after it. */
  readonly silentMs: readonly (number | null)[];
  readonly errors: Readonly<Record<string, number>>;
}

/** The clients run steadily by then. */
const leadMs = 1500;

/** How much later a fault may come, so that it meets everybody's timers in every phase. */
const phaseMs = 1000;

/** A silent failure is seen by then. */
const restMs = 2500;

const pingIntervalMs = 100;

/** Breaks something under load, and measures until it is over; leaves it broken. */
export async function measureRound(
  lab: Lab,
  target: { readonly port: number; readonly hello: string },
  fault: Fault,
  master: string,
): Promise<Outcome> {
  const { port, hello } = target;
  const [connects, watches] = [lab.seat('client', 'connects'), lab.seat('client', 'watches')];
  const { authority, admin } = lab.certificates;
  const watching = await watches.watchTogether({
    ...{ host: lab.vip, port, identity: { authority, ...admin }, object: watched },
    ...{
      count: load.watches,
      silentCount: load.silentWatches,
      pingIntervalMs,
      awaited: listStuck(fault, master),
      durationMs: leadMs + phaseMs + limits.watchMs,
    },
  });
  const connecting = connects.connectAtRate({
    ...{ host: lab.vip, port, hello, perSecond: load.perSecond },
    ...{ durationMs: leadMs + phaseMs + limits.roundMs, limitMs: limits.connectMs },
  });
  await sleep(leadMs + Math.random() * phaseMs);
  const faultAt = performance.timeOrigin + performance.now();
  void sleep(load.silenceMs).then(() => {
    watches.speak();
  });
  await fault.break(lab, master);
  const seen = await settle(watches, watching.report, connects);
  return summarize(await connecting, seen, { faultAt, stuck: listStuck(fault, master) });
}

/**
 * The watches stay open for a while even when none is waited for: an apiserver that goes has to do with them. The
 * connections end last: a failure may come as late as what becomes of the watches.
 */
async function settle(watches: Seat, report: Promise<WatchesReport>, connects: Seat): Promise<WatchesReport> {
  await sleep(restMs);
  watches.settle();
  const watched = await report;
  connects.settle();
  return watched;
}

function listStuck({ stuck }: Fault, master: string): string[] {
  if (stuck === 'none') return [];
  return stuck === 'all' ? masters.map(({ name }) => name) : [master];
}

function summarize(
  { sent, failures, slowAtMs, isQuiet }: ConnectReport,
  { startedAt, watches }: WatchesReport,
  { faultAt, stuck }: { readonly faultAt: number; readonly stuck: readonly string[] },
): Outcome {
  const failedAtMs = failures.map(({ atMs }) => atMs);
  const refusedAtMs = failures.filter(({ isConnected }) => !isConnected).map(({ atMs }) => atMs);
  const slowedAtMs = [...failedAtMs, ...slowAtMs].sort((a, b) => a - b);
  const broken = watches.filter(({ apiserver }) => stuck.includes(apiserver));
  const listTimes = (isUnresponsive: boolean) =>
    broken
      .filter((watch) => watch.isUnresponsive === isUnresponsive)
      .map(({ endedAtMs }) => (endedAtMs === null ? null : Math.round(startedAt + endedAtMs - faultAt)));
  return {
    sent,
    failed: failures.length,
    windowMs: measureSpan(failedAtMs),
    refusedMs: measureSpan(refusedAtMs),
    slowed: slowedAtMs.length,
    slowedMs: measureSpan(slowedAtMs),
    isOpen: !isQuiet,
    watchesMs: listTimes(false),
    silentMs: listTimes(true),
    errors: countErrors(failures),
  };
}

function measureSpan(sortedMs: readonly number[]): number {
  return Math.round((sortedMs.at(-1) ?? 0) - (sortedMs[0] ?? 0));
}
