import { type Clock } from '../../lib/control/clock.ts';
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { silentAnnotation } from '../../lib/services/names.ts';
import { type Lease, type NodeLease, parseNodeLease, toLeaseName } from '../../lib/services/node-report.ts';
import { NodeLiveness } from '../world/node-liveness.ts';
import { type Affected, joinAffected, unaffected } from '../world/affected.ts';
import { type HeardLease } from '../world/world.ts';
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
  /** Nodes to the renewal that was heard first. */
  readonly #heard = new Map<string, string>();
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
    return this.#take(after, now);
  }

  #take(lease: Lease | null, { report, renewal, durationMs }: NodeLease): Affected {
    const { node } = report;
    const isFirst = !this.#heard.has(node);
    const noted = lease?.metadata.annotations?.[silentAnnotation] ?? null;
    this.#note(node, lease, { renewal, noted });
    const isBorn = this.#liveness.heard(node, renewal, durationMs);
    const text = JSON.stringify(report);
    if (!this.#liveness.isLiving(node) || (!isBorn && this.#reports.get(node) === text)) return unaffected;
    this.#reports.set(node, text);
    const affected = this.#store.changeReport(node, report);
    // The leader before has heard no renewal since.
    if (!isFirst || noted !== renewal) return affected;
    this.#liveness.end(node);
    return joinAffected([affected, this.#silence(node)]);
  }

  /** To be called each second: what changes because Leases are over. */
  tick(): Affected {
    const now = this.#clock.now();
    const over = this.#liveness.tick(now, now - this.#ownHeardAt < silenceMs);
    return joinAffected(over.map((node) => this.#silence(node)));
  }

  #note(node: string, lease: Lease | null, { renewal, noted }: Pick<HeardLease, 'renewal' | 'noted'>): void {
    if (lease === null) return;
    const { name, uid, resourceVersion } = lease.metadata;
    const first = this.#heard.get(node) ?? renewal;
    this.#heard.set(node, first);
    this.#store.changeLease(name, { node, uid, resourceVersion, renewal, noted }, first !== renewal);
  }

  #forget(node: string | undefined): Affected {
    if (node === undefined) return unaffected;
    this.#liveness.forget(node);
    this.#reports.delete(node);
    this.#heard.delete(node);
    this.#store.changeLease(toLeaseName(node), null);
    return this.#store.changeReport(node, null);
  }

  #silence(node: string): Affected {
    this.#reports.delete(node);
    return this.#store.silenceNode(node, this.#liveness.getLastRenewal(node) ?? '');
  }
}
