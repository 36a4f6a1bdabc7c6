import { type Drained, readDrained } from '../../lib/services/drained.ts';
import { type Lease, type NodeMode } from '../../lib/services/node-report.ts';
import { type AddressPool, type VirtualIp } from '../../lib/services/objects.ts';
import { type HeardReport, readReports } from './read-reports.ts';

/** What the API has of seats. */
export interface SeatObjects {
  readonly pools: readonly AddressPool[];
  readonly virtualIps: readonly VirtualIp[];
  readonly leases: readonly Lease[];
}

/** A seat, and who says that it holds it. */
export interface SeatView {
  /** `POOL/INDEX`. */
  readonly seat: string;
  readonly pool: string;
  readonly index: number;
  /** Who has it on `lo` holds the seat. */
  readonly anchor: string;
  readonly vrid: number;
  /** How many addresses Services have there. */
  readonly addresses: number;
  /** The nodes that say so: only those that said it within 15 s, where there is one. More than one for the moment of a move; none where no balancer lives. */
  readonly holders: readonly string[];
  /** Those that may hold it, the one that shall first. */
  readonly nodes: readonly string[];
}

/** A node with a balancer. */
export interface NodeView {
  readonly node: string;
  readonly mode: NodeMode;
  /** Since its Lease was renewed, by this host's date; null where it has no time. */
  readonly silentMs: number | null;
  /** Whether its Lease lasts, by this host's date. */
  readonly isLiving: boolean;
  readonly inUse: readonly string[];
  /** Seats and addresses that it may hold and cannot, to clauses that say why. */
  readonly unheld: Readonly<Record<string, string>>;
}

/** All seats of a cluster. */
export interface SeatsView {
  readonly seats: readonly SeatView[];
  readonly nodes: readonly NodeView[];
  /** By pools' names. */
  readonly drained: ReadonlyMap<string, readonly Drained[]>;
}

/** A balancer renews its Lease every 10 s, and an apiserver answers within seconds. */
const freshMs = 15_000;

/** Who holds what, by what the API has. A node counts as long as its Lease lasts by this host's date. Pure. */
export function viewSeats({ pools, virtualIps, leases }: SeatObjects, nowMs: number): SeatsView {
  const reports = readReports(leases, nowMs);
  const living = reports.filter(({ isLiving }) => isLiving);
  const counts = Map.groupBy(
    virtualIps.filter(({ spec }) => spec.services.length > 0),
    ({ spec }) => `${spec.pool}/${spec.seat}`,
  );
  const seats = pools.flatMap(({ metadata: { name: pool }, status }) =>
    (status?.seats ?? []).map(({ index, anchor, vrid, nodes }) => {
      const seat = `${pool}/${index}`;
      const claims = living.filter(({ seats: held }) => held.includes(seat));
      const holders = chooseHolders(claims).map(({ node }) => node);
      return { seat, pool, index, anchor, vrid, nodes, holders, addresses: counts.get(seat)?.length ?? 0 };
    }),
  );
  return {
    seats: seats.sort((one, other) => one.pool.localeCompare(other.pool) || one.index - other.index),
    nodes: reports.map(({ node, mode, silentMs, isLiving, inUse, unheld = {} }) => ({
      ...{ node, mode, silentMs, isLiving, inUse, unheld },
    })),
    drained: new Map(pools.map((pool) => [pool.metadata.name, readDrained(pool)])),
  };
}

/** The word of a node that lost its power lasts as long as its Lease: another node that has taken the seat says so now. */
function chooseHolders(claims: readonly HeardReport[]): readonly HeardReport[] {
  const fresh = claims.filter(({ silentMs }) => silentMs !== null && silentMs <= freshMs);
  return fresh.length === 0 ? claims : fresh;
}

/** The seats that another node holds than the first of those that may, although that one could. Pure. */
export function listMisplaced({ seats, nodes }: SeatsView): SeatView[] {
  const able = new Set(nodes.filter(({ mode }) => mode !== 'none').map(({ node }) => node));
  return seats.filter(
    ({ holders: [holder, ...others], nodes: [first = ''] }) =>
      holder !== undefined && others.length === 0 && holder !== first && able.has(first),
  );
}
