import {
  type NodeReport,
  type Lease,
  toLeaseName,
  toAnnotations,
  type Drained,
  dropDrained,
} from '../../../lib/api/node.ts';
import { type SeatsApi, type SeatObjects, viewSeats } from '../../../cli/seats.ts';
import { makeSeat, makePool } from './seat-objects.ts';

/** When tests are, for Leases. */
export const now = Date.parse('2026-01-01T00:00:00Z');

/** A node's Lease, renewed so long ago. */
export function makeLease(
  node: string,
  seats: readonly string[],
  { agoMs = 3000, ...parts }: Partial<NodeReport> & { readonly agoMs?: number } = {},
): Lease {
  return {
    metadata: {
      name: toLeaseName(node),
      uid: 'u',
      resourceVersion: '1',
      generation: 0,
      annotations: toAnnotations({ node, seats, mode: 'direct', inUse: [], programmed: {}, ...parts }),
    },
    spec: { leaseDurationSeconds: 40, renewTime: new Date(now - agoMs).toISOString() },
  };
}

/**
 * A cluster with one pool, whose controller and balancers do at each look what the annotation asks for: a holder that may not hold a
 * seat gives it up, and at the next look the first of the nodes that may has it.
 */
export class SeatsWorld implements SeatsApi {
  readonly nodes: readonly string[];
  readonly holders: string[];
  readonly orders: readonly (readonly string[])[];
  /** What the annotation said, each time it was changed. */
  readonly history: (readonly Drained[])[] = [];
  /** Whether nothing moves any more. */
  isStuck = false;
  #drained: readonly Drained[] = [];

  constructor(orders: readonly (readonly string[])[], holders: readonly string[]) {
    this.orders = orders;
    this.holders = [...holders];
    this.nodes = [...new Set(orders.flat())].sort();
  }

  /** What the API has. */
  get objects(): SeatObjects {
    const seats = this.orders.map((nodes, index) => makeSeat(index, '10.0.9.10', nodes));
    const leases = this.nodes.map((node) =>
      makeLease(
        node,
        this.holders.flatMap((holder, index) => (holder === node ? [`default/${index}`] : [])),
      ),
    );
    return { pools: [makePool('default', seats)], virtualIps: [], leases };
  }

  view(): Promise<ReturnType<typeof viewSeats>> {
    if (!this.isStuck) this.#move();
    return Promise.resolve(viewSeats(this.objects, now));
  }

  drain(_pool: string, change: (drained: readonly Drained[]) => readonly Drained[]): Promise<void> {
    this.#drained = change(this.#drained);
    this.history.push(this.#drained);
    return Promise.resolve();
  }

  #move(): void {
    for (const [seat, order] of this.orders.entries()) {
      const nodes = dropDrained(order, { drained: this.#drained, seat, isAble: () => true });
      const holder = this.holders[seat] ?? '';
      if (!nodes.includes(holder)) this.holders[seat] = holder === '' ? (nodes[0] ?? '') : '';
    }
  }
}
