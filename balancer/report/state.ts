import { type NodeMode } from '../../lib/services/node-report.ts';
import { type BalancerCounts } from './balancer-counts.ts';

/** How a balancer does: what its metrics and probes say. */
export interface BalancerState {
  /** Services that have rules in the tables. */
  readonly services: number;
  readonly elements: number;
  /** Whether all kinds of objects were listed, and are watched. */
  readonly isFollowing: boolean;
  /** When the last sync succeeded; null before. */
  readonly syncedAt: Date | null;
  /** Null before the first sync. */
  readonly mode: NodeMode | null;
  /** The seats that this node may hold: `POOL/INDEX`. */
  readonly seats: readonly string[];
  readonly held: readonly string[];
  readonly inUse: readonly string[];
  readonly behindMs: number;
  readonly counts: BalancerCounts;
}
