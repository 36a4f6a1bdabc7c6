/**
 * The time for which this process leads. It begins by listing everything: what another wrote before is in those lists, however
 * late an informer of before would have been. So who does not lead keeps nothing in memory.
 */
import { type Cancel, type Clock } from '../../lib/control/clock.ts';
import { joinStatistics, type QueueStatistics } from '../../lib/control/keyed-queue.ts';
import { type Random } from '../../lib/control/random.ts';
import { type Unreadable } from '../../lib/kubernetes/answers.ts';
import { type ApiObject } from '../../lib/kubernetes/api-object.ts';
import { Informer } from '../../lib/kubernetes/informer.ts';
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { type Resource, toSliceResource } from '../../lib/kubernetes/resources.ts';
import { type ApiRoute } from '../../lib/kubernetes/route.ts';
import { namespaces, nodes, serviceCidrs } from '../../lib/services/cluster.ts';
import { earlySlices } from '../../lib/services/early-slices.ts';
import { type Lease, toLeaseResource } from '../../lib/services/node-report.ts';
import { addressPools, virtualIps } from '../../lib/services/objects.ts';
import { toPodResource } from '../../lib/services/pods.ts';
import { services } from '../../lib/services/services.ts';
import { type VipnatError } from '../../lib/text/errors.ts';
import { type ReservedRange } from '../world/judge-pools.ts';
import { type Affected } from '../world/affected.ts';
import { WorldStore } from '../world/world-store.ts';
import { type Settings, type World } from '../world/world.ts';
import { LeaseListener } from './lease-listener.ts';
import { serviceSteps } from './next-step.ts';
import { Reconciler, type ReconcilerOptions } from './reconciler.ts';
import { type Steps } from './steps.ts';

/** What a term needs of the world, and its listeners. */
export interface TermOptions extends Omit<ReconcilerOptions, 'store' | 'steps' | 'onBehind'> {
  /** What is done besides Services: it begins when its own kinds are known, too. */
  readonly gateSteps: Steps;
  readonly route: ApiRoute;
  readonly clock: Clock;
  readonly random: Random;
  readonly settings: Settings;
  /** Where the Leases are: those of nodes, and that of the election, which this process renews all the time. */
  readonly namespace: string;
  readonly electionLease: string;
  /** Addresses and VRIDs that are taken, besides those that the API's objects show. */
  readonly reserved: Reserved;
  /** A kind of objects cannot be followed, told after each attempt; and it is followed. */
  readonly onLost: (kind: string, error: VipnatError) => void;
  readonly onFollowed: (kind: string) => void;
  /** An object cannot be read: it is left out. */
  readonly onUnreadable: (kind: string, unreadable: Unreadable) => void;
  /** All objects are known: steps are taken from now on. */
  readonly onBegun: () => void;
}

/** What others have. */
export interface Reserved {
  readonly ranges: readonly ReservedRange[];
  readonly vrids: ReadonlySet<number>;
}

/** The EndpointSlice of all apiservers. */
const apiservers = toSliceResource({ namespace: 'default', name: 'kubernetes' });

/** How often Leases are counted down. */
const tickMs = 1000;

/**
 * This process renews its Lease each 2 s. One whose watch has not shown that for so long is on a frozen server, or on a frozen way to
 * it, and the other watches with it: a bookmark would be missed a minute later only.
 */
const frozenMs = 10_000;

/** An informer of any kind. */
type Follower = Pick<Informer<ApiObject>, 'kind' | 'unreadable' | 'start' | 'stop' | 'catchUp' | 'rewatch'>;

interface Following {
  /** Who waits for the first list. */
  readonly missing?: Set<object>;
  /** The name of the kind for listeners, where two informers follow objects of one kind. */
  readonly title?: string;
}

/** One term, from `start` to `stop`. */
export class Term {
  readonly #options: TermOptions;
  readonly #store: WorldStore;
  readonly #services: Reconciler;
  readonly #gates: Reconciler;
  readonly #leases: LeaseListener;
  readonly #informers: readonly Follower[];
  /** Kinds that are not listed yet, and those of them that only gates need: Services do not wait for them. */
  readonly #missing = new Set<object>();
  readonly #missingOfGates = new Set<object>();
  /** Kinds, by the titles that listeners hear, to whether they are not lost. */
  readonly #kinds = new Map<string, boolean>();
  #rewatchedAt = -Infinity;
  #cancelTick: Cancel = () => undefined;

  constructor(options: TermOptions) {
    this.#options = options;
    this.#store = new WorldStore(options.settings);
    const common = {
      ...options,
      store: this.#store,
      onBehind: (kind: string) => {
        for (const informer of this.#informers) if (informer.kind === kind) informer.catchUp();
      },
    };
    this.#services = new Reconciler({ ...common, steps: serviceSteps });
    this.#gates = new Reconciler({ ...common, steps: options.gateSteps });
    const { gates } = this.#store;
    this.#leases = new LeaseListener(options, this.#store);
    this.#informers = [
      this.#follow(services, (change) => this.#store.changeService(change)),
      this.#follow(virtualIps, (change) => this.#store.changeVirtualIp(change)),
      this.#follow(addressPools, (change) => this.#store.changePool(change)),
      this.#follow(namespaces, (change) => this.#store.changeNamespace(change)),
      this.#follow(nodes, (change) => this.#store.changeNode(change)),
      this.#follow(serviceCidrs, (change) => this.#store.changeServiceCidr(change)),
      this.#follow(apiservers, (change) => this.#store.changeApiservers(change)),
      this.#follow<Lease>(toLeaseResource(options.namespace), (change) => this.#leases.change(change)),
      this.#follow(toPodResource(options.settings.gateTypes), (change) => gates.changePod(change), {
        missing: this.#missingOfGates,
      }),
      // Those of apiservers are followed by a right of their own.
      this.#follow(earlySlices, (change) => gates.changeSlice(change), {
        missing: this.#missingOfGates,
        title: 'early EndpointSlice',
      }),
    ];
  }

  /** Begins. Not to be called twice. */
  start(): void {
    this.#store.reserve(this.#options.reserved.ranges, this.#options.reserved.vrids);
    for (const informer of this.#informers) informer.start();
    this.#tick();
  }

  /** Ends when the last write has. */
  async stop(): Promise<void> {
    this.#cancelTick();
    for (const informer of this.#informers) informer.stop();
    await Promise.all([this.#services.stop(), this.#gates.stop()]);
  }

  /** All that is known. */
  get world(): World {
    return this.#store.view(this.#options.clock.date().getTime());
  }

  /** How the queues do. */
  get statistics(): QueueStatistics {
    return joinStatistics(this.#services.statistics, this.#gates.statistics);
  }

  /** Each kind of objects, to whether it is not lost. */
  get kinds(): ReadonlyMap<string, boolean> {
    return this.#kinds;
  }

  /** The objects that cannot be read. */
  get unreadable(): readonly { readonly kind: string; readonly object: string }[] {
    return this.#informers.flatMap(({ kind, unreadable }) => unreadable.map((object) => ({ kind, object })));
  }

  /** Whether all objects are known. */
  get hasBegun(): boolean {
    return this.#missing.size === 0;
  }

  #follow<T extends ApiObject>(
    resource: Resource<T>,
    take: (change: Change<T>) => Affected,
    { missing = this.#missing, title = resource.kind }: Following = {},
  ): Follower {
    const { route, clock, random, onLost, onFollowed, onUnreadable } = this.#options;
    const { kind } = resource;
    missing.add(resource);
    this.#kinds.set(title, true);
    return new Informer({
      ...{ resource, route, clock, random },
      onChanges: (changes) => {
        for (const change of changes) this.#hear(take(change), `${kind}/${change.key}`);
        if (missing.delete(resource)) this.#note(missing);
      },
      onUnreadable: (unreadable) => {
        onUnreadable(title, unreadable);
      },
      onLost: (error) => {
        this.#kinds.set(title, false);
        onLost(title, error);
      },
      onFollowed: () => {
        this.#kinds.set(title, true);
        onFollowed(title);
      },
    });
  }

  /** One of some kinds was listed for the first time. */
  #note(missing: ReadonlySet<unknown>): void {
    if (missing === this.#missing && missing.size === 0) {
      this.#services.begin();
      this.#options.onBegun();
    }
    if (this.#missing.size === 0 && this.#missingOfGates.size === 0) this.#gates.begin();
  }

  #hear(affected: Affected, object: string | null): void {
    this.#services.hear(affected, object);
    this.#gates.hear(affected, object);
  }

  #tick(): void {
    this.#hear(this.#leases.tick(), null);
    this.#leaveFrozen();
    this.#cancelTick = this.#options.clock.schedule(tickMs, () => {
      this.#tick();
    });
  }

  /** Only while its renewals are taken. */
  #leaveFrozen(): void {
    const { clock, writeMs } = this.#options;
    const isFrozen = (this.#leases.silentMs ?? 0) >= frozenMs && writeMs() > 0;
    if (!isFrozen || clock.now() - this.#rewatchedAt < frozenMs) return;
    this.#rewatchedAt = clock.now();
    for (const informer of this.#informers) informer.rewatch();
  }
}
