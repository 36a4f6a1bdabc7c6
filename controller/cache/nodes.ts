import { type AddressPool, excludedNodeLabel } from '../../lib/api/vipnat.ts';
import {
  type Node,
  type NodeReport,
  isProgrammed,
  mayFollowEarly,
  toNumber,
  toLeaseName,
  type ReportedKind,
} from '../../lib/api/node.ts';
import { mentions, isSelected, type Pod, type EarlySlice } from '../../lib/api/endpoints.ts';
import { type Known, MultiMap, listDiffering, findOrAdd, isNews } from './known.ts';
import type { Change } from '../../lib/kubernetes/informer.ts';
import type { Service } from '../../lib/api/service.ts';

/** Whether a node may hold a pool's addresses: not one that load balancers shall not use, unless the selector says something of that label. */
export function mayHold({ spec }: AddressPool, { metadata: { labels } }: Node): boolean {
  const isExcluded = Object.hasOwn(labels ?? {}, excludedNodeLabel);
  return (
    (!isExcluded || mentions(spec.nodeSelector, excludedNodeLabel)) && isSelected(spec.nodeSelector, labels)
  );
}

type ProgressKind = ReportedKind | 'announced';

/** How far some nodes are with a kind: the oldest version that any of them is at. Infinity: none is waited for. */
interface Progress {
  readonly kind: ProgressKind;
  readonly oldest: bigint | number;
  /** The nodes that are at the oldest. */
  readonly last: Set<string>;
}

/** What of a report decides who is waited for, and for what. Versions alone are the business of `NodesProgress`. */
export function getStatusParts(report: NodeReport): unknown {
  const { seats, mode, inUse, unsupported, unheld, left, dropping, announced } = report;
  const isMute = announced === undefined;
  return [seats, mode, inUse, unsupported, unheld, left, dropping, isMute, mayFollowEarly(report)];
}

/**
 * How far nodes are, kept from one report to the next.
 *
 * Goal: hundreds of nodes report newer versions all the time, and that costs thousands of keys that wait for one other node nothing.
 * Tension: what keys wait for is known to their steps alone.
 * Compromise: each step asks here. Only a report that changes an answer wakes those who wait: they ask again then.
 */
export class NodesProgress {
  readonly #whoToProgress = new Map<string, Progress>();

  /** Whether each of these nodes, whose set has a name, has a version. */
  haveReached(who: string, kind: ProgressKind, list: () => readonly NodeReport[], version: string): boolean {
    const { oldest } = findOrAdd(this.#whoToProgress, `${kind} ${who}`, () => {
      const reports = list();
      const versions = reports.map((report) => readVersion(report, kind));
      const least = versions.reduce<bigint | number>((old, one) => (one < old ? one : old), Infinity);
      const last = reports.filter((_, index) => versions[index] === least);
      return { kind, oldest: least, last: new Set(last.map(({ node }) => node)) };
    });
    return oldest >= toNumber(version);
  }

  /** A node has other versions. Answers whether that changes an answer that somebody has. */
  move({ before, after }: Change<NodeReport>): boolean {
    if (before === null || after === null) return false;
    const known = this.#whoToProgress.size;
    for (const [who, { kind, oldest, last }] of this.#whoToProgress) {
      const [was, is] = [readVersion(before, kind), readVersion(after, kind)];
      const isOver = oldest < is && last.delete(after.node) && last.size === 0;
      if (isOver || is < was) this.#whoToProgress.delete(who);
    }
    return this.#whoToProgress.size < known;
  }

  /** Others are waited for. */
  clear(): void {
    this.#whoToProgress.clear();
  }
}

function readVersion({ programmed, announced }: NodeReport, kind: ProgressKind): bigint {
  return toNumber((kind === 'announced' ? announced : programmed[kind]) ?? '');
}

/** How far nodes are with an endpoint that early EndpointSlices have. */
export type NodesState =
  | 'done'
  | 'missing'
  /** None of them lives that can serve. */
  | 'nobody'
  /** None of them follows early EndpointSlices: they are older than those, or have no right to them. */
  | 'unknown'
  /** All have it but those that made a gate time out before. */
  | 'overdue'
  /** kube-proxy serves the Service on some, and has the pod when it is ready. */
  | 'kube-proxy';

/** The living nodes that may hold a pool's addresses, and how far they are. It costs what pools and nodes cost, however many virtual IPs there are. */
export class CandidateNodes {
  readonly #known: Pick<Known, 'pools' | 'nodes' | 'livingReports' | 'leases'>;
  readonly #overdue: ReadonlyMap<string, string>;
  readonly #poolToReports = new Map<string, readonly NodeReport[]>();
  readonly #states = new Map<string, NodesState>();
  readonly #progress: NodesProgress;
  readonly #poolToUnable = new Map<string, readonly NodeReport[]>();
  readonly #textToReports = new Map<keyof ReportedTexts, ReadonlyMap<string, readonly NodeReport[]>>();

  /** For which nodes a gate of a Service does not wait. */
  readonly #unawaited = {
    'kube-proxy': ({ mode, left }: NodeReport, service: string) =>
      mode === 'kube-proxy' || left?.[service] !== undefined,
    unknown: (report: NodeReport) => !mayFollowEarly(report),
    overdue: (report: NodeReport) => {
      const version = this.#overdue.get(report.node);
      return version !== undefined && !isProgrammed(report, 'earlyslices', version);
    },
  };

  /** It answers for the maps as they are at the first question of each kind: after a change, make another one. */
  constructor(
    known: Pick<Known, 'pools' | 'nodes' | 'livingReports' | 'leases'>,
    progress = new NodesProgress(),
    overdue: ReadonlyMap<string, string> = new Map(),
  ) {
    this.#known = known;
    this.#progress = progress;
    this.#overdue = overdue;
  }

  /** The reports of a pool's living candidates that can serve. None for a pool that is not there. `/NODE` is a pool of one node, candidate or not. */
  list(pool: string): readonly NodeReport[] {
    return findOrAdd(this.#poolToReports, pool, () => this.#listAgain(pool));
  }

  /** How far a pool's candidates are with an endpoint of a Service that early EndpointSlices have since a version; null for not at all. */
  judge(pool: string, service: string, version: string | null): NodesState {
    // Thousands of pods of a Service may wait for a thousand nodes.
    return findOrAdd(this.#states, `${pool} ${service} ${version ?? ''}`, () =>
      this.#judgeAgain(pool, service, version),
    );
  }

  #judgeAgain(pool: string, service: string, version: string | null): NodesState {
    const reports = this.list(pool);
    if (reports.length === 0) return 'nobody';
    const left = this.listNodes('kube-proxy', pool, service);
    if (left.length === reports.length) return 'kube-proxy';
    if (!reports.some(mayFollowEarly)) return 'unknown';
    const list = () => this.#listAwaited(pool, service);
    const who = `${pool} but ${left.join()}`;
    if (version === null || !this.#progress.haveReached(who, 'earlyslices', list, version)) return 'missing';
    if (left.length > 0) return 'kube-proxy';
    return this.listNodes('overdue', pool, service).length > 0 ? 'overdue' : 'done';
  }

  /** The names of a pool's candidates of which that is so, in order. */
  listNodes(state: 'kube-proxy' | 'overdue' | 'unknown', pool: string, service: string): string[] {
    return listNames(this.list(pool).filter((one) => this.#unawaited[state](one, service)));
  }

  /** Whether each of a pool's candidates has a version of a kind. True where none is waited for: who does not follow early EndpointSlices is not. */
  haveProgrammed(pool: string, kind: ProgressKind, version: string): boolean {
    const list = () => this.list(pool).filter((one) => kind !== 'earlyslices' || mayFollowEarly(one));
    return this.#progress.haveReached(pool, kind, list, version);
  }

  #listAwaited(pool: string, service: string): readonly NodeReport[] {
    const isUnawaited = Object.values(this.#unawaited);
    return this.list(pool).filter((one) => !isUnawaited.some((isSo) => isSo(one, service)));
  }

  /** Whether every living node, candidate or not, has a version of VirtualIPs: then none serves what is in none of its Services. */
  haveForgotten(version: string): boolean {
    return this.#progress.haveReached('', 'virtualips', () => this.#listSurelyLiving(), version);
  }

  /** The names of the living nodes, candidates or not, that do not have a version of VirtualIPs yet, in order. */
  listNotForgotten(version: string): string[] {
    return listBehind(this.#listSurelyLiving(), 'virtualips', version);
  }

  /** Why no living node of a seat can hold it, or an address of it: each one's clause. Null where one can, or none lives. */
  explainUnheld(pool: string, seat: number, address: string | null = null): readonly string[] | null {
    if (this.#listUnable(pool).length === 0) return null;
    const nodes = this.#findSeatNodes(pool, seat);
    const living = this.list(pool).filter(({ node }) => nodes?.includes(node)).length;
    const clauses = this.listUnheld(pool, seat, address);
    return living === 0 || clauses.length < living ? null : clauses;
  }

  /** The nodes of a seat that cannot hold it, or an address of it, as `NODE: WHY`; in the order of their names. */
  listUnheld(pool: string, seat: number, address: string | null = null): readonly string[] {
    return this.#listOfSeat(this.#listUnable(pool), pool, seat).flatMap(({ node, unheld }) => {
      const why = unheld?.[`${pool}/${seat}`] ?? unheld?.[address ?? ''];
      return why === undefined ? [] : [`${node}: ${why}`];
    });
  }

  /** Those that cannot hold something. Most often none: then nothing else is read. */
  #listUnable(pool: string): readonly NodeReport[] {
    return findOrAdd(this.#poolToUnable, pool, () => {
      const unable = this.list(pool).filter(({ unheld }) => unheld !== undefined);
      return unable.sort((one, other) => (one.node < other.node ? -1 : 1));
    });
  }

  /** The names of a pool's candidates that have not a version of VirtualIPs yet, in order. */
  listBehind(pool: string, version: string): string[] {
    return listBehind(this.list(pool), 'virtualips', version);
  }

  /** Those whose early EndpointSlices gates of a Service wait for. */
  listDelaying(pool: string, service: string, version: string): string[] {
    return listBehind(this.#listAwaited(pool, service), 'earlyslices', version);
  }

  /** Who says that it holds a seat, `POOL/INDEX`, by name. One node, unless a seat is moving, or keepalived runs nowhere. */
  listCurrentOwners(seat: string): readonly NodeReport[] {
    return this.#listReporters('seats', seat);
  }

  /** The candidates that may hold a seat, and find that another host has an address. */
  listFinders(pool: string, seat: number, address: string): readonly NodeReport[] {
    return this.#listOfSeat(this.#listReporters('inUse', address), pool, seat);
  }

  /** Of a pool's candidates, as `NODE: WHY` by name: who leaves a Service to kube-proxy although nobody asks for that, or drops clients of it. */
  listReporting(what: 'left' | 'dropping', pool: string, service: string): readonly string[] {
    const reporting = this.#listReporters(what, service);
    if (reporting.length === 0) return [];
    const candidates = this.list(pool);
    return reporting
      .filter((report) => candidates.includes(report))
      .map((report) => `${report.node}: ${report[what]?.[service] ?? ''}`);
  }

  /** The candidates that may hold a seat, and say that they do. */
  listSeatHolders(pool: string, seat: number): readonly NodeReport[] {
    return this.#listOfSeat(this.listCurrentOwners(`${pool}/${seat}`), pool, seat);
  }

  /** Whether a node says that all addresses of the seats it holds are on its interfaces, up to a version of VirtualIPs. */
  hasAnnounced(report: NodeReport, version: string): boolean {
    return this.#progress.haveReached(`/${report.node}`, 'announced', () => [report], version);
  }

  /** Whether one of a pool's candidates does not say which addresses its interfaces have: its balancer is of an older version. */
  isAnyMute(pool: string): boolean {
    return this.list(pool).some(({ announced }) => announced === undefined);
  }

  /** The living nodes that say something of a seat, an address or a Service; in the order of their names. */
  #listReporters(what: keyof ReportedTexts, text: string): readonly NodeReport[] {
    const known = findOrAdd(this.#textToReports, what, () => {
      const textToReports = new Map<string, NodeReport[]>();
      const reports = [...this.#known.livingReports.values()];
      for (const report of reports.sort((one, other) => (one.node < other.node ? -1 : 1))) {
        const { [what]: texts = {} } = report;
        for (const each of new Set(Array.isArray(texts) ? texts : Object.keys(texts)))
          findOrAdd(textToReports, each, () => []).push(report);
      }
      return textToReports;
    });
    return known.get(text) ?? [];
  }

  /** Those of some nodes that may hold a seat. While the pool has no seats, any candidate may. */
  #listOfSeat(reports: readonly NodeReport[], pool: string, seat: number): readonly NodeReport[] {
    if (reports.length === 0) return [];
    const nodes = this.#findSeatNodes(pool, seat);
    const candidates = this.list(pool);
    return reports.filter((one) => candidates.includes(one) && nodes?.includes(one.node) !== false);
  }

  #findSeatNodes(pool: string, seat: number): readonly string[] | undefined {
    return this.#known.pools.get(pool)?.status?.seats?.find(({ index }) => index === seat)?.nodes;
  }

  /** A Lease whose Node is gone, and of which no renewal was received, is one that was left behind. */
  #listSurelyLiving(): readonly NodeReport[] {
    return [...this.#known.livingReports.values()].filter(
      ({ node }) =>
        this.#known.nodes.has(node) || this.#known.leases.get(toLeaseName(node))?.isProven !== false,
    );
  }

  #listAgain(name: string): NodeReport[] {
    const own = this.#known.livingReports.get(name.slice(1));
    if (name.startsWith('/')) return own === undefined || own.mode === 'none' ? [] : [own];
    const pool = this.#known.pools.get(name);
    if (pool === undefined) return [];
    return [...this.#known.livingReports.values()].filter(({ node: name, mode }) => {
      const node = this.#known.nodes.get(name);
      return mode !== 'none' && node !== undefined && mayHold(pool, node);
    });
  }
}

type ReportedTexts = Pick<NodeReport, 'seats' | 'inUse' | 'left' | 'dropping'>;

function listBehind(reports: readonly NodeReport[], kind: ReportedKind, version: string): string[] {
  return listNames(reports.filter((report) => !isProgrammed(report, kind, version)));
}

function listNames(reports: readonly NodeReport[]): string[] {
  return reports.map(({ node }) => node).sort();
}

/** Which Services of type LoadBalancer select which pods: one change costs what it changes. */
export class Selection {
  readonly #known: Pick<Known, 'services' | 'pods' | 'labelToServices' | 'namespaceToPods'>;
  readonly #serviceToPods = new MultiMap();
  readonly #podToServices = new MultiMap();

  /** It reads the maps as they are after each change. */
  constructor(known: Pick<Known, 'services' | 'pods' | 'labelToServices' | 'namespaceToPods'>) {
    this.#known = known;
  }

  /** Views, which change with it. */
  get maps(): Pick<Known, 'serviceToPods' | 'podToServices'> {
    return { serviceToPods: this.#serviceToPods.map, podToServices: this.#podToServices.map };
  }

  changePod({ key, after }: Change<Pod>): void {
    const known = [...(this.#podToServices.map.get(key) ?? [])];
    this.#link(key, known, after === null ? [] : this.#findServices(after));
  }

  /** A Service of any type has changed. */
  changeService(change: Change<Service>): void {
    if (!isNews(change, (service) => [isSelecting(service), service.spec.selector])) return;
    const { key, after } = change;
    const known = [...(this.#serviceToPods.map.get(key) ?? [])];
    for (const pod of known) this.#link(pod, [key], []);
    if (after === null || !isSelecting(after)) return;
    const [namespace = ''] = key.split('/');
    for (const pod of this.#known.namespaceToPods.get(namespace) ?? [])
      if (selects(after, this.#known.pods.get(pod))) this.#link(pod, [], [key]);
  }

  #link(pod: string, before: readonly string[], after: readonly string[]): void {
    this.#serviceToPods.move(pod, before, after);
    for (const service of before) this.#podToServices.move(service, [pod], []);
    for (const service of after) this.#podToServices.move(service, [], [pod]);
  }

  #findServices(pod: Pod): string[] {
    const { namespace, labels } = pod.metadata;
    const candidates = Object.entries(labels ?? {}).flatMap(([label, value]) => [
      ...(this.#known.labelToServices.get(`${namespace}/${label}=${value}`) ?? []),
    ]);
    return [...new Set(candidates)].filter((key) => {
      const service = this.#known.services.get(key);
      return service !== undefined && selects(service, pod);
    });
  }
}

function selects({ spec }: Service, pod: Pod | undefined): boolean {
  return pod !== undefined && isSelected({ matchLabels: spec.selector }, pod.metadata.labels);
}

/** A Service that ends selects on, for who follows it: whether it is served is for its step to say. */
function isSelecting({ spec }: Service): boolean {
  return spec.type === 'LoadBalancer' && Object.keys(spec.selector ?? {}).length > 0;
}

/** What finds a Service by the labels of a pod; nothing where it selects none. */
export function listFirstLabel(service: Service): string[] {
  if (!isSelecting(service)) return [];
  const [[label, value] = ['', '']] = Object.entries(service.spec.selector ?? {});
  return [`${service.metadata.namespace}/${label}=${value}`];
}

type EarlyEndpoint = NonNullable<EarlySlice['endpoints']>[number];

/** What of an endpoint makes it another one to nodes: its pod, its address, its ports, whether it takes connections (its own node's first), whether it ends. */
function toEndpointText({ addresses, conditions, targetRef }: EarlyEndpoint, slice: EarlySlice): string {
  const [address = ''] = addresses;
  return JSON.stringify([
    targetRef?.uid,
    address,
    conditions?.ready === true,
    conditions?.ready !== true && isPrepared(conditions),
    conditions?.terminating === true,
    slice.addressType,
    slice.ports,
  ]);
}

/** Whether an endpoint serves, and does not end: with `ready: false`, on its own node first. */
export function isPrepared(conditions: EarlyEndpoint['conditions']): boolean {
  return conditions?.serving === true && conditions.terminating !== true;
}

/** The version since which a slice has an endpoint of it as it is; null where that is not known. */
export function readSince(
  { sliceToSince }: Pick<Known, 'sliceToSince'>,
  slice: EarlySlice,
  endpoint: EarlyEndpoint,
): string | null {
  const { namespace, name } = slice.metadata;
  return sliceToSince.get(`${namespace}/${name}`)?.get(toEndpointText(endpoint, slice)) ?? null;
}

/** Endpoints that have not changed keep their version: whoever waits for one of them does not wait for what came after it. */
export function noteSince(
  { before, after }: Change<EarlySlice>,
  known: ReadonlyMap<string, string> | undefined,
): ReadonlyMap<string, string> | null {
  if (after === null) return null;
  const { resourceVersion } = after.metadata;
  const kept = isNext(before, after) ? known : undefined;
  const texts = (after.endpoints ?? []).map((endpoint) => toEndpointText(endpoint, after));
  return new Map(texts.map((text) => [text, kept?.get(text) ?? resourceVersion]));
}

/** The uids of the pods of endpoints that are others now, or of another version. */
export function listChangedEndpoints({ before, after }: Change<EarlySlice>): ReadonlySet<string> {
  const list = (slice: EarlySlice | null) =>
    (slice?.endpoints ?? []).map((endpoint) => (slice === null ? '' : toEndpointText(endpoint, slice)));
  const isGap = after !== null && !isNext(before, after);
  const changed = [...listDiffering(list(before), list(after)), ...(isGap ? list(after) : [])];
  return new Set(changed.map((text) => (JSON.parse(text) as [string | undefined])[0] ?? ''));
}

/** Whether no version lies between two that endpoints may differ in: a list after a gap shows the last one only. */
function isNext(before: EarlySlice | null, { metadata }: EarlySlice): boolean {
  if (before === null || before.metadata.uid !== metadata.uid) return false;
  return metadata.generation <= before.metadata.generation + 1;
}
