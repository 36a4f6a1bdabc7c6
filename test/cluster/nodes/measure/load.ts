import { masters, apiserverPort } from '../../../support/network/layout.ts';
import { isLong } from '../../../support/jest/extent.ts';
import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { lostMs, type WitnessedReport, connectWitnessed } from '../../../support/network/witness.ts';
import { listFinders } from '../../../support/lab/witnesses.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { measureFailing } from '../../../support/lab/failing.ts';
import type { WatchesReport } from '../../../support/network/seat-watches.ts';
import type { Target } from '../../../support/network/seat-tasks.ts';
import { runShell } from '../../../../tools/lab/machines/machine.ts';

/** Where the control plane is used from: outside, in a pod of a worker, and on the masters, who may hold the VIP themselves. */
export const places = ['client', 'pod-worker', ...masters.map(({ name }) => name)];

export interface LoadReport {
  readonly sent: number;
  /** Those that failed, by place and what went wrong, and how many needed a second SYN. */
  readonly failed: readonly string[];
  /** At each place from the start of the first one that failed to the start of the last one: the longest of these times, in milliseconds; 0 when none did. */
  readonly failingMs: number;
  readonly watches: readonly WatchEnd[];
  /** The longest time that a watch got no answer to a ping while it lasted, in milliseconds. */
  readonly silenceMs: number;
}

interface WatchEnd {
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

const longestMs = 30 * 60_000;
const object = 'watched';

/**
 * The clients' ports are kept apart: they connect from ports below, and so would the kernel otherwise. A port that a
 * program of the node listens at is no client's.
 */
const separatePorts = 'echo 61000 65535 > /proc/sys/net/ipv4/ip_local_port_range';

/** Makes what is watched: once for each lab, while every apiserver answers. */
export async function prepareLoad(lab: NodeLab): Promise<void> {
  await lab.api.create('/api/v1/namespaces/default/configmaps', {
    ...{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: object } },
  });
}

interface LoadOptions {
  /** Everywhere when left out. */
  readonly from?: readonly string[];
  /** The master that is taken away: it is no witness of the machine. */
  readonly stricken?: string;
  /** What takes longer has failed; 10 s when left out, which only a lost connection takes. */
  readonly limitMs?: number;
}

/** Does something under a steady load of new connections and open watches from everywhere, or from some places, until nothing fails any more. */
export async function underLoad(
  lab: NodeLab,
  act: () => Promise<void>,
  { from = places, stricken, limitMs = lostMs }: LoadOptions = {},
): Promise<LoadReport> {
  const servers = await listFinders(lab, stricken);
  const loads = await Promise.all(from.map((place) => startLoad(lab, place, { servers, limitMs })));
  await sleep(leadMs);
  const doneAt = performance.timeOrigin + performance.now();
  await act();
  const reports = await Promise.all(loads.map((load) => load.end()));
  const failing = reports.map(({ connects }) =>
    measureFailing(connects, { doneAt, endedAt: performance.timeOrigin + performance.now() }),
  );
  return {
    sent: reports.reduce((sum, { connects }) => sum + connects.sent, 0),
    failed: reports.flatMap(describeFailures),
    failingMs: Math.max(...failing.map(({ windowMs }) => windowMs)),
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

interface PlaceReport {
  readonly place: string;
  readonly connects: WitnessedReport;
  readonly watches: WatchesReport;
}

async function startLoad(
  lab: NodeLab,
  place: string,
  { servers, limitMs }: { readonly servers: readonly Target[]; readonly limitMs: number },
): Promise<{ end(): Promise<PlaceReport> }> {
  await runShell(lab.machine(place.replace(/^pod-/, '')), separatePorts);
  const watches = await holdWatches(lab, place, { count: watchesPerPlace, pingIntervalMs });
  const own = masters.find(({ name }) => name === place)?.addresses[lab.options.family];
  // One is enough, and is to be on another machine.
  const witness = servers.filter(({ host }) => host !== own).slice(0, 1);
  const target = { host: lab.vip, port: apiserverPort, firstLocalPort: chooseFirstPort() };
  const how = { perSecond, durationMs: longestMs, limitMs };
  const connects = connectWitnessed((role) => lab.seat(place, role), { ...target, ...how }, witness);
  return {
    async end() {
      const connected = await connects.end().catch(async (error: unknown) => {
        await watches.end();
        throw error;
      });
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

function describeFailures({ place, connects }: PlaceReport): string[] {
  const { failures, lostSyns, isQuiet } = connects;
  return [
    ...failures.map(({ error, atMs }) => `${place}: ${error} after ${atMs.toFixed(0)} ms`),
    ...(lostSyns === 0 ? [] : [`${place}: ${lostSyns} by a second SYN`]),
    ...(isQuiet ? [] : [`${place}: it never became quiet`]),
  ];
}
