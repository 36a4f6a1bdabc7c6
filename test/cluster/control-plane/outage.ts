import { type Failing, measureFailing } from '../../support/lab/failing.ts';
import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import { runShell } from '../../../tools/lab/machines/machine.ts';
import { apiserverPort, masters } from '../../support/network/layout.ts';
import { recordHello } from '../../support/network/hello.ts';
import { listFinders } from '../../support/lab/witnesses.ts';
import { connectWitnessed } from '../../support/network/witness.ts';
import { setTimeout as sleep } from 'node:timers/promises';

/** What a client outside the cluster saw of a fault. */
export interface Outage extends Failing {
  readonly sent: number;
  /** The longest time between two events of a watch through the VIP, in milliseconds; events come about every 100. */
  readonly watchGapMs: number;
  /** The apiservers the watch was on, one after another. */
  readonly watchedAt: readonly string[];
}

interface Measurement {
  /** From the fault's beginning to the end of all measuring. */
  readonly durationMs: number;
  /** The apiserver that the watch shall be on; any when left out. */
  readonly watched?: string;
  readonly perSecond?: number;
  /** The master that the fault takes away: it is no witness of the machine. */
  readonly stricken?: string;
  /** What takes longer has failed; a second when left out. */
  readonly limitMs?: number;
  /** Whether a connection counts only when an apiserver answers to a TLS handshake; otherwise one of TCP does. */
  readonly needsAnswer?: boolean;
}

const object = 'heartbeat';
const writeIntervalMs = 100;

/** The clients run steadily by then. */
const leadMs = 1500;

/** The clients' ports are kept apart: the entries that one leaves on the VIP's holder would mislead the other. */
const separatePorts = 'echo 61000 65535 > /proc/sys/net/ipv4/ip_local_port_range';

/** Runs a fault, and what is done about it, under a steady load of new connections and one watch. */
export async function measureOutage(
  lab: Lab,
  { durationMs, watched, stricken, limitMs, perSecond = 500, needsAnswer = false }: Measurement,
  fault: () => Promise<void>,
): Promise<Outage> {
  await createObject(lab);
  await runShell(lab.machine('client'), separatePorts);
  const { authority, admin } = lab.certificates;
  const target = { port: apiserverPort, identity: { authority, ...admin }, object };
  const [hello, witnesses] = [await recordHello(), await listFinders(lab, stricken)];
  const wholeMs = leadMs + durationMs;
  const watch = await lab.seat('client', 'watch').watch({
    ...{ ...target, host: lab.vip, durationMs: wholeMs },
    ...(watched === undefined ? {} : { apiserver: watched }),
  });
  const writes = lab.seat('client', 'writer').write({
    ...{ ...target, durationMs: wholeMs, intervalMs: writeIntervalMs },
    hosts: masters.map(({ addresses }) => addresses[lab.options.family]),
  });
  const connects = connectWitnessed(
    (role) => lab.seat('client', role),
    {
      ...{ host: lab.vip, port: apiserverPort, perSecond, durationMs: wholeMs },
      ...(limitMs === undefined ? {} : { limitMs }),
      ...(needsAnswer ? { hello } : {}),
    },
    witnesses,
  );
  await sleep(leadMs);
  const doneAt = performance.timeOrigin + performance.now();
  await fault();
  const [connected, watching] = await Promise.all([connects.report, watch.report, writes]);
  // To the end as well: a watch that hangs gets no next event.
  const events = [...watching.eventsAtMs, watching.endedAtMs];
  const gaps = events.map((atMs, index) => atMs - (events[index - 1] ?? atMs));
  return {
    sent: connected.sent,
    ...measureFailing(connected, { doneAt, endedAt: connected.startedAt + wholeMs }),
    watchGapMs: Math.max(0, ...gaps),
    watchedAt: watching.apiservers,
  };
}

async function createObject(lab: Lab): Promise<void> {
  await lab.api.create('/api/v1/namespaces/default/configmaps', {
    ...{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: object } },
  });
}
