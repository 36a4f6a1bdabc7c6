/**
 * The time for which this process leads. It begins by listing everything: what another wrote before is in those lists, however
 * late an informer of before would have been. So who does not lead keeps nothing in memory.
 */
import { type Cancel, type Clock } from '../../lib/control/clock.ts';
import { type Random } from '../../lib/control/random.ts';
import { type ApiObject } from '../../lib/kubernetes/api-object.ts';
import { Informer } from '../../lib/kubernetes/informer.ts';
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { type Resource, toSliceResource } from '../../lib/kubernetes/resources.ts';
import { type ApiRoute } from '../../lib/kubernetes/route.ts';
import { namespaces, nodes, serviceCidrs } from '../../lib/services/cluster.ts';
import { type Lease, toLeaseResource } from '../../lib/services/node-report.ts';
import { addressPools, virtualIps } from '../../lib/services/objects.ts';
import { services } from '../../lib/services/services.ts';
import { type VipnatError } from '../../lib/text/errors.ts';
import { type ReservedRange } from '../world/judge-pools.ts';
import { type Affected } from '../world/affected.ts';
import { WorldStore } from '../world/world-store.ts';
import { type Settings, type World } from '../world/world.ts';
import { LeaseListener } from './lease-listener.ts';
import { Reconciler, type ReconcilerOptions } from './reconciler.ts';

/** What a term needs of the world, and its listeners. */
export interface TermOptions extends Omit<ReconcilerOptions, 'store'> {
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

/** One term, from `start` to `stop`. */
export class Term {
  readonly #options: TermOptions;
  readonly #store: WorldStore;
  readonly #reconciler: Reconciler;
  readonly #leases: LeaseListener;
  readonly #informers: readonly { start(): void; stop(): void }[];
  /** Kinds that are not listed yet. */
  readonly #missing = new Set<string>();
  #cancelTick: Cancel = () => undefined;

  constructor(options: TermOptions) {
    this.#options = options;
    this.#store = new WorldStore(options.settings);
    this.#reconciler = new Reconciler({ ...options, store: this.#store });
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
    await this.#reconciler.stop();
  }

  /** All that is known. */
  get world(): World {
    return this.#store.view(this.#options.clock.date().getTime());
  }

  /** How the queue does. */
  get statistics(): Reconciler['statistics'] {
    return this.#reconciler.statistics;
  }

  /** Whether all objects are known. */
  get hasBegun(): boolean {
    return this.#missing.size === 0;
  }

  #follow<T extends ApiObject>(
    resource: Resource<T>,
    take: (change: Change<T>) => Affected,
  ): { start(): void; stop(): void } {
    const { route, clock, random, onLost, onFollowed } = this.#options;
    const { kind } = resource;
    this.#missing.add(kind);
    return new Informer({
      ...{ resource, route, clock, random },
      onChanges: (changes) => {
        for (const change of changes) this.#reconciler.hear(take(change), `${kind}/${change.key}`);
        this.#note(kind);
      },
      onLost: (error) => {
        onLost(kind, error);
      },
      onFollowed: () => {
        onFollowed(kind);
      },
    });
  }

  #note(kind: string): void {
    if (!this.#missing.delete(kind) || this.#missing.size > 0) return;
    this.#reconciler.begin();
    this.#options.onBegun();
  }

  #tick(): void {
    this.#reconciler.hear(this.#leases.tick(), null);
    this.#cancelTick = this.#options.clock.schedule(tickMs, () => {
      this.#tick();
    });
  }
}
