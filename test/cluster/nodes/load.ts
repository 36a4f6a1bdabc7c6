import { setTimeout as sleep } from 'node:timers/promises';
import { type NodeLab } from '../../../lab/nodes/node-lab.ts';
import { runShell } from '../../../lab/machines/machine.ts';
import { apiserverPort, masters } from '../../support/network/layout.ts';
import { isLong } from '../../support/jest/long.ts';
import { type ConnectReport } from '../../support/network/seat.ts';
import { type WatchesReport } from '../../support/network/seat-watches.ts';

/** Where the control plane is used from: outside, in a pod of a worker, and on the masters, who may hold the VIP themselves. */
export const places = ['client', 'pod-worker', ...masters.map(({ name }) => name)];

/** What the places saw of it. */
export interface LoadReport {
  /** New connections to the VIP. */
  readonly sent: number;
  /** Those that were not there within a second, by place and what went wrong. */
  readonly failed: readonly string[];
  /** The watches that ended, by place and apiserver. */
  readonly ended: readonly string[];
  /** The longest time that a watch which did not end got no answer to a ping, in milliseconds. */
  readonly silenceMs: number;
}

/** From each place, per second: two cores have the nodes, too. */
const perSecond = isLong ? 500 : 100;

const watchesPerPlace = 20;
const pingIntervalMs = 250;

/** All clients run steadily by then. */
const leadMs = 1500;

const longestMs = 5 * 60_000;

const object = 'watched';

/**
 * The clients' ports are kept apart: they connect from ports below, and so would the kernel otherwise. A port that a
 * program of the node listens at is no client's.
 */
const separatePorts = 'echo 61000 65535 > /proc/sys/net/ipv4/ip_local_port_range';

/** Does something under a steady load of new connections and open watches from everywhere, or from some places, until nothing fails any more. */
export async function underLoad(
  lab: NodeLab,
  act: () => Promise<void>,
  from: readonly string[] = places,
): Promise<LoadReport> {
  await lab.api.create('/api/v1/namespaces/default/configmaps', {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: object },
  });
  const loads = await Promise.all(from.map((place) => startLoad(lab, place)));
  await sleep(leadMs);
  await act();
  const reports = await Promise.all(loads.map((load) => load.end()));
  return {
    sent: reports.reduce((sum, { connects }) => sum + connects.sent, 0),
    failed: reports.flatMap(listFailures),
    ended: reports.flatMap(listEnded),
    silenceMs: Math.max(...reports.flatMap(listSilences)),
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
  const target = { host: lab.vip, port: apiserverPort };
  const identity = { authority: lab.certificates.authority, ...lab.certificates.admin };
  const watching = lab.seat(place, 'watches');
  const watches = await watching.watchTogether({
    ...{ ...target, identity, object, count: watchesPerPlace, pingIntervalMs },
    ...{ silentCount: 0, awaited: [], durationMs: longestMs },
  });
  const connecting = lab.seat(place, 'connects');
  const connects = connecting.connectAtRate({ ...target, perSecond, durationMs: longestMs });
  return {
    async end() {
      connecting.settle();
      const connected = await connects;
      watching.settle();
      return { place, connects: connected, watches: await watches.report };
    },
  };
}

function listFailures({ place, connects: { failures, isQuiet } }: PlaceReport): string[] {
  const own = failures.filter(({ error }) => error !== 'EADDRINUSE');
  const failed = own.map(({ error, atMs }) => `${place}: ${error} after ${atMs.toFixed(0)} ms`);
  return isQuiet ? failed : [...failed, `${place}: it never became quiet`];
}

function listEnded({ place, watches: { watches } }: PlaceReport): string[] {
  return watches.flatMap(({ apiserver, endedAtMs }) =>
    endedAtMs === null ? [] : [`${place}: a watch at ${apiserver}`],
  );
}

function listSilences({ watches: { watches } }: PlaceReport): number[] {
  return watches.flatMap(({ endedAtMs, silenceMs }) => (endedAtMs === null ? [silenceMs] : []));
}
