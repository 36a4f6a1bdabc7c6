import { type DrainingEndpoint, type NodeMode } from '../../lib/services/node-report.ts';
import { type NodeEndings } from '../decide/node-endings.ts';
import { type NodeOutages } from '../decide/node-outages.ts';
import { type NodeHealth } from '../nodes/node-health.ts';
import { type BalancerCounts } from './balancer-counts.ts';

/** How a balancer does: what its metrics and probes say. */
export interface BalancerState {
  /** Services that have rules in the tables. */
  readonly services: number;
  readonly elements: number;
  /** Services that are kube-proxy's although nobody asks for that. */
  readonly left: readonly string[];
  /** Whether all kinds of objects were listed, and are watched. */
  readonly isFollowing: boolean;
  /** Each kind of objects, to whether it is not lost. */
  readonly kinds: ReadonlyMap<string, boolean>;
  /** Objects that cannot be read, and are left out. */
  readonly unreadable: readonly { readonly kind: string; readonly object: string }[];
  /** When the last sync succeeded; null before. */
  readonly syncedAt: Date | null;
  /** Null before the first sync. */
  readonly mode: NodeMode | null;
  /** The seats that this node may hold: `POOL/INDEX`. */
  readonly seats: readonly string[];
  readonly held: readonly string[];
  readonly inUse: readonly string[];
  readonly behindMs: number;
  readonly draining: readonly DrainingEndpoint[];
  /** Of this node; null where it has none, or is not known. */
  readonly zone: string | null;
  /** The nodes whose pods are to get no new connection, as their Nodes say, to why. */
  readonly endings: NodeEndings;
  readonly counts: BalancerCounts;
  /** Nodes that do not answer this one. */
  readonly outages: NodeOutages;
  /** Nodes that never answered this one, and stay in use: see NodeHealth. */
  readonly unheard: NodeHealth['unheard'];
  /** How many nodes are asked whether they live, and how often that was done. */
  readonly nodes: NodeHealth['counts'];
}

/** What of it the balancer itself knows. */
export type BalancerProgress = Pick<
  BalancerState,
  'services' | 'elements' | 'left' | 'isFollowing' | 'kinds' | 'syncedAt' | 'unreadable' | 'zone' | 'endings'
>;
