import type { Clock } from '../../lib/clock.ts';
import type { Cache, ClusterView } from './cache.ts';
import type { Change } from '../../lib/kubernetes/informer.ts';
import { type Lease, parseNodeLease, type NodeLease, toLeaseName, isProgrammed } from '../../lib/api/node.ts';
import { type Affected, News } from './known.ts';
import { unresponsiveAnnotation, type VirtualIp, type AbsentNode } from '../../lib/api/vipnat.ts';
import { type Kind, type Step, nothing, toStep, deleteObject, patchMetadata } from '../step.ts';

/** This process renews its own Lease each 2 s: a watch that does not show that is not up, whatever its connection says. */
const timeoutMs = 6000;

/** Receives the Leases of a namespace, and reports to the cache what nodes report, and which of them live. */
export class NodeLeases {
  readonly #options: Readonly<{ clock: Clock; electionLease: string }>;
  readonly #cache: Cache;
  readonly #liveness = new NodeLiveness();
  /** Nodes to the renewal that was received first. */
  readonly #renewals = new Map<string, string>();
  #ownReceivedAt = -Infinity;

  constructor(options: Readonly<{ clock: Clock; electionLease: string }>, cache: Cache) {
    this.#options = options;
    this.#cache = cache;
  }

  /** For how long the renewals of this process's own Lease were not received; null before the first. */
  get msSinceRenewal(): number | null {
    return this.#ownReceivedAt === -Infinity ? null : this.#options.clock.now() - this.#ownReceivedAt;
  }

  change({ key, before, after }: Change<Lease>): Affected {
    if (key.split('/').at(-1) === this.#options.electionLease)
      this.#ownReceivedAt = this.#options.clock.now();
    const [old, now] = [before, after].map((lease) => (lease === null ? null : parseNodeLease(lease)));
    const news = new News();
    if (after !== null && now !== null && now !== undefined) this.#take(news, after, now);
    else if (old !== null && old !== undefined) this.#forget(news, old.report.node);
    return news;
  }

  /** To be called each second: what changes because Leases are over. */
  tick(): Affected {
    const now = this.#options.clock.now();
    const news = new News();
    for (const node of this.#liveness.tick(now, now - this.#ownReceivedAt < timeoutMs))
      news.join(this.#cache.markUnresponsive(node, this.#liveness.getLastRenewal(node) ?? ''));
    return news;
  }

  #take(news: News, { metadata }: Lease, { report, renewal, durationMs }: NodeLease): void {
    const { node } = report;
    const first = this.#renewals.get(node);
    this.#renewals.set(node, first ?? renewal);
    const noted = metadata.annotations?.[unresponsiveAnnotation] ?? null;
    const isProven = first !== undefined && first !== renewal;
    const { name, uid, resourceVersion } = metadata;
    const lease = { metadata: { name, uid, resourceVersion }, node, renewal, noted, isProven };
    news.join(this.#cache.take('leases', { key: name, after: lease }));
    this.#liveness.renewed(node, renewal, durationMs);
    if (!this.#liveness.isLiving(node)) return;
    news.join(this.#cache.takeReport(node, report));
    // The leader before has received no renewal since.
    if (first !== undefined || noted !== renewal) return;
    this.#liveness.end(node);
    news.join(this.#cache.markUnresponsive(node, renewal));
  }

  #forget(news: News, node: string): void {
    this.#liveness.forget(node);
    this.#renewals.delete(node);
    news.join(this.#cache.take('leases', { key: toLeaseName(node), after: null }));
    news.join(this.#cache.takeReport(node, null));
  }
}

/** Of the time between two calls of `tick`: more than this means that this process was held up, and received nothing meanwhile. */
const maxTickMs = 2000;

/**
 * Which nodes' Leases live, by this process's own clock: no two clocks are compared. A Lease is over when it was not renewed for
 * its whole duration while its renewals could have been received. So a node does not die of a pause of the controller, of a date
 * that jumps, or of an API that is away. A Lease that is seen for the first time counts as renewed at that moment.
 */
export class NodeLiveness {
  /** Of those that are over, the time since the renewal is longer than their duration. */
  readonly #leases = new Map<string, { renewal: string; durationMs: number; msSinceRenewal: number }>();
  #tickedMs: number | null = null;

  /** A Lease as the informer has it. `renewal` differs after each renewal (its `renewTime` as text). */
  renewed(node: string, renewal: string, durationMs: number): void {
    if (this.#leases.get(node)?.renewal === renewal) return;
    this.#leases.set(node, { renewal, durationMs, msSinceRenewal: 0 });
  }

  /** The Lease was over before it was received. */
  end(node: string): void {
    const lease = this.#leases.get(node);
    if (lease !== undefined) lease.msSinceRenewal = Infinity;
  }

  forget(node: string): void {
    this.#leases.delete(node);
  }

  /**
   * To be called about each second with the clock's milliseconds, and whether the informer of Leases has a watch that is up. Answers
   * the nodes whose Lease is over since the last call. Of the time between two calls two seconds count at most, and none
   * without a watch.
   */
  tick(nowMs: number, isFollowed: boolean): readonly string[] {
    const passedMs = this.#tickedMs === null || !isFollowed ? 0 : Math.min(nowMs - this.#tickedMs, maxTickMs);
    this.#tickedMs = nowMs;
    const living = [...this.#leases.keys()].filter((node) => this.isLiving(node));
    for (const lease of this.#leases.values()) lease.msSinceRenewal += passedMs;
    return living.filter((node) => !this.isLiving(node));
  }

  /** The last renewal of a Lease that is over; null for any other. */
  getLastRenewal(node: string): string | null {
    return this.isLiving(node) ? null : (this.#leases.get(node)?.renewal ?? null);
  }

  isLiving(node: string): boolean {
    const lease = this.#leases.get(node);
    return lease !== undefined && lease.msSinceRenewal <= lease.durationMs;
  }
}

/**
 * Nodes that may serve an address on, although their Lease is over: a node that only the API cannot reach renews its own table. It is
 * off, or cut off: the controller cannot know. So what it had goes to no other Service before it reports again, or its Node is deleted.
 */
type Unresponsiveness = Pick<ClusterView, 'unresponsiveNodes' | 'nodes'>;

/** The names of the nodes that may serve an address as it was before, in order. */
export function listUnresponsiveOwners(
  { metadata, spec }: VirtualIp,
  { unresponsiveNodes, nodes }: Unresponsiveness,
): string[] {
  return [...unresponsiveNodes]
    .filter(([name, { renewal, report }]) => {
      const isAbsent = spec.absent.some((absent) => absent.node === name && absent.renewal === renewal);
      return nodes.has(name) && !isAbsent && !isProgrammed(report, 'virtualips', metadata.resourceVersion);
    })
    .map(([name]) => name)
    .sort();
}

/** An object stays below 64 kB so, and a page of 500 of them below what a list may have. */
const maxAbsentCharacters = 32_000;

/**
 * The nodes that will not learn of an address that is taken now, or as many as a VirtualIP has room for: any other counts as a node that
 * may serve the address, and only delays its next Service. Not those that may serve it as it was: who takes again what it gives back
 * knows as little of them as before. `existing` is its VirtualIP, null where it has none.
 */
export function listAbsent(markUnresponsive: Unresponsiveness, existing: VirtualIp | null): AbsentNode[] {
  const isLeft = existing !== null && existing.spec.leaving.length > 0;
  const seatHolders = isLeft ? listUnresponsiveOwners(existing, markUnresponsive) : [];
  let room = maxAbsentCharacters;
  return [...markUnresponsive.unresponsiveNodes]
    .filter(([name]) => markUnresponsive.nodes.has(name) && !seatHolders.includes(name))
    .map(([node, { renewal }]) => ({ node, renewal }))
    .sort((one, other) => (one.node < other.node ? -1 : 1))
    .filter((one) => (room -= JSON.stringify(one).length) >= 0);
}

/** The Leases of nodes. */
export const lease: Kind = {
  name: 'Lease',
  source: 'leases',
  subject: null,
  watches: [
    { source: 'unresponsiveNodes', toKeys: ({ key, after }) => (after === null ? [] : [toLeaseName(key)]) },
    { source: 'nodes', toKeys: ({ key, after }) => (after === null ? [toLeaseName(key)] : []) },
  ],
  next: nextLeaseStep,
};

/**
 * The next step of a Lease that its node does not renew. If the Node is gone it is deleted: else each new leader would wait for that node.
 * Otherwise it notes that the Lease is over since its last renewal: the next leader begins with that.
 */
function nextLeaseStep(name: string, view: ClusterView): Step {
  const known = view.leases.get(name);
  const unresponsive = known === undefined ? undefined : view.unresponsiveNodes.get(known.node);
  const { namespace } = view.settings;
  if (known === undefined || namespace === undefined || unresponsive?.renewal !== known.renewal)
    return nothing;
  const object = { metadata: { ...known.metadata, namespace } };
  if (!view.nodes.has(known.node)) return toStep(deleteObject('Lease', object));
  if (known.noted === known.renewal) return nothing;
  return toStep(patchMetadata('Lease', object, { annotations: { [unresponsiveAnnotation]: known.renewal } }));
}
