import type { SmallCluster } from '../shared/small-cluster.ts';
import { type SetUpName, setUps } from './set-ups.ts';
import { type BenchService, locateSlice, makeSlice } from '../shared/service-objects.ts';
import { Dialogue } from '../shared/dialogue.ts';
import { endpointCount, firstEndpoint, listChanges, endpointPort } from './objects.ts';
import { LabError } from '../../lab/settings/error.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { readUsage } from './usage.ts';
import { loadavg } from 'node:os';
import { runShell } from '../../lab/machines/machine.ts';

/** Ten changes a second. */
const everyMs = 100;
const changeCount = 300;

/** A first write of 100,000 endpoints may take minutes, and a change that is not seen after so long counts as not seen. */
const limits = { startMs: 300_000, changeMs: 20_000 };

/** What a start leaves behind is done by then. */
const restMs = 5000;

/** What one round found. Milliseconds. */
export interface Outcome {
  /** From the start of the process until every endpoint is in the kernel; null after five minutes. */
  readonly startMs: number | null;
  /** From the moment at which the API tells of a change until it is in the kernel, for each change that was seen. */
  readonly latenciesMs: readonly number[];
  /** The same from the moment at which the change is sent to the API. */
  readonly writtenMs: readonly number[];
  /** Changes that were not in the kernel 20 s after the last one. */
  readonly unseen: number;
  /** At the end of the changes. */
  readonly megabytes: number;
  readonly peakMegabytes: number;
  /** During the changes: of one processor. */
  readonly processorShare: number;
  /** The part of the tools that the process ran. */
  readonly toolsShare: number;
  /** Of the machine, over the last minute. */
  readonly load: number;
}

/** A change as `services follow` saw it, in milliseconds since 1970; 0 for never. */
interface SeenChange {
  readonly sentMs: number;
  readonly eventMs: number;
  readonly kernelMs: number;
}

let changesBefore = 0;

/** Starts a set-up on its node, changes endpoints, and leaves the node as it was, and the objects too. */
export async function measureRound(
  cluster: SmallCluster,
  setUp: SetUpName,
  services: readonly BenchService[],
): Promise<Outcome> {
  const follower = await Dialogue.open(cluster.follow(setUp));
  const startedMs = performance.timeOrigin + performance.now();
  const service = await setUps[setUp].start(cluster);
  try {
    const count = services.length * endpointCount;
    const range = { first: firstEndpoint, count, limitMs: limits.startMs };
    const seenMs = (await follower.ask({ await: range })) as number | null;
    if (!(await service.isRunning())) {
      throw new LabError(`${service.describe()} has ended:\n${service.readTail()}`);
    }
    await sleep(restMs);
    const machine = cluster.machine(setUp);
    const before = await readUsage(machine, service);
    const beganMs = performance.now();
    const changes = listChanges(services, changesBefore, changeCount);
    changesBefore += changeCount;
    const seen = (await follower.ask({
      change: { changes, everyMs, limitMs: limits.changeMs },
    })) as SeenChange[];
    const after = await readUsage(machine, service);
    const changedMs = performance.now() - beganMs;
    const known = seen.filter(({ kernelMs }) => kernelMs > 0);
    return {
      startMs: seenMs === null ? null : seenMs - startedMs,
      // A program may hear of it a moment before the bench does.
      latenciesMs: known.map(({ eventMs, kernelMs }) => Math.max(0, kernelMs - eventMs)),
      writtenMs: known.map(({ sentMs, kernelMs }) => kernelMs - sentMs),
      unseen: seen.length - known.length,
      megabytes: after.megabytes,
      peakMegabytes: after.peakMegabytes,
      processorShare: (after.processorMs - before.processorMs) / changedMs,
      toolsShare: (after.toolsMs - before.toolsMs) / changedMs,
      load: loadavg()[0] ?? 0,
    };
  } finally {
    follower.close();
    await service.stop('KILL');
    await runShell(cluster.machine(setUp), 'nft flush ruleset');
    await restore(cluster, services);
  }
}

/** All endpoints as they were at first. */
async function restore(cluster: SmallCluster, services: readonly BenchService[]): Promise<void> {
  await cluster.write(
    services.slice(0, changeCount).map((service) => ({
      ...{ stage: 0, method: 'PUT', path: locateSlice(service) },
      body: makeSlice(service, endpointPort),
    })),
  );
}
