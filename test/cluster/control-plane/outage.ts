import { setTimeout as sleep } from 'node:timers/promises';
import { type Lab } from '../../../lab/control-plane/lab.ts';
import { runShell } from '../../../lab/machines/machine.ts';
import { apiserverPort, masters } from '../../support/network/layout.ts';
import { findStalled, stallMs } from '../../support/lab/stalls.ts';
import { recordHello } from '../../support/network/hello.ts';
import type { ConnectReport, WatchReport } from '../../support/network/seat-tasks.ts';

/** What a client outside the cluster saw of a fault. */
export interface Outage {
  /** New connections to the VIP in all. */
  readonly sent: number;
  readonly failed: number;
  /** Those of them that failed while a whole machine stood still, see `Measurement.hasControl`. */
  readonly stalled: number;
  readonly errors: string;
  /** From the start of the first connection that failed to that of the last one, in milliseconds; 0 when none did. */
  readonly windowMs: number;
  /** From the start of the last connection that failed to the end of measuring, in milliseconds; all of it when none did. */
  readonly quietMs: number;
  /** The longest time between two events of a watch through the VIP, in milliseconds; events come about every 100. */
  readonly watchGapMs: number;
  /** The apiservers the watch was on, one after another. */
  readonly watchedAt: readonly string[];
}

/** How a fault is looked at. */
export interface Measurement {
  /** From the fault's beginning to the end of all measuring. */
  readonly durationMs: number;
  /** The apiserver that the watch shall be on; any when left out. */
  readonly watched?: string;
  readonly perSecond?: number;
  /**
   * Whether connections go to each master's own address as well: no rule is in their way. Where they are late too, a
   * machine stood still.
   */
  readonly hasControl?: boolean;
  /** Whether a connection counts only when an apiserver answers to a TLS handshake; otherwise one of TCP does. */
  readonly needsAnswer?: boolean;
}

const object = 'heartbeat';
const writeIntervalMs = 100;

/** The clients run steadily by then. */
const leadMs = 1500;

/** Enough straight connections to meet every time at which a machine stands still. */
const straightPerSecond = 20;

/** Far from the ports of connections to the VIP: one entry for both would mislead them. Each comes once, as there. */
let nextStraightPort = 31_000;

/** The clients' ports are kept apart: the entries that one leaves on the VIP's holder would mislead the other. */
const separatePorts = 'echo 61000 65535 > /proc/sys/net/ipv4/ip_local_port_range';

/** Runs a fault, and what is done about it, under a steady load of new connections and one watch. */
export async function measureOutage(
  lab: Lab,
  { durationMs, watched, hasControl = false, perSecond = 500, needsAnswer = false }: Measurement,
  fault: () => Promise<void>,
): Promise<Outage> {
  await createObject(lab);
  await runShell(lab.machine('client'), separatePorts);
  const { vip } = lab;
  const { authority, admin } = lab.certificates;
  const identity = { authority, ...admin };
  const target = { port: apiserverPort, identity, object };
  const wholeMs = leadMs + durationMs;
  const hosts = masters.map(({ addresses }) => addresses[lab.options.family]);
  const apiserver = watched === undefined ? {} : { apiserver: watched };
  const watch = await lab
    .seat('client', 'watch')
    .watch({ ...target, ...apiserver, host: vip, durationMs: wholeMs });
  const writes = lab.seat('client', 'writer').write({
    ...target,
    hosts,
    intervalMs: writeIntervalMs,
    durationMs: wholeMs,
  });
  const connects = lab.seat('client', 'connects').connectAtRate({
    ...{ host: vip, port: apiserverPort, perSecond, durationMs: wholeMs },
    ...(needsAnswer ? { hello: await recordHello() } : {}),
  });
  const straight = hasControl ? connectStraight(lab, wholeMs) : [];
  await sleep(leadMs);
  await fault();
  const reports = await Promise.all([connects, watch.report, writes]);
  return summarize(reports[0], reports[1], { wholeMs, straight: await Promise.all(straight) });
}

/** Connections to each master's own address, which may take half as long as those to the VIP. */
function connectStraight(lab: Lab, durationMs: number): Promise<ConnectReport>[] {
  const firstLocalPort = nextStraightPort;
  nextStraightPort += (straightPerSecond * durationMs) / 1000;
  return masters.map(({ name, addresses }) =>
    lab.seat('client', `straight to ${name}`).connectAtRate({
      ...{ host: addresses[lab.options.family], port: apiserverPort, durationMs },
      ...{ perSecond: straightPerSecond, limitMs: stallMs, firstLocalPort },
    }),
  );
}

function summarize(
  connects: ConnectReport,
  watch: WatchReport,
  { wholeMs, straight }: { wholeMs: number; straight: readonly ConnectReport[] },
): Outage {
  const { sent, failures } = connects;
  const stalled = new Set(findStalled(connects, straight));
  const counts = new Map<string, number>();
  for (const failure of failures) {
    const error = stalled.has(failure) ? `${failure.error} while a machine stood still` : failure.error;
    counts.set(error, (counts.get(error) ?? 0) + 1);
  }
  const times = failures.map(({ atMs }) => atMs);
  // To the end as well: a watch that hangs gets no next event.
  const events = [...watch.eventsAtMs, watch.endedAtMs];
  const gaps = events.map((atMs, index) => atMs - (events[index - 1] ?? atMs));
  return {
    sent,
    failed: failures.length,
    stalled: stalled.size,
    errors: [...counts].map(([error, count]) => `${count} ${error}`).join(', '),
    windowMs: times.length === 0 ? 0 : Math.max(...times) - Math.min(...times),
    quietMs: wholeMs - Math.max(0, ...times),
    watchGapMs: Math.max(0, ...gaps),
    watchedAt: watch.apiservers,
  };
}

async function createObject(lab: Lab): Promise<void> {
  await lab.api.create('/api/v1/namespaces/default/configmaps', {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: object },
  });
}
