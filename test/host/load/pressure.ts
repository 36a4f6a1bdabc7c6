import { type Cluster } from '../../support/network/cluster.ts';
import { Seat } from '../../support/network/seat.ts';
import type { ConnectReport, HoldReport, Target } from '../../support/network/seat-tasks.ts';

interface Size {
  readonly open: number;
  readonly perSecond: number;
}

/** One process makes so many new connections a second, from an address of its own: for two minutes no port comes again. */
const perCaller = 500;

/** And holds so many, each with a descriptor. */
const openPerHolder = 10_000;
const descriptors = 2 * openPerHolder;

/** The open connections say something now and then: a thousand bytes a second, all of them together. */
const openPerSecond = 1000;

/** The stand-ins share two cores with their clients: that they are slow to say their names is no fault of the rules. */
const connectLimitMs = 60_000;

const longestMs = 15 * 60_000;

interface PressureReport {
  readonly held: HoldReport;
  readonly sent: number;
  readonly seconds: number;
  readonly failures: ConnectReport['failures'];
  /** How many were there only after more than a second. */
  readonly slow: number;
  readonly apiservers: Readonly<Record<string, number>>;
}

/** Clients outside the cluster that hold many connections to a VIP, and make many new ones, while something is done. */
export async function press(
  cluster: Cluster,
  target: Target,
  { open, perSecond }: Size,
  act: () => Promise<void>,
): Promise<PressureReport> {
  const holders = startSeats(cluster, Math.ceil(open / openPerHolder));
  const callers = startSeats(cluster, Math.ceil(perSecond / perCaller));
  const addresses = callers.map((_, index) => `10.77.0.${101 + index}`);
  const addAddresses = addresses.map((address) => `ip addr replace ${address}/24 dev eth0`);
  await cluster.shell('client', addAddresses.join('\n'));
  const intervalMs = Math.max(1000, (open / openPerSecond) * 1000);
  const holding = await Promise.all(
    holders.map((seat) => seat.hold({ ...target, intervalMs }, open / holders.length, longestMs)),
  );
  const started = performance.now();
  const task = { ...target, isNamed: true, limitMs: connectLimitMs, durationMs: longestMs };
  const calling = callers.map((seat, index) =>
    seat.connectAtRate({ ...task, perSecond: perSecond / callers.length, from: addresses[index] ?? '' }),
  );
  await act();
  for (const seat of callers) seat.settle();
  const calls = await Promise.all(calling);
  const seconds = (performance.now() - started) / 1000;
  for (const seat of holders) seat.settle();
  const holds = await Promise.all(holding.map(({ report }) => report));
  return {
    held: {
      ...{ opened: sum(holds, 'opened'), sent: sum(holds, 'sent'), echoes: sum(holds, 'echoes') },
      errors: addCounts(holds.map(({ errors }) => errors)),
    },
    ...{ sent: sum(calls, 'sent'), seconds },
    failures: calls.flatMap(({ failures }) => failures),
    slow: calls.flatMap(({ slowAtMs }) => slowAtMs).length,
    apiservers: addCounts(calls.map(({ apiservers }) => apiservers)),
  };
}

function startSeats(cluster: Cluster, count: number): Seat[] {
  const command = ['prlimit', `--nofile=${descriptors}:${descriptors}`, ...Seat.command];
  return Array.from({ length: count }, () => new Seat('client', cluster.start('client', command)));
}

function sum<Key extends string>(reports: readonly Readonly<Record<Key, number>>[], key: Key): number {
  return reports.reduce((total, report) => total + report[key], 0);
}

function addCounts(all: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const total: Record<string, number> = {};
  for (const [name, count] of all.flatMap((counts) => Object.entries(counts)))
    total[name] = (total[name] ?? 0) + count;
  return total;
}
