/**
 * Whether the controller counts on this node, by this node's own renewals of its Lease.
 *
 * Goal: the controller may give an address to another Service while this node is silent, and this node does not serve it wrongly.
 * Tension: a node that hears the API again may be cut off again before it has said that it is back. The controller would not know
 * what it took in between.
 * Compromise: a term begins with the first renewal, and with each one after a silence. New addresses wait for a term, and for a list
 * that began in it. Silence is measured from when a renewal began: the controller's own measure begins later.
 */
import { type Clock } from '../../lib/control/clock.ts';
import { type AbsentNode } from '../../lib/services/objects.ts';
import { leaseDurationMs } from '../../lib/services/node-report.ts';

/** A renewal that the API has taken. */
export interface Renewal {
  /** When it was sent, by the clock's milliseconds. */
  readonly begunMs: number;
  /** The Lease's `renewTime`. */
  readonly text: string;
}

/** What standing needs of the world. */
export interface StandingPorts {
  readonly clock: Clock;
  /** As the API names this node. */
  readonly node: string;
  /** Called when the Lease is to be renewed soon: something waits for it. */
  readonly onNeeded: () => void;
}

/** Of one node and one life of its balancer. */
export class Standing {
  readonly #ports: StandingPorts;
  readonly #onTerm = new Set<() => void>();
  #last: Renewal = { begunMs: -Infinity, text: '' };

  constructor(ports: StandingPorts) {
    this.#ports = ports;
  }

  /** Whether the controller is sure to count this node as living. */
  get isLiving(): boolean {
    return this.#isLivingAt(this.#ports.clock.now());
  }

  /** Has a function called whenever a term begins: what was read before may be older than what the controller knows of this node. */
  onTerm(listener: () => void): void {
    this.#onTerm.add(listener);
  }

  /** Takes a renewal. */
  renewed(renewal: Renewal): void {
    const isTerm = !this.#isLivingAt(renewal.begunMs);
    this.#last = renewal;
    if (isTerm) for (const begin of this.#onTerm) begin();
  }

  /** Has the Lease renewed soon, unless it was. */
  need(): void {
    if (!this.isLiving) this.#ports.onNeeded();
  }

  /**
   * Takes who did not hear of an address. If that is this node since its last renewal, the term is over, whatever the clock says: this
   * host may have been suspended.
   */
  noteAbsent(absent: readonly AbsentNode[]): void {
    const { node } = this.#ports;
    if (!absent.some((one) => one.node === node && one.renewal === this.#last.text)) return;
    this.#last = { ...this.#last, begunMs: -Infinity };
    this.need();
  }

  #isLivingAt(nowMs: number): boolean {
    return nowMs - this.#last.begunMs < leaseDurationMs;
  }
}
