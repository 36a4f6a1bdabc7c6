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
import { type FollowedNode, followedNodes, type NodeEnding } from '../../lib/services/followed-nodes.ts';
import { type AddressPool, addressPools, type VirtualIp, virtualIps } from '../../lib/services/objects.ts';
import { type EndpointSlice, endpointSlices, type Service, services } from '../../lib/services/services.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { type VipnatError } from '../../lib/text/errors.ts';
import { type Standing } from '../report/standing.ts';
import { AdmittedAddresses } from './admitted-addresses.ts';
import { ServiceIndex } from './service-index.ts';
import { SlowStarts } from './slow-starts.ts';
import { type BalancedService } from '../decide/balanced-service.ts';

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
type Followed = 'services' | 'endpointslices' | 'earlyslices' | 'virtualips' | 'pools' | 'nodes';

/** Kinds that balancing goes on without, to what is so meanwhile. The credentials of an older manifest do not allow them. */
const effects = {
  earlyslices: 'pods with a readiness gate or a weight are balanced as Kubernetes says',
  nodes: 'pods of a node that shuts down get connections, and zones do not count',
} as const satisfies Partial<Record<Followed, string>>;

type Optional = keyof typeof effects;

function isOptional(kind: Followed): kind is Optional {
  return Object.hasOwn(effects, kind);
}

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
    readonly nodes: Informer<FollowedNode>;
  };
  readonly #addresses: AdmittedAddresses;
  readonly #starts: SlowStarts;
  #virtualIps: readonly VirtualIp[] = [];
  #pools: readonly AddressPool[] = [];
  readonly #lost = new Set<Followed>();
  /** Of those that are optional. */
  readonly #without = new Set<Followed>();
  /** As they were listed or told last; null before the first list. */
  #nodes: ReadonlyMap<string, FollowedNode> | null = null;
  /** What was said of nodes counts no more. */
  #areNodesForgotten = false;

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
        return true;
      }),
      endpointslices: this.#follow('endpointslices', endpointSlices, (changes) => {
        this.index.takeSlices(changes);
        return true;
      }),
      earlyslices: this.#follow('earlyslices', earlySlices, (changes) => {
        this.index.takeEarlySlices(changes);
        return true;
      }),
      virtualips: this.#follow('virtualips', virtualIps, (changes, objects) => {
        const admitted = this.#addresses.take(changes, objects);
        this.index.takeVirtualIps(admitted);
        if (admitted.length > 0) this.#virtualIps = [...this.#addresses.objects.values()];
        return true;
      }),
      pools: this.#follow('pools', addressPools, (_, objects) => {
        this.#pools = [...objects.values()];
        return true;
      }),
      nodes: this.#follow('nodes', followedNodes, (changes, objects) => this.#takeNodes(changes, objects)),
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
    const { earlyslices, nodes } = this.#informers;
    const areOptional = earlyslices.listed >= 0 || this.#without.has('earlyslices');
    return this.#hasListedOthers && areOptional && (nodes.listed >= 0 || this.#without.has('nodes'));
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
    this.#addresses.start(this.#informers.virtualips);
    for (const informer of Object.values(this.#informers)) informer.start();
  }

  /** Ends all that is under way. */
  stop(): void {
    for (const informer of Object.values(this.#informers)) informer.stop();
    this.#starts.stop();
  }

  /** `take` answers whether what it is given may matter. */
  #follow<T extends ApiObject>(
    kind: Followed,
    resource: Resource<T>,
    take: (changes: readonly Change<T>[], objects: ReadonlyMap<string, T>) => boolean,
  ): Informer<T> {
    return new Informer({
      ...this.#options,
      resource,
      onChanges: (changes, objects) => {
        const isNews = take(changes, objects);
        if (this.#hasListed) this.index.early.follow();
        if (isNews) this.#noteChange();
      },
      onUnreadable: (unreadable) => {
        const line = describeUnreadable(resource.kind, unreadable);
        this.#options.logger.warn(line, { code: 'API_ANSWER_UNEXPECTED' });
      },
      onLost: (problem) => {
        if (isOptional(kind)) this.#goWithout(kind, problem);
        else this.#lose(kind, problem);
      },
      onFollowed: ({ server }) => {
        if (this.#lost.delete(kind) && this.#lost.size === 0)
          this.#options.logger.info(`vipnat follows the API again, at ${formatServer(server)}`);
        this.#without.delete(kind);
        if (kind === 'nodes') this.#recallNodes();
      },
    });
  }

  #noteChange(): void {
    this.#options.onChange();
    // Before it has said anything, nobody renews for it.
    if (this.isHeldBack) this.#options.standing.need();
  }

  #lose(kind: Followed, { code, message }: VipnatError): void {
    if (this.#lost.size === 0)
      this.#options.logger.warn(`${message}. vipnat keeps its tables as they are`, { code });
    this.#lost.add(kind);
  }

  /** The rest goes on. Where the API is away as a whole, the other kinds say it. */
  #goWithout(kind: Optional, { code, message }: VipnatError): void {
    const isAway = code === 'API_UNREACHABLE';
    const isWhole = isAway && (this.#lost.size > 0 || !this.#hasListedOthers);
    if (isWhole || this.#without.has(kind)) return;
    this.#without.add(kind);
    const isKnown = isAway && this.#informers[kind].listed >= 0;
    const effect = isKnown ? 'vipnat goes by their last state' : effects[kind];
    this.#options.logger.warn(`${message}. Until then, ${effect}`, { code });
    if (kind === 'nodes' && !isKnown) this.#forgetNodes();
    this.#noteChange();
  }

  /** A node that was about to end when it was last heard of would end for ever. */
  #forgetNodes(): void {
    this.#areNodesForgotten = true;
    this.index.takeNodes([...(this.#nodes ?? [])].map(([key, before]) => ({ key, before, after: null })));
  }

  /** A watch that goes on tells only what is new. */
  #recallNodes(): void {
    if (!this.#areNodesForgotten) return;
    if (this.#takeNodes([], this.#nodes ?? new Map())) this.#noteChange();
  }

  /** Nodes change all the time. The first list is news whatever it says: tables wait for it. */
  #takeNodes(changes: readonly Change<FollowedNode>[], objects: ReadonlyMap<string, FollowedNode>): boolean {
    const isFirst = this.#nodes === null;
    const all = this.#areNodesForgotten ? [...objects].map(toAppearance) : changes;
    [this.#nodes, this.#areNodesForgotten] = [objects, false];
    const before = new Map(this.index.endings);
    const isNews = this.index.takeNodes(all);
    for (const { key, after } of all) if (after !== null) this.#logTurn(key, before.get(key));
    return isNews || isFirst;
  }

  #logTurn(node: string, before: NodeEnding | undefined): void {
    const now = this.index.endings.get(node);
    if (before === now) return;
    const effect =
      now === undefined
        ? 'stays: its pods get new connections again'
        : `${now}: its pods get no new connection`;
    this.#options.logger.info(`the node ${node} ${effect}`);
  }
}

function toAppearance([key, after]: readonly [string, FollowedNode]): Change<FollowedNode> {
  return { key, before: null, after };
}
