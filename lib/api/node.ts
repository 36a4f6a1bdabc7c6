import { reportAnnotations, metadata, type AddressPool, poolAnnotations } from './vipnat.ts';
import * as z from 'zod/mini';
import type { Change } from '../kubernetes/informer.ts';
import { type Resource, readJson } from '../kubernetes/client.ts';

/**
 * What a balancer says of its node, in the annotations of the Lease `vipnat-lb-NODE`. One small object for a node, whatever the
 * number of Services: it says up to which version of each kind the kernel has all that the API had.
 */

const programmed = z.partial(
  z.object({
    ...{ virtualips: z.string(), services: z.string(), endpointslices: z.string(), earlyslices: z.string() },
  }),
);

/**
 * Kinds whose versions a balancer reports. Versions of one kind can be compared as numbers (Kubernetes, KEP 5504). `earlyslices` are the
 * EndpointSlices of `controller/kinds/endpoints.ts`: other objects are listed and watched by another informer.
 */
export type ReportedKind = keyof z.output<typeof programmed>;

/** A version of an object for which the controller waits until nodes report that they have programmed it. */
export interface AwaitedVersion {
  readonly kind: ReportedKind;
  readonly version: string;
  /** The VirtualIP that waits, which may do so without success and change all the time; left out for what other versions do not follow. */
  readonly object?: string;
}

/** How a node balances: `direct` by its own table, `kube-proxy` by that one's; `none`: it can serve no address. */
export const nodeModes = ['direct', 'kube-proxy', 'none'] as const;

/** One of them. */
export type NodeMode = (typeof nodeModes)[number];

/** What one balancer has done. When that was is for who reads it: clocks of nodes differ. */
export interface NodeReport {
  readonly node: string;
  readonly programmed: Readonly<z.output<typeof programmed>>;
  /** The seats this node holds: `POOL/INDEX`. */
  readonly seats: readonly string[];
  readonly mode: NodeMode;
  /**
   * Up to which version of VirtualIPs all addresses of the seats that it holds are on its interfaces. `0` before any. Absent where it says
   * nothing of it, as of an older version.
   */
  readonly announced?: string;
  /** Addresses that another host on the network answers for. */
  readonly inUse: readonly string[];
  /** Protocols that its kernel cannot translate: `SCTP`. Absent where it says nothing of them. */
  readonly unsupported?: readonly string[];
  /** Those with the most connections first, 32 at most. Absent where nothing drains. */
  readonly draining?: readonly DrainingEndpoint[];
  /** What it may hold and cannot: seats (`POOL/INDEX`) and addresses, to clauses that say why. Absent where it says nothing of it. */
  readonly unheld?: Readonly<Record<string, string>>;
  /**
   * Services that it leaves to kube-proxy although nobody asks for that (`NAMESPACE/NAME`), to clauses that say why: 16 at most. Absent where
   * there are none.
   */
  readonly left?: Readonly<Record<string, string>>;
  /** The same of Services of which it drops clients that other nodes send on. */
  readonly dropping?: Readonly<Record<string, string>>;
  /** At which other nodes reach its node. Absent where it says none. */
  readonly addresses?: readonly string[];
  /** Other nodes that do not answer this one, while it holds a seat. Absent where it says nothing of them. */
  readonly unresponsive?: readonly UnresponsiveNode[];
  /** Virtual IPs of the Kubernetes API for which this node has rules of `vipnat run`, as canonical text. Absent where it has none. */
  readonly apiVips?: readonly string[];
}

const drains = z.array(
  z.object({
    /** `NAMESPACE/NAME`. */
    service: z.string(),
    /** Its address. */
    endpoint: z.string(),
    /** Since when, by that node's date, as the API writes dates. */
    since: z.string(),
    /** How many open TCP connections it has by that node; null before they were counted. */
    connections: z.nullable(z.number()),
  }),
);

/** An endpoint that takes no new connection on a node. */
export type DrainingEndpoint = Readonly<z.output<typeof drains>[number]>;

/** How many of them a report has: a Lease is a small object. */
export const maxDraining = 32;

/** `since` is as in ISO 8601, by the clock of the node that says so. */
const unresponsiveNodes = z.array(z.object({ node: z.string(), since: z.string() }));

/** A node that does not answer another one. */
export type UnresponsiveNode = Readonly<z.output<typeof unresponsiveNodes>[number]>;

/** So many are said: with more of them, the network is the news. */
const maxUnresponsive = 32;

/** Of how many Services a report says that kube-proxy handles them, or that they lose clients, and how much it says of each. */
const maxServices = 16;
const maxClause = { left: 120, dropping: 240 } as const;

/** Services that a node has something to say of. */
type ServiceClauses = Readonly<Record<keyof typeof maxClause, Iterable<readonly [string, string]>>>;

/** The first of these Services, by their names. Absent where there are none. */
export function listServices(clauses: ServiceClauses): Pick<NodeReport, 'left' | 'dropping'> {
  const toEntry = (key: keyof typeof maxClause): Pick<NodeReport, 'left' | 'dropping'> => {
    const first = [...clauses[key]].sort(([one], [other]) => (one < other ? -1 : 1)).slice(0, maxServices);
    const shortened = first.map(([service, clause]) => [service, clause.slice(0, maxClause[key])] as const);
    return first.length === 0 ? {} : { [key]: Object.fromEntries(shortened) };
  };
  return { ...toEntry('left'), ...toEntry('dropping') };
}

/** How many addresses in use are read of a report: with more of them, the network is the news. */
const maxInUse = 1024;

/** How many virtual IPs of the API a report has: nobody has more. */
export const maxApiVips = 16;

const leasePrefix = 'vipnat-lb-';

/** The name of a node's Lease. */
export function toLeaseName(node: string): string {
  return `${leasePrefix}${node}`;
}

/** For how long a Lease counts after a renewal. Packets of a node whose balancer is gone go to kube-proxy 10 s earlier. */
export const leaseDurationMs = 40_000;

/** What a report says of that which it leaves out: a patch leaves what it does not name. */
const unsaid = {
  ...{ addresses: [], apiVips: [], draining: [] },
  ...{ unheld: {}, left: {}, dropping: {} },
} as const;

/** The annotations that say it. */
export function toAnnotations(report: NodeReport): Record<string, string> {
  const unresponsive = (report.unresponsive ?? []).slice(0, maxUnresponsive);
  const reported: Partial<NodeReport> = { ...unsaid, ...report, unresponsive };
  const fields = Object.keys(reportAnnotations) as (keyof typeof reportAnnotations)[];
  const annotations = fields.flatMap((field) => {
    const value = reported[field];
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    return value === undefined ? [] : [[reportAnnotations[field], text] as const];
  });
  return Object.fromEntries(annotations);
}

/** Whether all changes up to a version are programmed. */
export function isProgrammed(
  report: Pick<NodeReport, 'programmed'>,
  kind: ReportedKind,
  version: string,
): boolean {
  const programmed = report.programmed[kind];
  return programmed !== undefined && toNumber(programmed) >= toNumber(version);
}

/** A balancer that has all EndpointSlices but the early ones never uses those: it sends connections to whom Kubernetes calls ready. */
export function mayFollowEarly({ programmed }: NodeReport): boolean {
  return programmed.earlyslices !== undefined || programmed.endpointslices === undefined;
}

/** A version as a number. A text that is none is before every version. */
export function toNumber(version: string): bigint {
  return isNumber(version) ? BigInt(version) : -1n;
}

function isNumber(version: string): boolean {
  return /^\d{1,39}$/.test(version);
}

const lease = z.object({
  metadata,
  spec: z.nullish(
    z.object({
      holderIdentity: z.nullish(z.string()),
      leaseDurationSeconds: z.nullish(z.number()),
      renewTime: z.nullish(z.string()),
    }),
  ),
});

/** A Lease of coordination.k8s.io/v1, as far as it is of use. */
export type Lease = z.output<typeof lease>;

/** The Leases of vipnat's namespace: those of balancers, and that of the controllers' election. */
export function toLeaseResource(namespace: string): Resource<Lease> {
  return {
    kind: 'Lease',
    path: `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`,
    selector: '',
    schema: lease,
    limits: { characters: 32_000_000, page: 500, objects: 20_000 },
  };
}

/** A node's Lease as it was read. */
export interface NodeLease {
  readonly report: NodeReport;
  /** Another text after each renewal. */
  readonly renewal: string;
  readonly durationMs: number;
}

const texts = z.array(z.string());
const clauses = z.record(z.string(), z.string());

/**
 * What a Lease says of its node; null for a Lease that is not a balancer's. An annotation that cannot be read says nothing: no
 * version, no seat, no address; a mode that is not known, as of a later version, is `none`. Pure.
 */
export function parseNodeLease({ metadata: { name, annotations }, spec }: Lease): NodeLease | null {
  if (!name.startsWith(leasePrefix)) return null;
  const read = (key: keyof typeof reportAnnotations) => annotations?.[reportAnnotations[key]] ?? '';
  const readTexts = (key: keyof typeof reportAnnotations) => parseJson(texts, read(key), []);
  const readClauses = (key: keyof typeof reportAnnotations) => parseJson(clauses, read(key), {});
  const announced = read('announced');
  return {
    report: {
      node: name.slice(leasePrefix.length),
      programmed: parseJson(programmed, read('programmed'), {}),
      seats: readTexts('seats'),
      mode: nodeModes.find((one) => one === read('mode')) ?? 'none',
      inUse: readTexts('inUse').slice(0, maxInUse),
      ...omitEmpty({
        unsupported: readTexts('unsupported'),
        draining: parseJson(drains, read('draining'), []).slice(0, maxDraining),
        addresses: readTexts('addresses'),
        unresponsive: parseJson(unresponsiveNodes, read('unresponsive'), []).slice(0, maxUnresponsive),
        apiVips: readTexts('apiVips').slice(0, maxApiVips),
        unheld: readClauses('unheld'),
      }),
      ...(isNumber(announced) ? { announced } : {}),
      ...listServices({
        left: Object.entries(readClauses('left')),
        dropping: Object.entries(readClauses('dropping')),
      }),
    },
    renewal: spec?.renewTime ?? '',
    // A node may write its own Lease: no duration of its choice makes it live longer than a balancer's.
    durationMs: Math.min(leaseDurationMs, (spec?.leaseDurationSeconds ?? Infinity) * 1000),
  };
}

function parseJson<T>(schema: z.ZodMiniType<T>, text: string, fallback: T): T {
  return schema.safeParse(readJson(text)).data ?? fallback;
}

function omitEmpty<T extends Readonly<Record<string, object>>>(parts: T): Partial<T> {
  const entries = Object.entries(parts).filter(([, part]) => Object.keys(part).length > 0);
  return Object.fromEntries(entries) as Partial<T>;
}

/**
 * A node that is to hold no seat of a pool, or not that one: an annotation of the pool says `w1`, or `w2/0` for the seat of index 0. A node
 * that holds such a seat gives it up to the next one.
 */
export interface Drained {
  readonly node: string;
  /** Null for all seats of the pool. */
  readonly seat: number | null;
}

/** What a pool's annotation says. What is nothing of the kind is left out. */
export function readDrained({ metadata }: Pick<AddressPool, 'metadata'>): Drained[] {
  return (metadata.annotations?.[poolAnnotations.drained] ?? '').split(',').flatMap((text) => {
    const [, node, seat] = /^\s*([a-z0-9][a-z0-9.-]{0,252})(?:\/(\d{1,9}))?\s*$/.exec(text) ?? [];
    return node === undefined ? [] : [{ node, seat: seat === undefined ? null : Number(seat) }];
  });
}

/** The annotation that says it; null for none. */
export function formatDrained(drained: readonly Drained[]): string | null {
  const texts = drained.map(({ node, seat }) => (seat === null ? node : `${node}/${seat}`));
  return texts.length === 0 ? null : [...new Set(texts)].sort().join(',');
}

/** The seats for which nodes are chosen. */
interface DrainedSeats {
  readonly drained: readonly Drained[];
  /** Null for any seat of the pool. */
  readonly seat: number | null;
  /** Whether a node lives, and can serve. */
  readonly isAble: (node: string) => boolean;
}

/**
 * Of some nodes those that may hold a seat. All of them where no able one would be left: a drain leaves no address without a
 * seat holder.
 */
export function dropDrained(nodes: readonly string[], { drained, seat, isAble }: DrainedSeats): string[] {
  const rest = nodes.filter(
    (name) => !drained.some((one) => one.node === name && (one.seat === null || one.seat === seat)),
  );
  return rest.some(isAble) ? rest : [...nodes];
}

const node = z.object({
  metadata,
  /** The ranges of its pods: the first field where the second one is not there. */
  spec: z.nullish(z.object({ podCIDR: z.nullish(z.string()), podCIDRs: z.nullish(z.array(z.string())) })),
  status: z.nullish(
    z.object({
      addresses: z.nullish(z.array(z.object({ type: z.string(), address: z.string() }))),
      conditions: z.nullish(z.array(z.object({ type: z.string(), status: z.string() }))),
    }),
  ),
});

/** A Node of v1: its labels, its addresses and those of its pods, and whether it is ready. */
export type Node = z.output<typeof node>;

/** Whether a node's kubelet speaks, and says that pods run there: `Ready`. Not of a node that is not there. */
export function isNodeReady(node: Pick<Node, 'status'> | undefined): boolean {
  const ready = node?.status?.conditions?.find(({ type }) => type === 'Ready');
  return node !== undefined && (ready?.status ?? 'True') === 'True';
}

const namespace = z.object({ metadata });

/** A Namespace of v1: its labels. */
export type Namespace = z.output<typeof namespace>;

const serviceCidr = z.object({
  metadata,
  spec: z.nullish(z.object({ cidrs: z.nullish(z.array(z.string())) })),
});

/** A ServiceCIDR of networking.k8s.io/v1: where ClusterIPs come from. */
export type ServiceCidr = z.output<typeof serviceCidr>;

/** A node has up to 50 images in its status: pages are small. */
const limits = { characters: 64_000_000, page: 200, objects: 20_000 };

/** Source: core/v1, LabelTopologyZone. */
const zoneLabel = 'topology.kubernetes.io/zone';

/** The zone of a node; null for one that has none, or is not there. */
export function readZone(
  node: { readonly metadata: Pick<Node['metadata'], 'labels'> } | null | undefined,
): string | null {
  return node?.metadata.labels?.[zoneLabel] ?? null;
}

/** All nodes, whatever is read of them. */
export const ofNodes = { kind: 'Node', path: '/api/v1/nodes', selector: '', limits } as const;

/** All nodes. */
export const nodes: Resource<Node> = { ...ofNodes, schema: node };

/** All namespaces. */
export const namespaces: Resource<Namespace> = {
  kind: 'Namespace',
  path: '/api/v1/namespaces',
  selector: '',
  schema: namespace,
  limits,
};

/** All ServiceCIDRs. Kubernetes has them since 1.33. */
export const serviceCidrs: Resource<ServiceCidr> = {
  kind: 'ServiceCIDR',
  path: '/apis/networking.k8s.io/v1/servicecidrs',
  selector: '',
  schema: serviceCidr,
  limits: { ...limits, objects: 1000 },
  mayBeMissing: true,
};

/** Why pods of a node are to get no new connection: a clause of which the node is the subject. */
export type NodeEnding = 'shuts down' | 'is being drained' | 'is in maintenance';

/** Source: core/v1 of Kubernetes 1.37, KEP-5683. An administrator, or a controller that may, sets and clears them. */
const typeToEnding: Readonly<Record<string, NodeEnding>> = {
  GracefulNodeShutdownInProgress: 'shuts down',
  DrainInProgress: 'is being drained',
  MaintenanceInProgress: 'is in maintenance',
};

/**
 * In the message of Ready, among others where there are several reasons: kubelet 1.36, nodeshutdown_manager.go, ShutdownStatus. It is all that
 * a kubelet says of a graceful shutdown: the pods get no deletionTimestamp (kubernetes/kubernetes#116965).
 */
const shutdownMessage = 'node is shutting down';

/** Conditions of a node. */
export const conditions = z.array(
  z.object({ type: z.string(), status: z.string(), message: z._default(z.string(), '') }),
);

const followedNode = z.object({
  metadata: z.pick(metadata, { name: true, resourceVersion: true, labels: true }),
  status: z.nullish(z.object({ conditions: z.nullish(conditions) })),
});

/** A Node of v1, as far as balancers follow it. Heartbeats change nothing of it. */
export interface FollowedNode {
  readonly metadata: { readonly name: string; readonly resourceVersion: string };
  readonly zone: string | null;
  /** Null: its pods get new connections, unless it is unresponsive and said otherwise before. */
  readonly ending: NodeEnding | null;
  /** Its kubelet says nothing any more: the message of Ready is kube-controller-manager's, and what the kubelet said last is lost. */
  readonly isUnresponsive: boolean;
}

/** All nodes. */
export const followedNodes: Resource<FollowedNode> = {
  ...ofNodes,
  schema: z.pipe(followedNode, z.transform(toFollowed)),
};

function toFollowed({ metadata, status }: z.output<typeof followedNode>): FollowedNode {
  const { name: own, resourceVersion } = metadata;
  return {
    metadata: { name: own, resourceVersion },
    zone: readZone({ metadata }),
    ending: findEnding(status?.conditions ?? []),
    isUnresponsive:
      status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'Unknown') === true,
  };
}

/**
 * Why a node's pods are to get no new connection. A kubelet that starts again, or is unresponsive, has Ready False or Unknown for other
 * reasons: its pods continue.
 */
export function findEnding(found: z.output<typeof conditions>): NodeEnding | null {
  for (const { type, status, message } of found) {
    const ending = Object.hasOwn(typeToEnding, type) ? typeToEnding[type] : undefined;
    if (status === 'True' && ending !== undefined) return ending;
    if (type === 'Ready' && status === 'False' && message.includes(shutdownMessage)) return 'shuts down';
  }
  return null;
}

/**
 * The nodes of which Kubernetes receives nothing, where these are more than half: then rather the API is away from them (as the panic threshold
 * of Envoy). None otherwise. Nothing is remembered, so the order in which they stopped does not matter.
 */
export function listMissedNodes<T extends { readonly isUnresponsive: boolean }>(nodes: readonly T[]): T[] {
  const missed = nodes.filter(({ isUnresponsive }) => isUnresponsive);
  return missed.length * 2 > nodes.length ? missed : [];
}

/** The nodes whose pods are to get no new connection, to why. */
export type NodeEndings = ReadonlyMap<string, NodeEnding>;

/** What counts of all nodes, as their Nodes say. */
export class NodeStates {
  readonly #own: string;
  readonly #nodeToEnding = new Map<string, NodeEnding>();
  /** The nodes whose pods are to get no new connection, to why. */
  readonly endings: NodeEndings = this.#nodeToEnding;
  /** Of this node; null where it has none, or is not known. */
  zone: string | null = null;
  /** See `listMissedNodes`. */
  kept: ReadonlySet<string> = new Set();

  constructor(own: string) {
    this.#own = own;
  }

  /** Answers the nodes that end or are kept now, or no more, and whether this node's zone is another one. */
  take(
    changes: readonly Change<FollowedNode>[],
    all: Iterable<FollowedNode>,
  ): { readonly turned: ReadonlySet<string>; readonly isZoneOther: boolean } {
    const [zone, before] = [this.zone, this.kept];
    const turned = new Set(changes.filter((change) => this.#takeOne(change)).map(({ key }) => key));
    this.kept = new Set(listMissedNodes([...all]).map(({ metadata }) => metadata.name));
    for (const node of [...before, ...this.kept])
      if (before.has(node) !== this.kept.has(node)) turned.add(node);
    return { turned, isZoneOther: zone !== this.zone };
  }

  /** Answers whether it ends now, or ends no more. A node that does not answer after it reported its shutdown is off. */
  #takeOne({ key, after }: Change<FollowedNode>): boolean {
    const { zone, ending, isUnresponsive } = after ?? { zone: null, ending: null, isUnresponsive: false };
    const before = this.#nodeToEnding.get(key) ?? null;
    const now = ending ?? (isUnresponsive && before === 'shuts down' ? before : null);
    if (key === this.#own) this.zone = zone;
    if (now === null) this.#nodeToEnding.delete(key);
    else this.#nodeToEnding.set(key, now);
    return before !== now;
  }
}

/** What a node's balancer said last. */
export interface LeaseReport extends NodeReport {
  /** Since its Lease was renewed, by this host's date; null where it has no time. */
  readonly msSinceRenewal: number | null;
  /** Whether the Lease lasts, by this host's date. */
  readonly isLiving: boolean;
}

/** What balancers say in their Leases, in the order of the nodes' names. Pure. */
export function readReports(leases: readonly Lease[], nowMs: number): LeaseReport[] {
  const reports = leases
    .flatMap((lease) => parseNodeLease(lease) ?? [])
    .map(({ report, renewal, durationMs }) => ({ ...report, ...judgeRenewal(renewal, durationMs, nowMs) }));
  return reports.sort((one, other) => (one.node < other.node ? -1 : 1));
}

/** How long ago a Lease was renewed, and whether it lasts. */
export function judgeRenewal(
  renewal: string,
  durationMs: number,
  nowMs: number,
): Pick<LeaseReport, 'msSinceRenewal' | 'isLiving'> {
  const renewedAt = Date.parse(renewal);
  const msSinceRenewal = Number.isNaN(renewedAt) ? null : Math.max(0, nowMs - renewedAt);
  return { msSinceRenewal, isLiving: (msSinceRenewal ?? Infinity) <= durationMs };
}
