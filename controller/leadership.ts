/**
 * The time for which this process leads. It begins by listing everything: what another wrote before is in those lists, however
 * late an informer of before would have been. So who does not lead keeps nothing in memory.
 */
import { type EngineOptions, Engine } from './engine.ts';
import type { ApiRoute } from '../lib/kubernetes/route.ts';
import type { Cancel } from '../lib/clock.ts';
import type { Settings, Objects, Affected } from './cache/known.ts';
import type { FindDriver } from './devices/session.ts';
import type { VipnatError } from '../lib/errors.ts';
import { type Unreadable, toSliceResource, type ApiObject, type Resource } from '../lib/kubernetes/client.ts';
import { Informer, type Change } from '../lib/kubernetes/informer.ts';
import { endpointSlices, services } from '../lib/api/service.ts';
import { deviceNodes, devices } from '../lib/api/device.ts';
import { virtualIps, addressPools } from '../lib/api/vipnat.ts';
import { namespaces, nodes, serviceCidrs, type Lease, toLeaseResource } from '../lib/api/node.ts';
import { toPodResource, earlySlices, type Pod } from '../lib/api/endpoints.ts';
import { Cache, type ClusterView } from './cache/cache.ts';
import { NodeLeases, lease } from './cache/leases.ts';
import { DrainTimes, pod } from './kinds/pod-gate.ts';
import { Devices, deviceWatchers } from './devices/devices.ts';
import { type QueueStatistics, joinStatistics } from '../lib/queue.ts';
import type { Kind } from './step.ts';
import { addressPool } from './kinds/address-pool.ts';
import { virtualIp } from './kinds/virtual-ip.ts';
import { loadBalancerDevice } from './devices/steps.ts';
import { service } from './kinds/service.ts';
import { earlySliceKind } from './kinds/endpoints.ts';

/** The dependencies of leading, and its listeners. */
export interface LeadershipOptions extends Omit<EngineOptions, 'cache' | 'kinds' | 'onBehind'> {
  readonly route: ApiRoute;
  readonly settings: Settings;
  /** Where the Leases are: those of nodes, and that of the election, which this process renews all the time. */
  readonly namespace: string;
  readonly electionLease: string;
  /** Addresses of the API's own virtual IPs: no objects show them. */
  readonly apiVips: readonly string[];
  /** Drivers of devices, by their names. */
  readonly findDriver: FindDriver;
  /** A kind of objects cannot be followed, reported after each attempt; and it is followed. */
  readonly onLost: (kind: string, error: VipnatError) => void;
  readonly onFollowed: (kind: string) => void;
  /** An object cannot be read: it is left out. */
  readonly onUnreadable: (kind: string, unreadable: Unreadable) => void;
  /** All objects are known: steps are taken from now on. */
  readonly onBegun: (view: ClusterView) => void;
  /** No node sends new connections to a pod that ends any more, so long after this process saw that it ends. */
  readonly onDrained: (seconds: number, pod: string) => void;
}

/** The EndpointSlice of all apiservers. */
const apiservers = toSliceResource({ namespace: 'default', name: 'kubernetes' });

/** How often Leases are counted down. */
const tickMs = 1000;

/**
 * This process renews its Lease each 2 s. One whose watch has not shown that for so long is on a frozen server, or on a frozen path to
 * it, and the other watches with it: a bookmark would be missed a minute later only.
 */
const frozenMs = 10_000;

type Follower = Pick<Informer<ApiObject>, 'kind' | 'unreadable' | 'start' | 'stop' | 'catchUp' | 'rewatch'>;

/** What is said of nodes and devices: no objects of the API. */
type Reported = 'leases' | 'livingReports' | 'unresponsiveNodes' | 'deviceReports' | 'deviceBalancers';

const resourcesOfDevices = { endpointSlices, deviceNodes };

/** What is followed for each source of objects. Living and unresponsive nodes follow from Leases. */
type Resources = {
  readonly [S in Exclude<keyof Objects, Reported | keyof typeof resourcesOfDevices>]: Resource<Objects[S]>;
};

/** Those of apiservers are followed by a right of their own. */
const titles: Readonly<Partial<Record<string, string>>> = {
  earlySlices: 'early EndpointSlice',
  deviceNodes: 'Node (for devices)',
};

/** Services, their addresses, pools and devices. */
export const serviceKinds: readonly Kind[] = [lease, addressPool, virtualIp, loadBalancerDevice, service];

/** Gates of pods: they begin when pods are known, too. */
export const gateKinds: readonly Kind[] = [earlySliceKind, pod];

/** All kinds. */
export const kinds: readonly Kind[] = [...serviceKinds, ...gateKinds];

/** What only gates need: Services do not wait for it. */
const ofGates = new Set(listSources(gateKinds).filter((one) => !listSources(serviceKinds).includes(one)));

function listSources(kinds: readonly Kind[]): string[] {
  return kinds.flatMap(({ watches }) => watches.map(({ source }) => source));
}

/** Leads from `start` to `stop`. */
export class Leadership {
  readonly #options: LeadershipOptions;
  readonly #cache: Cache;
  readonly #services: Engine;
  readonly #gates: Engine;
  readonly #leases: NodeLeases;
  readonly #drains: DrainTimes;
  readonly #devices: Devices;
  readonly #informers: Follower[];
  /** Sources that are not listed yet, and those of them that only gates need. */
  readonly #missing = new Set<string>();
  readonly #missingOfGates = new Set<string>();
  /** What only devices need: followed once there is one. Null until then. */
  #missingOfDevices: Set<string> | null = null;
  /** Kinds of objects, by the titles that listeners receive, to whether they are not lost. */
  readonly kinds = new Map<string, boolean>();
  #rewatchedAt = -Infinity;
  #cancelTick: Cancel = () => undefined;

  constructor(options: LeadershipOptions) {
    this.#options = options;
    this.#cache = new Cache(options.settings, [...kinds, ...deviceWatchers]);
    const common = {
      ...options,
      cache: this.#cache,
      onBehind: (kind: string) => {
        for (const informer of this.#informers) if (informer.kind === kind) informer.catchUp();
      },
    };
    this.#services = new Engine({ ...common, kinds: serviceKinds });
    this.#gates = new Engine({ ...common, kinds: gateKinds });
    this.#leases = new NodeLeases(options, this.#cache);
    const { clock, onDrained } = options;
    this.#drains = new DrainTimes({ clock, onDrained, view: () => this.view });
    this.#devices = this.#createDevices();
    this.#informers = [
      ...this.#followAll({
        ...{ services, virtualIps, pools: addressPools, namespaces, nodes, serviceCidrs, apiservers },
        ...{ pods: toPodResource(options.settings.gateTypes), earlySlices, devices },
      } satisfies Resources),
      this.#follow<Lease>('leases', toLeaseResource(options.namespace), (change) =>
        this.#leases.change(change),
      ),
    ];
  }

  /** Begins. Not to be called twice. */
  start(): void {
    this.#cache.reserve(this.#options.apiVips);
    for (const informer of this.#informers) informer.start();
    this.#tick();
  }

  /** Ends when the last write has. */
  async stop(): Promise<void> {
    this.#cancelTick();
    this.#drains.stop();
    for (const informer of this.#informers) informer.stop();
    await Promise.all([this.#services.stop(), this.#gates.stop(), this.#devices.stop()]);
  }

  get view(): ClusterView {
    return this.#cache.view(this.#options.clock.date().getTime());
  }

  get statistics(): QueueStatistics {
    return joinStatistics(this.#services.statistics, this.#gates.statistics);
  }

  /** Each device, to how many requests it got. */
  get deviceCalls(): ReadonlyMap<string, number> {
    return this.#devices.calls;
  }

  get unreadable(): readonly { readonly kind: string; readonly object: string }[] {
    return this.#informers.flatMap(({ kind, unreadable }) => unreadable.map((object) => ({ kind, object })));
  }

  /** Whether all objects are known. */
  get hasBegun(): boolean {
    return this.#missing.size === 0;
  }

  #createDevices(): Devices {
    const options = this.#options;
    return new Devices({
      ...options,
      view: () => this.view,
      onReport: (key, after) => {
        this.#enqueue(this.#cache.take('deviceReports', { key, after }), null);
      },
      onBalancer: (key, after) => {
        this.#enqueue(this.#cache.take('deviceBalancers', { key, after }), null);
      },
      onError: (key, error) => {
        options.onError({ kind: 'LoadBalancerDevice', key }, error);
      },
    });
  }

  /** Sources, to what is followed for each. */
  #followAll(resources: object): Follower[] {
    return (Object.entries(resources) as [keyof Objects, Resource<ApiObject>][]).map(([source, resource]) =>
      this.#follow(source, resource, (change) => this.#cache.take(source, change as never)),
    );
  }

  #follow<T extends ApiObject>(
    source: keyof Objects,
    resource: Resource<T>,
    take: (change: Change<T>) => Affected,
  ): Follower {
    const { route, clock, random, onLost, onFollowed, onUnreadable } = this.#options;
    const { kind } = resource;
    const missing = this.#chooseMissing(source);
    const title = titles[source] ?? kind;
    missing.add(source);
    this.kinds.set(title, true);
    return new Informer({
      ...{ resource, route, clock, random },
      onChanges: (changes) => {
        for (const change of changes) {
          this.#enqueue(take(change), `${kind}/${change.key}`);
          // The kind of a source is what its informer reads.
          if (source === 'pods') this.#drains.take(change as unknown as Change<Pod>);
        }
        this.#drains.sync();
        if (missing.delete(source)) this.#note(missing);
        if (source === 'devices') this.#followForDevices();
      },
      onUnreadable: onUnreadable.bind(null, title),
      onLost: (error) => {
        if (source === 'devices' && error.code === 'API_FORBIDDEN') {
          // Rights of a version without devices: there are none.
          if (missing.delete(source)) this.#note(missing);
          return;
        }
        this.kinds.set(title, false);
        onLost(title, error);
      },
      onFollowed: () => {
        this.kinds.set(title, true);
        onFollowed(title);
      },
    });
  }

  #chooseMissing(source: keyof Objects): Set<string> {
    if (source in resourcesOfDevices) return (this.#missingOfDevices ??= new Set());
    return ofGates.has(source) ? this.#missingOfGates : this.#missing;
  }

  /** Thousands of slices and nodes take memory: who has no device does not pay for it. */
  #followForDevices(): void {
    if (this.#missingOfDevices !== null || this.view.devices.size === 0) return;
    const informers = this.#followAll(resourcesOfDevices);
    this.#informers.push(...informers);
    for (const informer of informers) informer.start();
  }

  /** One of some sources was listed for the first time. */
  #note(missing: ReadonlySet<unknown>): void {
    if (missing === this.#missing && missing.size === 0) {
      this.#services.begin();
      this.#options.onBegun(this.view);
    }
    if (this.#missing.size === 0 && this.#missingOfGates.size === 0) this.#gates.begin();
    if (this.#missing.size === 0 && this.#missingOfDevices?.size === 0) this.#devices.begin();
  }

  #enqueue(affected: Affected, object: string | null): void {
    this.#services.enqueue(affected, object);
    this.#gates.enqueue(affected, object);
    this.#devices.enqueue(affected);
  }

  #tick(): void {
    this.#enqueue(this.#leases.tick(), null);
    this.#drains.sync();
    this.#leaveFrozen();
    this.#cancelTick = this.#options.clock.schedule(tickMs, () => {
      this.#tick();
    });
  }

  /** Only while its renewals are taken. */
  #leaveFrozen(): void {
    const { clock, writeMs } = this.#options;
    const isFrozen = (this.#leases.msSinceRenewal ?? 0) >= frozenMs && writeMs() > 0;
    if (!isFrozen || clock.now() - this.#rewatchedAt < frozenMs) return;
    this.#rewatchedAt = clock.now();
    for (const informer of this.#informers) informer.rewatch();
  }
}
