import { toPrintableJson } from '../../../lib/text/printable.ts';
import { nameTable } from '../../../lib/services/balancer-table.ts';
import { findTrouble, type HostBalancer, isUsed } from '../../../lib/services/host-balancer.ts';

/** What these commands print in JSON on a host that has Services, and no virtual IP of the API. Ends with a newline. */
export function formatBalancerJson(host: HostBalancer, node: string, more: object = {}): string {
  const answer = { version: 1, node, vips: [], balancer: describeBalancer(host), ...more };
  return `${toPrintableJson(answer, 2)}\n`;
}

/** `balancer` of `status --json` and `check --json`, version 1; null on a host without Services. */
export function describeBalancer(host: HostBalancer): object | null {
  if (!isUsed(host)) return null;
  const { balancer, activity, tables } = host;
  const trouble = findTrouble(host);
  return {
    balanced: trouble === null,
    trouble,
    running: balancer !== null,
    pid: balancer?.pid ?? null,
    since: balancer?.since ?? null,
    ...describeActivity(activity),
    tables: tables.map(({ family, aliveSeconds }) => ({ table: nameTable(family), aliveSeconds })),
  };
}

/** All fields are there, and null without a balancer that says them. */
function describeActivity(activity: HostBalancer['activity']): object {
  if (activity === null) return Object.fromEntries(activityFields.map((field) => [field, null]));
  const { syncedMsAgo, behindMs, mode, services, elements, repairs } = activity;
  const answer: Record<(typeof activityFields)[number], unknown> = {
    ...{ mode, services, elements, repairs },
    followsApi: activity.isFollowing,
    lastSyncSecondsAgo: syncedMsAgo === null ? null : syncedMsAgo / 1000,
    behindSeconds: behindMs / 1000,
    seats: activity.seats,
    heldSeats: activity.held,
    addressesInUse: activity.inUse,
  };
  return answer;
}

const activityFields = [
  'mode',
  'services',
  'elements',
  'repairs',
  'followsApi',
  'lastSyncSecondsAgo',
  'behindSeconds',
  'seats',
  'heldSeats',
  'addressesInUse',
] as const;
