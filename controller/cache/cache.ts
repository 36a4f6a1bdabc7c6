import {
  type Objects,
  type Settings,
  type Indexes,
  type Watch,
  type Watching,
  MultiMap,
  type Source,
  type Known,
  type Affected,
  type WaitsFor,
  News,
  put,
  isNews,
  listBoth,
  listServed,
} from './known.ts';
import {
  listUsers,
  nameFamily,
  listPublishedTexts,
  listOwners,
  listDevicesOf,
  listAsked,
  DeviceAddresses,
} from './parts.ts';
import { parseObjectName, parseAddress, toObjectName } from '../../lib/net.ts';
import {
  listRequested,
  PoolJudge,
  ExclusionStore,
  Reservations,
  type ReservedRange,
  sourceToReserved,
  listApiVrids,
  listOfReport,
} from './pools.ts';
import {
  listFirstLabel,
  Selection,
  CandidateNodes,
  NodesProgress,
  getStatusParts,
  noteSince,
} from './nodes.ts';
import { nameEarlyOwner } from '../../lib/api/endpoints.ts';
import type { VirtualIp, AddressUser } from '../../lib/api/vipnat.ts';
import type { Change } from '../../lib/kubernetes/informer.ts';
import type { NodeReport } from '../../lib/api/node.ts';
import { isDeepStrictEqual } from 'node:util';

/**
 * Keeps what steps are decided from, and says for which keys a change of it is news.
 *
 * Goal: one change costs what it changes, whatever else there is; and what a kind depends on is in the kind's own file.
 * Tension: an object matters to others that it does not name, and that do not name it.
 * Compromise: indexes find objects by what others name of them, and are kept with each change. What needs all objects of a source is
 * concluded when somebody asks, once for all changes until then.
 */

/** What an object is found by. */
interface Index<S extends keyof Objects> {
  readonly source: S;
  readonly toKeys: (object: Objects[S], settings: Settings) => readonly string[];
}

const indexes: Readonly<Record<keyof Indexes, { [S in keyof Objects]: Index<S> }[keyof Objects]>> = {
  serviceToVirtualIps: { source: 'virtualIps', toKeys: listUsers },
  shareKeyToVirtualIps: {
    source: 'virtualIps',
    toKeys: ({ spec: { shareKey } }) => (shareKey === '' ? [] : [shareKey]),
  },
  poolToVirtualIps: { source: 'virtualIps', toKeys: ({ spec }) => [spec.pool] },
  familyToVirtualIps: {
    source: 'virtualIps',
    toKeys: ({ metadata: { name }, spec: { pool } }) =>
      [name].flatMap((each) => parseObjectName(each) ?? []).map(({ family }) => nameFamily(pool, family)),
  },
  addressToPublishers: { source: 'services', toKeys: listPublishedTexts },
  addressToRequesters: {
    source: 'services',
    toKeys: (service, { isDefaultClass }) => listRequested(service, isDefaultClass),
  },
  labelToServices: { source: 'services', toKeys: listFirstLabel },
  serviceToSlices: { source: 'earlySlices', toKeys: (slice) => [nameEarlyOwner(slice)] },
  uidToSlices: {
    source: 'earlySlices',
    toKeys: ({ endpoints }) => [...new Set((endpoints ?? []).map(({ targetRef }) => targetRef?.uid ?? ''))],
  },
  uidToPods: { source: 'pods', toKeys: ({ metadata }) => [metadata.uid] },
  namespaceToPods: { source: 'pods', toKeys: ({ metadata }) => [metadata.namespace] },
  nodeToPods: { source: 'pods', toKeys: ({ spec: { nodeName } }) => (nodeName ? [nodeName] : []) },
  serviceToEndpointSlices: { source: 'endpointSlices', toKeys: listOwners },
  deviceToServices: { source: 'services', toKeys: listDevicesOf },
  serviceToBalancers: { source: 'deviceBalancers', toKeys: listServed },
  addressToBalancers: { source: 'deviceBalancers', toKeys: ({ addresses }) => [...new Set(addresses)] },
  addressToAskers: { source: 'services', toKeys: listAsked },
};

/** A kind, as far as the cache asks for it. */
export interface Watcher {
  readonly name: string;
  readonly watches: readonly Watch[];
}

/** What changes of one source mean, kind by kind. */
type Watches<T> = readonly (readonly [kind: string, watch: Watching<T>])[];

/** All objects, and what finds them. Informers' changes go in; whoever runs the queue asks for `view`. */
export class Cache {
  readonly #objects: { readonly [S in keyof Objects]: Map<string, Objects[S]> } = {
    services: new Map(),
    virtualIps: new Map(),
    pools: new Map(),
    namespaces: new Map(),
    nodes: new Map(),
    serviceCidrs: new Map(),
    apiservers: new Map(),
    pods: new Map(),
    earlySlices: new Map(),
    leases: new Map(),
    livingReports: new Map(),
    unresponsiveNodes: new Map(),
    devices: new Map(),
    endpointSlices: new Map(),
    deviceNodes: new Map(),
    deviceReports: new Map(),
    deviceBalancers: new Map(),
  };
  readonly #indexes = Object.keys(indexes).map((name) => [name as keyof Indexes, new MultiMap()] as const);
  readonly #sourceToWatches: ReadonlyMap<Source, readonly (readonly [kind: string, watch: Watch])[]>;
  readonly #known: Known;
  readonly #selection: Selection;
  readonly #sliceToSince = new Map<string, ReadonlyMap<string, string>>();
  readonly #lost = new Map<string, VirtualIp>();
  readonly #nameToGeneration = new Map<string, Generation>();
  /** The date of the last `view`. */
  #viewedMs = -Infinity;
  /** Those that have come since the last `view`. */
  readonly #fresh = new Set<Generation>();
  readonly #judge = new PoolJudge(this.#objects.pools, (text) => {
    const address = parseAddress(text);
    return address !== null && this.#objects.virtualIps.has(toObjectName(address));
  });
  readonly #exclusions: ExclusionStore;
  readonly #deviceAddresses: DeviceAddresses;
  readonly #vrids = new Reservations<number>(String);
  /** Null: something changed since it was made. */
  #reservedVrids: ReadonlySet<number> | null = null;
  readonly #exhausted = new Set<string>();
  #candidates: CandidateNodes | null = null;
  readonly #progress = new NodesProgress();
  /** Nodes to the version that they did not report in time. */
  readonly #overdue = new Map<string, string>();
  /** What the change in progress concludes. */
  #areJudgedAgain = false;
  #changedPools: readonly string[] = [];
  #woken: readonly WaitsFor[] = [];

  constructor(settings: Settings, kinds: readonly Watcher[]) {
    const judge = this.#judge;
    const found = Object.fromEntries(
      this.#indexes.map(([name, { map }]) => [name, map]),
    ) as unknown as Indexes;
    const objects = { ...this.#objects, ...found, settings };
    this.#selection = new Selection(objects);
    this.#exclusions = new ExclusionStore(objects, judge);
    this.#deviceAddresses = new DeviceAddresses(objects);
    this.#known = {
      ...objects,
      ...this.#selection.maps,
      sliceToSince: this.#sliceToSince,
      lostVirtualIps: this.#lost,
      get judgedPools() {
        return judge.judged;
      },
    };
    const watches = kinds.flatMap(({ name, watches: own }) => own.map((watch) => [name, watch] as const));
    this.#sourceToWatches = Map.groupBy(watches, ([, { source }]) => source);
  }

  /** An object came, changed, or went (null). */
  take<S extends keyof Objects>(
    source: S,
    { key, after }: { readonly key: string; readonly after: Objects[S] | null },
  ): Affected {
    const objects: Map<string, Objects[S]> = this.#objects[source];
    const change = { key, before: objects.get(key) ?? null, after };
    const news = new News();
    if (change.before === null && after === null) return news;
    const watches = this.#findWatches(source, change);
    for (const [kind, { isAskedBefore, toKeys }] of watches)
      if (isAskedBefore === true) news.add(kind, toKeys?.(change, this.#known) ?? []);
    put(objects, key, after);
    this.#index(source, change);
    this.#follow(source, change);
    this.#notify(news, watches, change);
    for (const pool of this.#changedPools) this.#conclude(news, 'exclusions', pool);
    this.#changedPools = [];
    news.wake(this.#woken);
    this.#woken = [];
    this.#notifyJudgement(news);
    return news;
  }

  /** What a living node says; null when its Lease is gone: then nothing is known of it any more. */
  takeReport(node: string, report: NodeReport | null): Affected {
    // A renewal that says nothing new changes nothing.
    if (isDeepStrictEqual(this.#objects.livingReports.get(node), report)) return new News();
    const news = this.take('livingReports', { key: node, after: report });
    return new News().join(news, this.take('unresponsiveNodes', { key: node, after: null }));
  }

  /** A node's Lease is over, after this last renewal. Its kernel may have what it had: only the API may be away from it. */
  markUnresponsive(node: string, renewal: string): Affected {
    const report = this.#objects.livingReports.get(node);
    if (report === undefined) return new News();
    const news = this.take('unresponsiveNodes', { key: node, after: { renewal, report } });
    return new News().join(news, this.take('livingReports', { key: node, after: null }));
  }

  /** Gates do not wait for these nodes until they have these versions. Only this process knows: the next leader waits for them once more. */
  markOverdue(nodeToVersion: ReadonlyMap<string, string> = new Map()): Affected {
    const news = new News();
    if (nodeToVersion.size === 0) return news;
    for (const [node, version] of nodeToVersion) this.#overdue.set(node, version);
    this.#forgetNodes();
    news.wake(['nodes']);
    return news;
  }

  /** What the objects of the API do not say: its own virtual IPs, and their VRIDs. */
  reserve(apiVips: readonly string[]): Affected {
    const news = new News();
    this.#reserveApiVips('settings', { apiVips });
    this.#notifyJudgement(news);
    return news;
  }

  /** The objects at a date. They change with the cache. */
  view(nowMs: number): ClusterView {
    this.#candidates ??= new CandidateNodes(this.#known, this.#progress, this.#overdue);
    this.#noteDate(nowMs);
    this.#deviceAddresses.noteDate(nowMs);
    for (const generation of this.#fresh) generation.sinceMs = nowMs;
    this.#fresh.clear();
    return {
      ...this.#known,
      generations: this.#nameToGeneration,
      candidates: this.#candidates,
      exclusions: this.#exclusions,
      exhausted: this.#exhausted,
      takenAddresses: this.#deviceAddresses,
      reservedVrids: (this.#reservedVrids ??= new Set(this.#vrids)),
      // Only who writes can find out that another program does, too, and what the API refuses.
      ...{ conflicts: new Map(), refusals: new Map(), waitedMs: 0, nowMs },
    };
  }

  /** Somebody has set the date back: nothing has happened later than now. */
  #noteDate(nowMs: number): void {
    if (nowMs < this.#viewedMs)
      for (const generation of this.#nameToGeneration.values())
        generation.sinceMs = Math.min(generation.sinceMs, nowMs);
    this.#viewedMs = nowMs;
  }

  /** A VirtualIP is wanted otherwise than before. */
  #noteGeneration(name: string, virtualIp: VirtualIp | null): void {
    const version = virtualIp?.metadata.resourceVersion;
    const generation = version === undefined ? null : { version, sinceMs: Infinity };
    put(this.#nameToGeneration, name, generation);
    if (generation !== null) this.#fresh.add(generation);
  }

  #index<S extends keyof Objects>(source: S, change: Change<Objects[S]>): void {
    for (const [name, map] of this.#indexes) {
      const index = indexes[name];
      if (index.source !== source) continue;
      const { toKeys } = index as unknown as Index<S>;
      const [was, is] = listBoth(change, (object) => toKeys(object, this.#known.settings));
      if (!isDeepStrictEqual(was, is)) map.move(change.key, was, is);
    }
  }

  #follow<S extends keyof Objects>(source: S, change: Change<Objects[S]>): void {
    const { key, after } = change;
    const derive: ((change: Change<Objects[S]>) => void) | undefined = this.#derive[source];
    derive?.(change);
    const list: ((object: Objects[S]) => readonly ReservedRange[]) | undefined = sourceToReserved[source];
    if (list !== undefined) this.#reserve(`${source}/${key}`, after === null ? [] : list(after));
  }

  /** What follows from a change, besides indexes, and what is reserved. */
  readonly #derive: { readonly [S in keyof Objects]?: (change: Change<Objects[S]>) => void } = {
    services: (change) => {
      const { settings } = this.#known;
      const [old, now] = listBoth(change, (service) => listRequested(service, settings.isDefaultClass));
      this.#selection.changeService(change);
      this.#changedPools = this.#exclusions.changeService(change, old, now);
      const touched = listBoth(change, (service) => [
        ...listPublishedTexts(service),
        ...listAsked(service, settings),
      ]);
      this.#deviceAddresses.touch(touched.flat(), change.key.slice(0, change.key.indexOf('/')));
    },
    virtualIps: ({ key, before, after }) => {
      // No step of the controller deletes one that a Service has.
      put(this.#lost, key, after === null && listUsers(before).length > 0 ? before : null);
      const isOther = (before === null) !== (after === null);
      const { text = '' } = parseObjectName(key) ?? {};
      if (isOther && this.#judge.touch(text)) this.#areJudgedAgain = true;
      this.#deviceAddresses.touch([text]);
      // One that was deleted and made again between two lists has the generation that the other one had.
      if (isNews({ key, before, after }, ({ metadata: { uid, generation } }) => [uid, generation]))
        this.#noteGeneration(key, after);
    },
    pools: () => {
      this.#judge.reset();
      this.#areJudgedAgain = true;
    },
    namespaces: (change) => {
      if (isNews(change, ({ metadata }) => metadata.labels)) this.#exclusions.reset();
    },
    nodes: (change) => {
      if (isNews(change, ({ metadata }) => metadata.labels)) this.#areJudgedAgain = true;
    },
    pods: (change) => {
      this.#selection.changePod(change);
    },
    earlySlices: (change) => {
      const { key } = change;
      put(this.#sliceToSince, key, noteSince(change, this.#sliceToSince.get(key)));
    },
    leases: ({ before, after }) => {
      // It matters where the Node is gone. Else who waits would not be woken any more by the version that it has asked for.
      const isThere = this.#objects.nodes.has((after ?? before)?.node ?? '');
      if (before?.isProven !== after?.isProven && !isThere) this.#forgetNodes();
    },
    livingReports: (change) => {
      // Whether a gate waits for a node that is overdue depends on its versions.
      const isOther = this.#overdue.has(change.key) || isNews(change, getStatusParts);
      if (this.#progress.move(change) || isOther) this.#woken = ['nodes'];
      if (isOther) this.#progress.clear();
      this.#candidates = null;
      this.#reserveOfNode(change.key);
    },
    unresponsiveNodes: ({ key }) => {
      this.#reserveOfNode(key);
    },
    devices: ({ key, after }) => {
      this.#deviceAddresses.changeDevice(key, after);
    },
    deviceBalancers: (change) => {
      const [namespace = ''] = listBoth(change, ({ id }) => [id.namespace]).flat();
      this.#deviceAddresses.touch(listBoth(change, ({ addresses }) => addresses).flat(), namespace);
    },
  };

  #forgetNodes(): void {
    this.#candidates = null;
    this.#progress.clear();
  }

  /** By its last report, as long as its Lease exists. */
  #reserveOfNode(node: string): void {
    const { livingReports, unresponsiveNodes } = this.#objects;
    const report = livingReports.get(node) ?? unresponsiveNodes.get(node)?.report ?? null;
    this.#reserveApiVips(`Lease/${node}`, report);
  }

  #reserveApiVips(source: string, report: Pick<NodeReport, 'apiVips'> | null): void {
    this.#reserve(source, listOfReport(report));
    const { came, went } = this.#vrids.put(source, listApiVrids(report));
    if (came.length + went.length === 0) return;
    this.#reservedVrids = null;
    this.#areJudgedAgain = true;
  }

  /** These addresses are foreign now, as far as this source says. */
  #reserve(source: string, ranges: readonly ReservedRange[]): void {
    if (this.#judge.reserve(source, ranges)) this.#areJudgedAgain = true;
  }

  #findWatches<T>(source: Source, change: Change<T>): Watches<T> {
    const watches = (this.#sourceToWatches.get(source) ?? []) as unknown as Watches<T>;
    // Kinds share parts.
    const partToNews = new Map<Watching<T>['part'], boolean>();
    return watches.filter(([, { part }]) => {
      const areNews = partToNews.get(part) ?? isNews(change, part);
      partToNews.set(part, areNews);
      return areNews;
    });
  }

  #notify<T>(news: News, watches: Watches<T>, change: Change<T>): void {
    for (const [kind, { toKeys, wakes }] of watches) {
      news.add(kind, toKeys?.(change, this.#known) ?? []);
      const woken = wakes?.(change, this.#known) ?? [];
      if (woken.includes('addresses')) this.#exhausted.clear();
      news.wake(woken);
    }
  }

  #conclude(news: News, source: 'exclusions' | 'judgements', key: string): void {
    const change: Change<true> = { key, before: null, after: true };
    this.#notify(news, this.#findWatches(source, change), change);
  }

  /** All pools, as one pool can be refused for another's sake. */
  #notifyJudgement(news: News): void {
    if (!this.#areJudgedAgain) return;
    this.#areJudgedAgain = false;
    this.#forgetNodes();
    this.#exclusions.reset();
    this.#conclude(news, 'judgements', '');
  }
}

/** A VirtualIP as it is wanted: the version that was received first, and when it was first viewed, as milliseconds since 1970. */
interface Generation {
  readonly version: string;
  sinceMs: number;
}

/** All that steps are decided from. See `Cache`. */
export interface ClusterView extends Known {
  /** VirtualIPs to what is now wanted of them. */
  readonly generations: ReadonlyMap<string, Readonly<Generation>>;
  /** What living nodes have programmed, pool by pool. */
  readonly candidates: CandidateNodes;
  /** Addresses that Services name for themselves. */
  readonly exclusions: Pick<ExclusionStore, 'find' | 'listAddresses' | 'list'>;
  /** Where a search for an address found none, since those who wait for addresses were last woken. Steps add to it: see `chooseAny`. */
  readonly exhausted: Set<string>;
  /** Addresses of devices that somebody has. */
  readonly takenAddresses: Pick<DeviceAddresses, 'findFree' | 'findKeeper'>;
  /** VRIDs on the pools' networks that others have: the API's virtual IPs. */
  readonly reservedVrids: ReadonlySet<number>;
  /** Keys of Services whose status another program rewrites, to who may be it: names of field managers, or none. */
  readonly conflicts: ReadonlyMap<string, readonly string[]>;
  /** Keys as `formatKey` has them, whose last write the API did not take, to its answer. */
  readonly refusals: ReadonlyMap<string, string>;
  /** For how long the key whose turn it is has waited, by this process's own clock: whatever dates say. 0 for a view that is of no turn. */
  readonly waitedMs: number;
  /** The date, as milliseconds since 1970. It can jump. */
  readonly nowMs: number;
}

/** Kinds of objects that steps write, to where they are known. */
export const kindToSource = {
  Service: 'services',
  VirtualIP: 'virtualIps',
  AddressPool: 'pools',
  Lease: 'leases',
  Pod: 'pods',
  EndpointSlice: 'earlySlices',
  LoadBalancerDevice: 'devices',
} as const satisfies Record<string, keyof Objects>;

/** One of them. */
export type WrittenKind = keyof typeof kindToSource;

/** What of an object's metadata is of use for any of them; empty for one that is not known. */
type Metadata = Partial<Pick<Objects['services']['metadata'], 'uid' | 'resourceVersion' | 'managedFields'>>;

/** The metadata of an object of a source. */
export function findMetadata(known: Known, source: keyof Objects, key: string): Metadata {
  return (known[source].get(key) as { readonly metadata?: Metadata } | undefined)?.metadata ?? {};
}

/** The Service of a user, if it is the same one. */
export function findService(user: AddressUser, { services }: Known): Objects['services'] | undefined {
  const service = services.get(`${user.namespace}/${user.name}`);
  return service?.metadata.uid === user.uid ? service : undefined;
}
