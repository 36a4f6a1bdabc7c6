import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { type Leases, controllerManager, nameKubeletLease, scheduler } from './leases.ts';
import { reconnect, countLiving } from './connections.ts';
import { holdWatches } from './load.ts';
import { masters } from '../../../support/network/layout.ts';
import { takeStaticPod, waitForProgram, putStaticPod } from '../pods/static-pod.ts';
import { waitUntil } from '../../../../tools/lab/nodes/ready.ts';

/** What the programs of a master saw of it when the VIP was moved off it, though it lives. */
export interface MoveReport {
  readonly from: string;
  readonly to: string;
  /**
   * From the last renewal of its kubelet's Lease before the move to the first one after it, less the usual time between two, in
   * milliseconds; as the others less what the scheduler's Lease was late by, too: no VIP is in its way, so the whole machine was busy.
   */
  readonly kubeletMs: number;
  /** The same of the controller-manager's Lease; null when the one that leads was not on that master. */
  readonly controllerManagerMs: number | null;
  /** The longest time that a watch of a client on that master got no answer to a ping. */
  readonly watchMs: number;
  readonly endedWatches: readonly string[];
  /** The connections to the VIP that kubelet and controller-manager opened while that master had it: the addresses that these come from, how many they were, and how many went on. */
  readonly connections: {
    readonly sources: readonly string[];
    readonly before: number;
    readonly after: number;
  };
}

/** A kubelet renews every quarter of its nodeLeaseDurationSeconds (40), and a 25th later at most. Source: k8s.io/component-helpers/apimachinery/lease. */
const kubeletPeriodMs = 10_400;

/** --leader-elect-retry-period of controller-manager and scheduler */
const leaderPeriodMs = 2000;

const watches = { count: 5, pingIntervalMs: 50 };

/**
 * Moves the VIP off its holder and to another master, by taking keepalived's static pod off all but that one; they are back when it
 * answers. The holder's kubelet and controller-manager connect anew before.
 */
export async function moveVip(lab: NodeLab, to: string, leases: Leases): Promise<MoveReport> {
  const [from = ''] = await lab.listHolders();
  const leader = isLeader(leases, from) ? [controllerManager] : [];
  const kubelet = nameKubeletLease(from);
  const awaited = [kubelet, scheduler, ...leader];
  await waitForRenewal(leases, awaited, -Infinity);
  const before = await reconnect(lab, from);
  const held = await holdWatches(lab, from, watches);
  const others = masters.map(({ name }) => name).filter((name) => name !== to);
  await Promise.all(others.map((name) => takeStaticPod(lab, name, 'keepalived')));
  const movedAt = await waitForVip(lab, to);
  const [after] = await Promise.all([
    countLiving(lab, from, before),
    waitForRenewal(leases, awaited, movedAt),
  ]);
  await putBack(lab, others);
  const { watches: seen } = await held.end();
  const busyMs = Math.max(0, measurePause(leases, scheduler, movedAt) - leaderPeriodMs);
  return {
    ...{ from, to },
    kubeletMs: measurePause(leases, kubelet, movedAt) - kubeletPeriodMs - busyMs,
    controllerManagerMs:
      leader.length === 0 ? null : measurePause(leases, controllerManager, movedAt) - leaderPeriodMs - busyMs,
    watchMs: Math.max(...seen.map(({ silenceMs }) => silenceMs)) - busyMs,
    endedWatches: seen.flatMap(({ end }) => end ?? []),
    connections: { sources: [...new Set(before.map(({ source }) => source))], before: before.length, after },
  };
}

/** Whether the controller-manager that leads is on a master. */
export function isLeader(leases: Leases, master: string): boolean {
  return leases.getHolder(controllerManager).startsWith(`${master}_`);
}

async function waitForRenewal(leases: Leases, names: readonly string[], sinceMs: number): Promise<void> {
  await waitUntil(`${names.join(' and ')} is renewed`, () => {
    const missing = names.filter((name) => leases.findAround(name, sinceMs).after === null);
    return Promise.resolve(missing.length === 0 ? null : `not yet: ${missing.join(', ')}`);
  });
}

/** Answers when it was there, as of `performance.now()`. */
async function waitForVip(lab: NodeLab, master: string): Promise<number> {
  await waitUntil(`the VIP is on ${master}`, async () => {
    const holders = await lab.listHolders();
    return holders.length === 1 && holders[0] === master ? null : `on ${holders.join(', ')}`;
  });
  return performance.now();
}

async function putBack(lab: NodeLab, names: readonly string[]): Promise<void> {
  for (const name of names) await waitForProgram(lab, name, 'keepalived', false);
  await Promise.all(names.map((name) => putStaticPod(lab, name, 'keepalived')));
  for (const name of names) await waitForProgram(lab, name, 'keepalived', true);
}

function measurePause(leases: Leases, lease: string, movedAt: number): number {
  const { before, after } = leases.findAround(lease, movedAt);
  return before === null || after === null ? Number.NaN : after - before;
}
