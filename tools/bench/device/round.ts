import { type HaproxyPair, service } from './pair.ts';
import type { SetUp } from './set-ups.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { countErrors } from '../shared/failures.ts';
import { loadavg } from 'node:os';

/** New connections each second. */
const perSecond = 200;

/** What clients outside the cluster saw of one update. Milliseconds are from the fault, or else the update's start, to the start of a connection. */
export interface Outcome {
  /** New connections in all, and those that were not answered in time. */
  readonly sent: number;
  readonly failed: number;
  /** When the last one began that failed; 0 when none did. */
  readonly failedMs: number;
  /** Those that failed or took more than a second, and when the last of them began. */
  readonly slowed: number;
  readonly slowedMs: number;
  /** Those that came to the address of a pod that was no member any more. */
  readonly stale: number;
  readonly errors: Readonly<Record<string, number>>;
  readonly updateMs: number;
  /** Of the machine, over the last minute. */
  readonly load: number;
}

/** A lost first packet comes again after one second. */
const limitMs = 3000;

/** An update waits for a unit that does not answer. */
const longestMs = 180_000;

/** Clients run steadily by then; and how much later a fault may come, so that it meets everybody's timers in every phase. */
const lead = { leastMs: 1000, phaseMs: 1000 };

/** One rolling update, and the fault meanwhile. The next round begins when both units are well. */
export async function measureRound(pair: HaproxyPair, { fault }: SetUp): Promise<Outcome> {
  const active = (await pair.cluster.ask({ task: 'settle' })) as number;
  const connecting = pair.client.connectAtRate({
    ...{ ...service, perSecond, limitMs, isNamed: true, durationMs: longestMs },
  });
  await sleep(lead.leastMs);
  let faultAt = Date.now();
  const updating = pair.cluster.ask({ task: 'update' }) as Promise<number>;
  if (fault !== null) {
    // Each of four steps takes half a second at least.
    await sleep(Math.random() * lead.phaseMs);
    faultAt = Date.now();
    await fault.break(pair, active);
    await sleep(fault.lengthMs);
    await fault.mend(pair, active);
  }
  const updateMs = await updating;
  await pair.cluster.ask({ task: 'settle' });
  pair.client.settle();
  const { startedAt, sent, failures, slowAtMs, apiservers } = await connecting;
  const failedAtMs = failures.map(({ atMs }) => atMs);
  const sinceFault = (atMs: readonly number[]) =>
    atMs.length === 0 ? 0 : Math.round(startedAt + Math.max(...atMs) - faultAt);
  const slowed = [...failedAtMs, ...slowAtMs];
  return {
    ...{ sent, failed: failures.length, failedMs: sinceFault(failedAtMs) },
    ...{ slowed: slowed.length, slowedMs: sinceFault(slowed), stale: apiservers['gone'] ?? 0 },
    ...{ errors: countErrors(failures), updateMs, load: loadavg()[0] ?? 0 },
  };
}
