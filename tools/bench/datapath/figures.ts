import { type Spread, measureSpread, median } from '../shared/statistics.ts';
import type { Row } from './settings.ts';
import type { WorkloadName } from './workloads.ts';
import type { WindowRecord } from './record.ts';

/** So many keep all processors busy, by which their time is known best. */
export const busyClients = 100;

/** What clients saw, over all rounds; microseconds. */
export interface Seen {
  readonly p50: number;
  readonly p99: number;
  readonly perSecond: number;
  /** The p50 as multiples of straight access in the same round; null where rounds say nothing, see `mostApart`. */
  readonly ratio: Spread | null;
  /** Of a thousand requests. */
  readonly failed: number;
}

/** Processor time of all of the machine for one request, in microseconds. */
export interface Processor {
  readonly total: number;
  /** What it was more than by straight access in the same round. */
  readonly beyond: Spread;
}

/** What is compared: one row at one load. */
export interface Point {
  readonly row: Row;
  readonly workload: WorkloadName;
  readonly clients: number;
}

/** A window of a way, and that of straight access in the same seconds. */
interface Pair {
  readonly own: WindowRecord;
  readonly straight: WindowRecord;
}

/**
 * With thousands of clients a server may serve some of them again and again while others wait, and the median is that of
 * either kind: where rounds are so many times apart, it was by chance.
 */
const mostApart = 10;

/** Null when nothing is on record. */
export function summarize(windows: readonly WindowRecord[], point: Point): Seen | null {
  const pairs = listPairs(windows, point);
  const ratio = measureSpread(measureRatios(windows, point));
  if (ratio === null) return null;
  const middle = (pick: (window: WindowRecord) => number) => median(pairs.map(({ own }) => pick(own)));
  const count = (pick: (window: WindowRecord) => number) =>
    pairs.reduce((total, { own }) => total + pick(own), 0);
  const failed = count(({ errors }) => Object.values(errors).reduce((total, some) => total + some, 0));
  return {
    p50: middle(({ all }) => all.p50),
    p99: middle(({ all }) => all.p99),
    perSecond: middle(({ requests, seconds }) => requests / seconds),
    ratio: ratio.max > mostApart * ratio.min ? null : ratio,
    failed: (failed / (failed + count(({ requests }) => requests))) * 1000,
  };
}

/** The p50 of each round, as a multiple of straight access in the same round. */
export function measureRatios(windows: readonly WindowRecord[], point: Point): number[] {
  return listPairs(windows, point).map(({ own, straight }) => own.all.p50 / straight.all.p50);
}

/** Null when nothing is on record. */
export function measureProcessor(windows: readonly WindowRecord[], point: Point): Processor | null {
  const pairs = listPairs(windows, point);
  const beyond = measureSpread(pairs.map(({ own, straight }) => costOf(own) - costOf(straight)));
  return beyond === null ? null : { total: median(pairs.map(({ own }) => costOf(own))), beyond };
}

/** Megabytes of a process while a number of clients is connected, over all rounds; NaN when nothing is on record. */
export function measureMemory(windows: readonly WindowRecord[], point: Point, process: string): number {
  return median(
    listPairs(windows, point).flatMap(({ own }) => {
      const burden = own.watched[process];
      return burden === undefined ? [] : [burden.megabytes];
    }),
  );
}

/** A process's own part of what a request costs, in microseconds. */
export function measureOwnPart(windows: readonly WindowRecord[], point: Point, process: string): number {
  return median(
    listPairs(windows, point).map(
      ({ own }) => ((own.watched[process]?.seconds ?? NaN) / own.requests) * 1_000_000,
    ),
  );
}

function listPairs(windows: readonly WindowRecord[], { row, workload, clients }: Point): Pair[] {
  const some = windows.filter(
    (window) => window.setting === row.setting && window.workload === workload && window.clients === clients,
  );
  return some
    .filter(({ path }) => path === row.path)
    .flatMap((own) => {
      const straight = some.find(({ path, round }) => path === 'direct' && round === own.round);
      return straight === undefined ? [] : [{ own, straight }];
    });
}

/** Without what the machine does anyway. */
function costOf({ machine, rest, seconds, requests }: WindowRecord): number {
  return ((machine.busy - rest * seconds) / requests) * 1_000_000;
}
