import { type Clock } from '../../lib/control/clock.ts';
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { type Lease, parseNodeLease } from '../../lib/services/node-report.ts';
import { NodeLiveness } from '../world/node-liveness.ts';
import { type Affected, joinAffected, unaffected } from '../world/affected.ts';
import { type WorldStore } from '../world/world-store.ts';

/** This process renews its own Lease each 2 s: a watch that does not show that is not up, whatever its connection says. */
const silenceMs = 6000;

/** Hears the Leases of a namespace: what nodes report, and which of them live. */
export class LeaseListener {
  readonly #clock: Clock;
  readonly #electionLease: string;
  readonly #store: WorldStore;
  readonly #liveness = new NodeLiveness();
  /** Nodes to what they last reported, as text. */
  readonly #reports = new Map<string, string>();
  #ownHeardAt = -Infinity;

  constructor(
    { clock, electionLease }: { readonly clock: Clock; readonly electionLease: string },
    store: WorldStore,
  ) {
    this.#clock = clock;
    this.#electionLease = electionLease;
    this.#store = store;
  }

  /** For how long the renewals of this process's own Lease were not heard; null before the first. */
  get silentMs(): number | null {
    return this.#ownHeardAt === -Infinity ? null : this.#clock.now() - this.#ownHeardAt;
  }

  /** A Lease has changed. A renewal that says nothing new changes nothing. */
  change({ key, before, after }: Change<Lease>): Affected {
    if (key.split('/').at(-1) === this.#electionLease) this.#ownHeardAt = this.#clock.now();
    const [old, now] = [before, after].map((lease) => (lease === null ? null : parseNodeLease(lease)));
    if (now === null || now === undefined) return this.#forget(old?.report.node);
    const { node } = now.report;
    const isBorn = this.#liveness.heard(node, now.renewal, now.durationMs);
    const text = JSON.stringify(now.report);
    if (!this.#liveness.isLiving(node) || (!isBorn && this.#reports.get(node) === text)) return unaffected;
    this.#reports.set(node, text);
    return this.#store.changeReport(node, now.report);
  }

  /** To be called each second: what changes because Leases are over. */
  tick(): Affected {
    const now = this.#clock.now();
    const over = this.#liveness.tick(now, now - this.#ownHeardAt < silenceMs);
    return joinAffected(over.map((node) => this.#silence(node)));
  }

  #forget(node: string | undefined): Affected {
    if (node === undefined) return unaffected;
    this.#liveness.forget(node);
    this.#reports.delete(node);
    return this.#store.changeReport(node, null);
  }

  #silence(node: string): Affected {
    this.#reports.delete(node);
    return this.#store.silenceNode(node, this.#liveness.getLastRenewal(node) ?? '');
  }
}
