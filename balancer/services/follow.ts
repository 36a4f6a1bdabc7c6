import { Informer, type Change } from '../../lib/kubernetes/informer.ts';
import { type VirtualIp, type AddressPool, virtualIps, addressPools } from '../../lib/api/vipnat.ts';
import type { LeaseValidity } from '../report.ts';
import { type Clock, Rounds, type Random } from '../../lib/clock.ts';
import { type BalancedService, isReady } from './backends.ts';
import { readDuration, services, endpointSlices } from '../../lib/api/service.ts';
import { usualWeight, earlySlices } from '../../lib/api/endpoints.ts';
import { type ApiRoute, formatServer } from '../../lib/kubernetes/route.ts';
import type { Logger } from '../../lib/telemetry/log.ts';
import { ServiceIndex } from './index.ts';
import { type FollowedNode, followedNodes, type NodeReport, type NodeEnding } from '../../lib/api/node.ts';
import { type ApiObject, type Resource, describeUnreadable } from '../../lib/kubernetes/client.ts';
import type { VipnatError } from '../../lib/errors.ts';

type Source = Pick<Informer<VirtualIp>, 'version' | 'listed' | 'relist'>;

/** VirtualIPs as far as this node may act on them. While the controller may not count on it, addresses and their Services go, and none comes. */
class AdmittedAddresses {
  readonly #validity: LeaseValidity;
  readonly #source: () => Source;
  readonly #admitted = new Map<string, VirtualIp>();
  readonly objects: ReadonlyMap<string, VirtualIp> = this.#admitted;
  /** The list that has to be there; none before the first term. */
  #needed = Infinity;
  /** Whether nothing is held back. */
  #isComplete = false;
  /** Up to which nothing was held back. */
  #version: string | null = null;

  constructor(validity: LeaseValidity, source: () => Source) {
    this.#validity = validity;
    this.#source = source;
    validity.onTerm(() => (this.#needed = source().relist()));
  }

  /** The version up to which all is admitted; null while nothing was. */
  get version(): string | null {
    return this.#isComplete ? this.#source().version : this.#version;
  }

  /** Takes what is followed. Answers what changes here. */
  take(changes: readonly Change<VirtualIp>[], objects: ReadonlyMap<string, VirtualIp>) {
    for (const { after } of changes) if (after !== null) this.#validity.noteAbsent(after.spec.absent);
    const before = this.version;
    const isOpen = this.#validity.isLiving && this.#source().listed >= this.#needed;
    const isAll = isOpen && !this.#isComplete;
    const keys = isAll
      ? new Set([...this.#admitted.keys(), ...objects.keys()])
      : changes.map(({ key }) => key);
    [this.#isComplete, this.#version] = [isOpen, before];
    return [...keys].flatMap((key) => this.#admit(key, objects.get(key) ?? null, isOpen));
  }

  #admit(key: string, reported: VirtualIp | null, isOpen: boolean): Change<VirtualIp>[] {
    const before = this.#admitted.get(key) ?? null;
    const after = isOpen || reported === null ? reported : limit(reported, before);
    if (after === before) return [];
    if (after === null) this.#admitted.delete(key);
    else this.#admitted.set(key, after);
    return [{ key, before, after }];
  }
}

/** With those Services that it had. */
function limit(reported: VirtualIp, before: VirtualIp | null): VirtualIp | null {
  if (before === null) return null;
  const uids = new Set(before.spec.services.map(({ uid }) => uid));
  const services = reported.spec.services.filter(({ uid }) => uids.has(uid));
  return { ...reported, spec: { ...reported.spec, services } };
}

/** From a tenth of its weight to all of it. */
const stepCount = 10;

/** Between two writes. */
const paceMs = 1000;

/** A timer of Node.js takes 24 days at most. */
const maxWaitMs = 3_600_000;

interface Start {
  /** Since when it is ready; long ago for one that is not new. */
  readonly sinceMs: number;
  /** Since when no slice has it, or Infinity: one that moves to another slice may be in none for a moment. */
  goneMs: number;
}

/**
 * Gives a pod that has just become ready few connections, and ever more, where its Service asks for that.
 * Of all Services that ask for it. Time is that of a clock that no date changes.
 *
 * Goal: a pod that is cold is not flooded.
 * Tension: each step is a write, and many pods may start at the same time.
 * Compromise: ten steps, and one write a second at most for all pods of all Services.
 */
export class SlowStarts {
  readonly #clock: Clock;
  readonly #onDue: (services: readonly string[]) => void;
  readonly #serviceToStarts = new Map<string, Map<string, Start>>();
  readonly #serviceToDueMs = new Map<string, number>();
  readonly #steps: Rounds;
  #steppedMs = -Infinity;

  /** `onDue` is called when pods of some Services are due for more: `weigh` has other weights for them then. */
  constructor(clock: Clock, onDue: (services: readonly string[]) => void) {
    this.#clock = clock;
    this.#onDue = onDue;
    this.#steps = new Rounds(clock, this.#step.bind(this), this.#findDelay.bind(this));
  }

  /** A Service with the weights of this moment. Pods that are ready when it is seen for the first time are not new. */
  weigh(service: string, balanced: BalancedService | null): BalancedService | null {
    this.#serviceToDueMs.delete(service);
    const durationMs = balanced === null ? 0 : (readDuration(balanced.service, 'slowStart').ms ?? 0);
    if (balanced === null || durationMs === 0) {
      this.#serviceToStarts.delete(service);
      return balanced;
    }
    const endpoints = listEndpoints(balanced);
    const addressToSinceMs = this.#note(service, endpoints, durationMs);
    const addressToStep = this.#listSteps(service, addressToSinceMs, durationMs / stepCount);
    if (addressToStep.size === 0) return balanced;
    this.#steps.plan();
    const weights = endpoints.map(({ address }): [string, number] => {
      const weight = balanced.weights.get(address) ?? usualWeight;
      return [address, weight * (addressToStep.get(address) ?? stepCount)];
    });
    return { ...balanced, weights: new Map(weights) };
  }

  stop(): void {
    void this.#steps.stop();
  }

  /** Since when addresses have a pod that is ready. Weights are by address, so of several pods there the first one counts. */
  #note(service: string, endpoints: ReturnType<typeof listEndpoints>, durationMs: number) {
    const now = this.#clock.now();
    const known = this.#serviceToStarts.get(service);
    const starts = known ?? new Map<string, Start>();
    const addressToSinceMs = new Map<string, number>();
    for (const { address, pod } of endpoints.filter(({ isReady }) => isReady)) {
      const start = starts.get(pod) ?? { sinceMs: known === undefined ? -Infinity : now, goneMs: Infinity };
      starts.set(pod, start);
      addressToSinceMs.set(address, Math.min(start.sinceMs, addressToSinceMs.get(address) ?? Infinity));
    }
    const present = new Set(endpoints.map(({ pod }) => pod));
    // Those go that no slice has had for so long.
    for (const [pod, start] of starts) {
      start.goneMs = present.has(pod) ? Infinity : Math.min(start.goneMs, now);
      if (now - start.goneMs >= durationMs) starts.delete(pod);
    }
    this.#serviceToStarts.set(service, starts);
    return addressToSinceMs;
  }

  /** Those who have not all of their weight yet. */
  #listSteps(service: string, addressToSinceMs: ReadonlyMap<string, number>, stepMs: number) {
    const now = this.#clock.now();
    const addressToStep = new Map<string, number>();
    let dueMs = Infinity;
    for (const [address, sinceMs] of addressToSinceMs) {
      const step = Math.floor((now - sinceMs) / stepMs) + 1;
      if (step >= stepCount) continue;
      addressToStep.set(address, step);
      dueMs = Math.min(dueMs, sinceMs + step * stepMs);
    }
    if (dueMs < Infinity) this.#serviceToDueMs.set(service, dueMs);
    return addressToStep;
  }

  #findDelay(): number | null {
    if (this.#serviceToDueMs.size === 0) return null;
    const dueMs = Math.max(this.#steppedMs + paceMs, Math.min(...this.#serviceToDueMs.values()));
    return Math.min(maxWaitMs, dueMs - this.#clock.now());
  }

  #step(): Promise<void> {
    const now = this.#clock.now();
    const due = [...this.#serviceToDueMs].filter(([, dueMs]) => dueMs <= now).map(([service]) => service);
    for (const service of due) this.#serviceToDueMs.delete(service);
    if (due.length > 0) this.#steppedMs = now;
    if (due.length > 0) this.#onDue(due);
    return Promise.resolve();
  }
}

/** Each as often as slices have it, with what tells it from another pod that gets the address later. */
function listEndpoints({ slices }: BalancedService) {
  return slices.flatMap(({ endpoints }) =>
    (endpoints ?? []).map(({ addresses: [address = ''], conditions, targetRef }) => ({
      address,
      pod: `${address} ${targetRef ?? ''}`,
      isReady: isReady({ conditions }),
    })),
  );
}

/** What the caller supplies. */
export interface FollowOptions {
  readonly route: ApiRoute;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly node: string;
  /** New addresses wait for it. */
  readonly validity: LeaseValidity;
  /** Called when something may have changed: a hint to look. */
  readonly onChange: () => void;
}

type Followed = 'services' | 'endpointslices' | 'earlyslices' | 'virtualips' | 'pools' | 'nodes';

type FollowedKind = Pick<
  Informer<ApiObject>,
  'kind' | 'listed' | 'version' | 'unreadable' | 'start' | 'stop'
>;

/** Kinds that balancing works without, to the effect while one is missing. The credentials of an older manifest do not allow them. */
const effects: Readonly<Partial<Record<Followed, string>>> = {
  earlyslices: 'pods with a readiness gate or a weight are balanced as Kubernetes says',
  nodes: 'pods of a node that shuts down get connections, and zones do not count',
};

/** Follows all kinds that the balancer needs, from `start` to `stop`. With the API away all stays as it was said last. */
export class FollowedObjects {
  readonly index: ServiceIndex;
  readonly #options: FollowOptions;
  readonly #informers: Readonly<Record<Followed, FollowedKind>> & { readonly virtualips: Source };
  readonly #addresses: AdmittedAddresses;
  readonly #starts: SlowStarts;
  #virtualIps: readonly VirtualIp[] = [];
  #pools: readonly AddressPool[] = [];
  readonly #lost = new Set<Followed>();
  /** Of those that are optional. */
  readonly #without = new Set<Followed>();
  /** As they were last listed or watched; null before the first list. */
  #nodes: ReadonlyMap<string, FollowedNode> | null = null;
  /** What was said of nodes counts no more. */
  #areNodesForgotten = false;

  constructor(options: FollowOptions) {
    this.#options = options;
    this.index = new ServiceIndex(options.node);
    this.#addresses = new AdmittedAddresses(options.validity, () => this.#informers.virtualips);
    const { index } = this;
    this.#starts = new SlowStarts(options.clock, this.touch.bind(this));
    this.#informers = {
      services: this.#follow('services', services, index.takeServices.bind(index)),
      endpointslices: this.#follow('endpointslices', endpointSlices, index.takeSlices.bind(index)),
      earlyslices: this.#follow('earlyslices', earlySlices, index.takeEarlySlices.bind(index)),
      virtualips: this.#follow('virtualips', virtualIps, (changes, objects) => {
        const admitted = this.#addresses.take(changes, objects);
        index.takeVirtualIps(admitted);
        if (admitted.length > 0) this.#virtualIps = [...this.#addresses.objects.values()];
      }),
      pools: this.#follow('pools', addressPools, (_, objects) => (this.#pools = [...objects.values()])),
      nodes: this.#follow('nodes', followedNodes, this.#takeNodes.bind(this)),
    };
  }

  /** Whether all kinds that the tables are made of were listed once, and addresses may be served. */
  get hasSynced(): boolean {
    return this.#hasListed && this.#addresses.version !== null;
  }

  /** Whether all was listed, and this node has to renew its Lease before it may serve any address. */
  get isIncomplete(): boolean {
    return this.#hasListed && this.#addresses.version === null;
  }

  get #hasListed(): boolean {
    const isSettled = (kind: Followed) => this.#informers[kind].listed >= 0 || this.#without.has(kind);
    return this.#hasListedOthers && isSettled('earlyslices') && isSettled('nodes');
  }

  get #hasListedOthers(): boolean {
    const { services, endpointslices, virtualips } = this.#informers;
    return [services, endpointslices, virtualips].every(({ listed }) => listed >= 0);
  }

  /** Whether all was listed once, and the API is not away since. */
  get isFollowing(): boolean {
    return this.hasSynced && this.#lost.size === 0;
  }

  /** Each kind of objects, to whether it is not lost. */
  get kinds(): ReadonlyMap<string, boolean> {
    const followed = Object.entries(this.#informers) as [Followed, { readonly kind: string }][];
    return new Map(
      followed.map(([key, { kind }]) => [
        key === 'earlyslices' ? `early ${kind}` : kind,
        !this.#lost.has(key) && !this.#without.has(key),
      ]),
    );
  }

  /** The objects that cannot be read, and are left out. */
  get unreadable(): readonly { readonly kind: string; readonly object: string }[] {
    return Object.values(this.#informers).flatMap(({ kind, unreadable }) =>
      unreadable.map((object) => ({ kind, object })),
    );
  }

  /** Up to which version of each kind all is in the index. */
  get versions(): NodeReport['programmed'] {
    const { services, endpointslices, earlyslices } = this.#informers;
    const found = { services, endpointslices, virtualips: this.#addresses, earlyslices };
    return Object.fromEntries(
      Object.entries(found).flatMap(([kind, { version }]) => (version === null ? [] : [[kind, version]])),
    );
  }

  /** The same array while nothing has happened to them. */
  get virtualIps(): readonly VirtualIp[] {
    return this.#virtualIps;
  }

  /** The same array while nothing has happened to them. */
  get pools(): readonly AddressPool[] {
    return this.#pools;
  }

  /** A Service as it is to be balanced at this moment; null where it is not there, or has no address. */
  find(service: string): BalancedService | null {
    return this.#starts.weigh(service, this.index.find(service));
  }

  /** Has Services looked at again, for what objects do not say of them. */
  touch(services: readonly string[]): void {
    this.index.touch(services);
    this.#options.onChange();
  }

  /** Begins. Not to be called twice. */
  start(): void {
    for (const informer of Object.values(this.#informers)) informer.start();
  }

  stop(): void {
    for (const informer of Object.values(this.#informers)) informer.stop();
    this.#starts.stop();
  }

  /** What `take` is given matters, unless it answers false. */
  #follow<T extends ApiObject>(
    kind: Followed,
    resource: Resource<T>,
    take: (changes: readonly Change<T>[], objects: ReadonlyMap<string, T>) => unknown,
  ): Informer<T> {
    return new Informer({
      ...this.#options,
      resource,
      onChanges: (changes, objects) => {
        const isNews = take(changes, objects) !== false;
        if (this.#hasListed) this.index.early.follow();
        if (isNews) this.#noteChange();
      },
      onUnreadable: (unreadable) => {
        const line = describeUnreadable(resource.kind, unreadable);
        this.#options.logger.warn(line, { code: 'API_ANSWER_UNEXPECTED' });
      },
      onLost: (problem) => {
        const effect = effects[kind];
        if (effect === undefined) this.#lose(kind, problem);
        else this.#goWithout(kind, effect, problem);
      },
      onFollowed: ({ server }) => {
        if (this.#lost.delete(kind) && this.#lost.size === 0)
          this.#options.logger.info(`vipnat follows the API again, at ${formatServer(server)}`);
        this.#without.delete(kind);
        // A watch that continues sends only what is new.
        if (kind !== 'nodes' || !this.#areNodesForgotten) return;
        if (this.#takeNodes([], this.#nodes ?? new Map())) this.#noteChange();
      },
    });
  }

  #noteChange(): void {
    this.#options.onChange();
    // Before it has said anything, nobody renews for it.
    if (this.isIncomplete) this.#options.validity.need();
  }

  #lose(kind: Followed, { code, message }: VipnatError): void {
    if (this.#lost.size === 0)
      this.#options.logger.warn(`${message}. vipnat keeps its tables as they are`, { code });
    this.#lost.add(kind);
  }

  /** The rest continues. If the whole API is unreachable, the other kinds report it. */
  #goWithout(kind: Followed, loss: string, { code, message }: VipnatError): void {
    const isAway = code === 'API_UNREACHABLE';
    const isWhole = isAway && (this.#lost.size > 0 || !this.#hasListedOthers);
    if (isWhole || this.#without.has(kind)) return;
    this.#without.add(kind);
    const isKnown = isAway && this.#informers[kind].listed >= 0;
    const effect = isKnown ? 'vipnat goes by their last state' : loss;
    this.#options.logger.warn(`${message}. Until then, ${effect}`, { code });
    if (kind === 'nodes' && !isKnown) {
      // One whose last received state was about to end would end for ever.
      this.#areNodesForgotten = true;
      this.index.takeNodes([...(this.#nodes ?? [])].map(([key, before]) => ({ key, before, after: null })));
    }
    this.#noteChange();
  }

  /** Nodes change all the time. The first list is news whatever it says: tables wait for it. */
  #takeNodes(changes: readonly Change<FollowedNode>[], objects: ReadonlyMap<string, FollowedNode>): boolean {
    const isFirst = this.#nodes === null;
    const all = this.#areNodesForgotten
      ? [...objects].map(([key, after]) => ({ key, before: null, after }))
      : changes;
    [this.#nodes, this.#areNodesForgotten] = [objects, false];
    const before = new Map(this.index.nodes.endings);
    const wasKept = this.index.nodes.kept.size > 0;
    const isNews = this.index.takeNodes(all, objects.values());
    for (const { key, after } of all) if (after !== null) this.#logTurn(key, before.get(key));
    const { size } = this.index.nodes.kept;
    if (size > 0 && !wasKept)
      this.#options.logger.warn(
        `Kubernetes receives nothing of ${size} nodes, more than half: their pods take connections although they are not ready`,
      );
    return isNews || isFirst;
  }

  #logTurn(node: string, before: NodeEnding | undefined): void {
    const now = this.index.nodes.endings.get(node);
    if (before === now) return;
    const effect =
      now === undefined
        ? 'stays: its pods get new connections again'
        : `${now}: its pods get no new connection`;
    this.#options.logger.info(`the node ${node} ${effect}`);
  }
}
