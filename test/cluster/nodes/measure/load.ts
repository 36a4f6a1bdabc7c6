import { setTimeout as sleep } from 'node:timers/promises';
import { type NodeLab } from '../../../../lab/nodes/node-lab.ts';
import { runShell } from '../../../../lab/machines/machine.ts';
import { apiserverPort, masters } from '../../../support/network/layout.ts';
import { isLong } from '../../../support/jest/extent.ts';
import type { ConnectReport } from '../../../support/network/seat-tasks.ts';
import { type WatchesReport } from '../../../support/network/seat-watches.ts';

/** Where the control plane is used from: outside, in a pod of a worker, and on the masters, who may hold the VIP themselves. */
export const places = ['client', 'pod-worker', ...masters.map(({ name }) => name)];

/** What the places saw of it. */
export interface LoadReport {
  /** New connections to the VIP. */
  readonly sent: number;
  /** Those that were not there within a second, by place and what went wrong. */
  readonly failed: readonly string[];
  /** At each place from the start of the first one that failed to the start of the last one: the longest of these times, in milliseconds; 0 when none did. */
  readonly failingMs: number;
  /** What became of the watches. */
  readonly watches: readonly WatchEnd[];
  /** The longest time that a watch got no answer to a ping while it lasted, in milliseconds. */
  readonly silenceMs: number;
}

/** What became of a watch. */
export interface WatchEnd {
  readonly place: string;
  readonly apiserver: string;
  /** How it ended, see `WatchesReport`; null while it goes on. */
  readonly end: string | null;
}

/** From each place, per second: two cores have the nodes, too. */
const perSecond = isLong ? 500 : 100;

const watchesPerPlace = 20;
const pingIntervalMs = 250;

/** All clients run steadily by then. */
const leadMs = 1500;

const longestMs = 5 * 60_000;

/** The ConfigMap that is watched. */
const object = 'watched';

/**
 * The clients' ports are kept apart: they connect from ports below, and so would the kernel otherwise. A port that a
 * program of the node listens at is no client's.
 */
const separatePorts = 'echo 61000 65535 > /proc/sys/net/ipv4/ip_local_port_range';

/** Makes what is watched: once for each lab, while every apiserver answers. */
export async function prepareLoad(lab: NodeLab): Promise<void> {
  await lab.api.create('/api/v1/namespaces/default/configmaps', {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: object },
  });
}

/** Does something under a steady load of new connections and open watches from everywhere, or from some places, until nothing fails any more. */
export async function underLoad(
  lab: NodeLab,
  act: () => Promise<void>,
  from: readonly string[] = places,
): Promise<LoadReport> {
  const loads = await Promise.all(from.map((place) => startLoad(lab, place)));
  await sleep(leadMs);
  await act();
  const reports = await Promise.all(loads.map((load) => load.end()));
  return {
    sent: reports.reduce((sum, { connects }) => sum + connects.sent, 0),
    failed: reports.flatMap(describeFailures),
    failingMs: Math.max(...reports.map(measureFailing)),
    watches: reports.flatMap(({ place, watches: { watches } }) =>
      watches.map(({ apiserver, end }) => ({ place, apiserver, end })),
    ),
    silenceMs: Math.max(
      ...reports.flatMap(({ watches: { watches } }) => watches.map((one) => one.silenceMs)),
    ),
  };
}

/** Holds watches of a place without anything else; how they fare is known when they are ended. */
export async function holdWatches(
  lab: NodeLab,
  place: string,
  how: { readonly count: number; readonly pingIntervalMs: number },
): Promise<{ end(): Promise<WatchesReport> }> {
  const target = { host: lab.vip, port: apiserverPort };
  const identity = { authority: lab.certificates.authority, ...lab.certificates.admin };
  const seat = lab.seat(place, 'watches');
  const rest = { silentCount: 0, awaited: [], durationMs: longestMs };
  const { report } = await seat.watchTogether({ ...target, identity, object, ...how, ...rest });
  return {
    end() {
      seat.settle();
      return report;
    },
  };
}

/** What one place saw. */
interface PlaceReport {
  readonly place: string;
  readonly connects: ConnectReport;
  readonly watches: WatchesReport;
}

async function startLoad(lab: NodeLab, place: string): Promise<{ end(): Promise<PlaceReport> }> {
  await runShell(lab.machine(place.replace(/^pod-/, '')), separatePorts);
  const watches = await holdWatches(lab, place, { count: watchesPerPlace, pingIntervalMs });
  const connecting = lab.seat(place, 'connects');
  const target = { host: lab.vip, port: apiserverPort };
  const connects = connecting.connectAtRate({
    ...{ ...target, perSecond, durationMs: longestMs },
    firstLocalPort: chooseFirstPort(),
  });
  return {
    async end() {
      connecting.settle();
      const connected = await connects;
      return { place, connects: connected, watches: await watches.end() };
    },
  };
}

/**
 * A node that boots has a new client, and so has a test that is run again: it goes on behind the ports of the one before, so that each
 * comes again only when whatever remembers it has forgotten it (120 s).
 */
function chooseFirstPort(): number {
  const [first, count] = [1024, 59_976];
  return first + ((Math.floor(Date.now() / 1000) * 500) % count);
}

function describeFailures(report: PlaceReport): string[] {
  const { place, connects } = report;
  const failed = listFailures(report).map(
    ({ error, atMs }) => `${place}: ${error} after ${atMs.toFixed(0)} ms`,
  );
  return connects.isQuiet ? failed : [...failed, `${place}: it never became quiet`];
}

function measureFailing(report: PlaceReport): number {
  const failed = listFailures(report);
  return (failed.at(-1)?.atMs ?? 0) - (failed[0]?.atMs ?? 0);
}

/** A port that is in use is nobody's failure. */
function listFailures({ connects: { failures } }: PlaceReport): ConnectReport['failures'] {
  return failures.filter(({ error }) => error !== 'EADDRINUSE');
}
