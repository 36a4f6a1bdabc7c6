/** What Services have on one host, by its kernel and its balancer, and how they do there. */
import { type Family } from '../address/address.ts';
import { type HolderInfo } from '../http/singleton.ts';
import { type VipnatError } from '../text/errors.ts';
import { type BalancerActivity } from './balancer-activity.ts';
import { type NodeMode } from './node-report.ts';

/** One of the balancer's tables. */
export interface BalancerTable {
  readonly family: Family;
  /** For how many more seconds its rules count unless a balancer renews them; null where they do not count. */
  readonly aliveSeconds: number | null;
}

/** What is there of Services on this host. */
export interface HostBalancer {
  /** Null where none runs. */
  readonly balancer: HolderInfo | null;
  /** Null where none runs, and while it does not say it: it has just begun, or is of an older version. */
  readonly activity: BalancerActivity | null;
  readonly tables: readonly BalancerTable[];
  /** Why the tables could not be read; null where they were. */
  readonly unread: VipnatError | null;
  /** The folder that balancer and keepalived share, as far as it is known here. */
  readonly runDir: string;
  /** Whether keepalived's configuration is in it. */
  readonly hasConfiguration: boolean;
}

/** Whether Services have anything on this host. Pure. */
export function isUsed({ balancer, tables, hasConfiguration }: HostBalancer): boolean {
  return balancer !== null || tables.length > 0 || hasConfiguration;
}

/** In milliseconds. A look is a few runs of nft, which ends after seconds: one that takes longer hangs, which a restart can help. */
export const hangingMs = 120_000;

/** Why this node does not balance Services; null where it does. In a clause. */
export function findTrouble(host: HostBalancer): string | null {
  const { balancer, activity, tables } = host;
  if (!isUsed(host)) return null;
  if (balancer === null) return 'no balancer runs';
  if (activity === null) return 'the balancer does not say how it does';
  if (activity.behindMs >= hangingMs) return 'the balancer hangs';
  if (tables.some(({ aliveSeconds }) => aliveSeconds === null)) return 'its tables do not count';
  return activity.mode === 'direct' ? null : describeMode(activity.mode);
}

function describeMode(mode: NodeMode | null): string {
  if (mode === null) return 'the balancer has not written its tables yet';
  return mode === 'none' ? 'this node can serve no address' : 'the balancer leaves them to kube-proxy';
}
