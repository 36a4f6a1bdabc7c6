import { type Clock } from '../../lib/control/clock.ts';
import { type Random } from '../../lib/control/random.ts';
import { type ApiObject } from '../../lib/kubernetes/api-object.ts';
import { describeUnreadable } from '../../lib/kubernetes/errors.ts';
import { Informer } from '../../lib/kubernetes/informer.ts';
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { type Resource } from '../../lib/kubernetes/resources.ts';
import { type ApiRoute } from '../../lib/kubernetes/route.ts';
import { formatServer } from '../../lib/kubernetes/servers.ts';
import { type NodeReport } from '../../lib/services/node-report.ts';
import { type EarlySlice, earlySlices } from '../../lib/services/early-slices.ts';
import { type AddressPool, addressPools, type VirtualIp, virtualIps } from '../../lib/services/objects.ts';
import { type EndpointSlice, endpointSlices, type Service, services } from '../../lib/services/services.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { type VipnatError } from '../../lib/text/errors.ts';
import { type BalancedService } from '../decide/port-balance.ts';
import { type Standing } from '../report/standing.ts';
import { AdmittedAddresses } from './admitted-addresses.ts';
import { ServiceIndex } from './service-index.ts';
import { SlowStarts } from './slow-starts.ts';

/** What following needs of the world. */
export interface FollowOptions {
  readonly route: ApiRoute;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** The name of this node. */
  readonly node: string;
  /** New addresses wait for it. */
  readonly standing: Standing;
  /** Called when something may have changed: a hint to look. */
  readonly onChange: () => void;
}

/** What is followed. */
type Followed = 'services' | 'endpointslices' | 'earlyslices' | 'virtualips' | 'pools';

/** Follows all kinds that the balancer needs, from `start` to `stop`. With the API away all stays as it was said last. */
export class FollowedObjects {
  readonly index: ServiceIndex;
  readonly #options: FollowOptions;
  readonly #informers: {
    readonly services: Informer<Service>;
    readonly endpointslices: Informer<EndpointSlice>;
    readonly earlyslices: Informer<EarlySlice>;
    readonly virtualips: Informer<VirtualIp>;
    readonly pools: Informer<AddressPool>;
  };
  readonly #addresses: AdmittedAddresses;
  readonly #starts: SlowStarts;
  #virtualIps: readonly VirtualIp[] = [];
  #pools: readonly AddressPool[] = [];
  readonly #lost = new Set<Followed>();
  #isWithoutEarly = false;

  constructor(options: FollowOptions) {
    this.#options = options;
    this.index = new ServiceIndex(options.node);
    this.#addresses = new AdmittedAddresses(options.standing);
    this.#starts = new SlowStarts(options.clock, (due) => {
      this.touch(due);
    });
    this.#informers = {
      services: this.#follow('services', services, (changes) => {
        this.index.takeServices(changes);
      }),
      endpointslices: this.#follow('endpointslices', endpointSlices, (changes) => {
        this.index.takeSlices(changes);
      }),
      earlyslices: this.#follow('earlyslices', earlySlices, (changes) => {
        this.index.takeEarlySlices(changes);
      }),
      virtualips: this.#follow('virtualips', virtualIps, (changes, objects) => {
        const admitted = this.#addresses.take(changes, objects);
        this.index.takeVirtualIps(admitted);
        if (admitted.length > 0) this.#virtualIps = [...this.#addresses.objects.values()];
      }),
      pools: this.#follow('pools', addressPools, (_, objects) => {
        this.#pools = [...objects.values()];
      }),
    };
  }

  /** Whether all kinds that the tables are made of were listed once, and addresses may be served. */
  get hasSynced(): boolean {
    return this.#hasListed && this.#addresses.version !== null;
  }

  /** Whether all was listed, and this node has to renew its Lease before it may serve any address. */
  get isHeldBack(): boolean {
    return this.#hasListed && this.#addresses.version === null;
  }

  get #hasListed(): boolean {
    // Without early slices, pods are balanced as Kubernetes says.
    return this.#hasListedOthers && (this.#informers.earlyslices.listed >= 0 || this.#isWithoutEarly);
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
      followed.map(([key, { kind }]) =>
        key === 'earlyslices' ? [`early ${kind}`, !this.#isWithoutEarly] : [kind, !this.#lost.has(key)],
      ),
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
    this.#addresses.start(this.#informers.virtualips);
    for (const informer of Object.values(this.#informers)) informer.start();
  }

  /** Ends all that is under way. */
  stop(): void {
    for (const informer of Object.values(this.#informers)) informer.stop();
    this.#starts.stop();
  }

  #follow<T extends ApiObject>(
    kind: Followed,
    resource: Resource<T>,
    take: (changes: readonly Change<T>[], objects: ReadonlyMap<string, T>) => void,
  ): Informer<T> {
    const { onChange, standing } = this.#options;
    return new Informer({
      ...this.#options,
      resource,
      onChanges: (changes, objects) => {
        take(changes, objects);
        if (this.#hasListed) this.index.early.follow();
        onChange();
        // Before it has said anything, nobody renews for it.
        if (this.isHeldBack) standing.need();
      },
      onUnreadable: (unreadable) => {
        const line = describeUnreadable(resource.kind, unreadable);
        this.#options.logger.warn(line, { code: 'API_ANSWER_UNEXPECTED' });
      },
      onLost: (problem) => {
        if (kind === 'earlyslices') this.#loseEarly(problem);
        else this.#lose(kind, problem);
      },
      onFollowed: ({ server }) => {
        if (this.#lost.delete(kind) && this.#lost.size === 0)
          this.#options.logger.info(`vipnat follows the API again, at ${formatServer(server)}`);
        if (kind === 'earlyslices') this.#isWithoutEarly = false;
      },
    });
  }

  #lose(kind: Followed, { code, message }: VipnatError): void {
    if (this.#lost.size === 0)
      this.#options.logger.warn(`${message}. vipnat keeps its tables as they are`, { code });
    this.#lost.add(kind);
  }

  /** The rest goes on without them. Where the API is away as a whole, the other kinds say it. */
  #loseEarly({ code, message }: VipnatError): void {
    const isWhole = code === 'API_UNREACHABLE' && (this.#lost.size > 0 || !this.#hasListedOthers);
    if (isWhole || this.#isWithoutEarly) return;
    this.#isWithoutEarly = true;
    const effect = 'pods with a readiness gate or a weight are balanced as Kubernetes says';
    this.#options.logger.warn(`${message}. Until then, ${effect}`, { code });
    this.#options.onChange();
  }
}
