/**
 * What a balancer says of its node, in the annotations of the Lease `vipnat-lb-NODE`. One small object for a node, whatever the
 * number of Services: it says up to which version of each kind the kernel has all that the API had.
 */
import * as z from 'zod/mini';
import { type Resource } from '../kubernetes/resources.ts';
import { metadata } from './metadata.ts';
import { reportAnnotations } from './names.ts';

/**
 * Kinds whose versions a balancer reports. Versions of one kind can be compared as numbers (Kubernetes, KEP 5504). `earlyslices` are the
 * EndpointSlices of `early-slices.ts`: other objects are listed and watched by another informer.
 */
export type ReportedKind = 'virtualips' | 'services' | 'endpointslices' | 'earlyslices';

/** How a node balances: `direct` by its own table, `kube-proxy` by that one's; `none`: it can serve no address. */
export const nodeModes = ['direct', 'kube-proxy', 'none'] as const;

/** One of them. */
export type NodeMode = (typeof nodeModes)[number];

/** What one balancer has done. When that was is for who reads it: clocks of nodes differ. */
export interface NodeReport {
  readonly node: string;
  readonly programmed: { readonly [Kind in ReportedKind]?: string | undefined };
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
  readonly silent?: readonly SilentNode[];
  /** Virtual IPs of the Kubernetes API for which this node has rules of `vipnat run`, as canonical text. Absent where it has none. */
  readonly apiVips?: readonly string[];
}

/** An endpoint that takes no new connection on a node. */
export interface DrainingEndpoint {
  /** `NAMESPACE/NAME`. */
  readonly service: string;
  /** Its address. */
  readonly endpoint: string;
  /** Since when, by that node's date, as the API writes dates. */
  readonly since: string;
  /** How many open TCP connections it has by that node; null before they were counted. */
  readonly connections: number | null;
}

/** How many of them a report has: a Lease is a small object. */
export const maxDraining = 32;

/** A node that does not answer another one. */
export interface SilentNode {
  readonly node: string;
  /** Since when, as in ISO 8601, by the clock of the node that says so. */
  readonly since: string;
}

/** So many are said: with more of them, the network is the news. */
const maxSilent = 32;

/** Of how many Services a report says that they are left to kube-proxy, or lose clients, and how much it says of each. */
const maxServices = 16;
const maxClause = { left: 120, dropping: 240 } as const;

/** Services that a node has something to say of. */
type ServiceClauses = Readonly<Record<keyof typeof maxClause, ReadonlyMap<string, string>>>;

/** The first of these Services, by their names. Absent where there are none. */
export function listServices(clauses: ServiceClauses): Pick<NodeReport, 'left' | 'dropping'> {
  const toEntry = (key: keyof typeof maxClause) => {
    const first = [...clauses[key]].sort(([one], [other]) => (one < other ? -1 : 1)).slice(0, maxServices);
    const shortened = first.map(([service, clause]) => [service, clause.slice(0, maxClause[key])]);
    return first.length === 0 ? [] : [[key, Object.fromEntries(shortened)]];
  };
  return Object.fromEntries([...toEntry('left'), ...toEntry('dropping')]) as Pick<
    NodeReport,
    'left' | 'dropping'
  >;
}

/** How many addresses in use are read of a report: with more of them, the network is the news. */
export const maxInUse = 1024;

/** How many virtual IPs of the API a report has: nobody has more. */
export const maxApiVips = 16;

const leasePrefix = 'vipnat-lb-';

/** The name of a node's Lease. */
export function toLeaseName(node: string): string {
  return `${leasePrefix}${node}`;
}

/** For how long a Lease counts after a renewal. Packets of a node whose balancer is gone go to kube-proxy 10 s earlier. */
export const leaseDurationMs = 40_000;

/** What a report says of that which it leaves out. */
const unsaid = {
  ...{ addresses: [], silent: [], apiVips: [], draining: [] },
  ...{ unheld: {}, left: {}, dropping: {} },
} as const;

/** The annotations that say it. */
export function toAnnotations(report: NodeReport): Record<string, string> {
  const { programmed, seats, mode, inUse, unsupported, announced } = report;
  const { addresses, silent, apiVips, draining, unheld, left, dropping } = { ...unsaid, ...report };
  return {
    [reportAnnotations.programmed]: JSON.stringify(programmed),
    [reportAnnotations.seats]: JSON.stringify(seats),
    [reportAnnotations.mode]: mode,
    [reportAnnotations.inUse]: JSON.stringify(inUse),
    [reportAnnotations.addresses]: JSON.stringify(addresses),
    [reportAnnotations.silent]: JSON.stringify(silent.slice(0, maxSilent)),
    ...(unsupported === undefined ? {} : { [reportAnnotations.unsupported]: JSON.stringify(unsupported) }),
    ...(announced === undefined ? {} : { [reportAnnotations.announced]: announced }),
    // Also of nothing: a patch leaves what it does not name.
    [reportAnnotations.draining]: JSON.stringify(draining),
    [reportAnnotations.unheld]: JSON.stringify(unheld),
    [reportAnnotations.left]: JSON.stringify(left),
    [reportAnnotations.dropping]: JSON.stringify(dropping),
    [reportAnnotations.apiVips]: JSON.stringify(apiVips),
  };
}

/** Whether all changes up to a version are programmed. */
export function isProgrammed(report: NodeReport, kind: ReportedKind, version: string): boolean {
  const programmed = report.programmed[kind];
  return programmed !== undefined && toNumber(programmed) >= toNumber(version);
}

/** A balancer that has all EndpointSlices but the early ones does without them: it sends connections to whom Kubernetes calls ready. */
export function mayFollowEarly({ programmed }: NodeReport): boolean {
  return programmed.earlyslices !== undefined || programmed.endpointslices === undefined;
}

/** A text that is not a number is before every version. */
function toNumber(version: string): bigint {
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
const drains = z.array(
  z.object({
    service: z.string(),
    endpoint: z.string(),
    since: z.string(),
    connections: z.nullable(z.number()),
  }),
);
const clauses = z.record(z.string(), z.string());
const silentNodes = z.array(z.object({ node: z.string(), since: z.string() }));
const programmed = z.partial(
  z.object({
    virtualips: z.string(),
    services: z.string(),
    endpointslices: z.string(),
    earlyslices: z.string(),
  }),
);

/**
 * What a Lease says of its node; null for a Lease that is not a balancer's. An annotation that cannot be read says nothing: no
 * version, no seat, no address; a mode that is not known, as of a later version, is `none`. Pure.
 */
export function parseNodeLease({ metadata: { name, annotations }, spec }: Lease): NodeLease | null {
  if (!name.startsWith(leasePrefix)) return null;
  const read = (key: keyof typeof reportAnnotations) => annotations?.[reportAnnotations[key]] ?? '';
  const unsupported = parseJson(texts, read('unsupported'), []);
  const draining = parseJson(drains, read('draining'), []).slice(0, maxDraining);
  const unheld = parseJson(clauses, read('unheld'), {});
  const left = new Map(Object.entries(parseJson(clauses, read('left'), {})));
  const dropping = new Map(Object.entries(parseJson(clauses, read('dropping'), {})));
  const addresses = parseJson(texts, read('addresses'), []);
  const silent = parseJson(silentNodes, read('silent'), []).slice(0, maxSilent);
  const apiVips = parseJson(texts, read('apiVips'), []).slice(0, maxApiVips);
  const announced = read('announced');
  const mode = nodeModes.find((one) => one === read('mode')) ?? 'none';
  return {
    report: {
      node: name.slice(leasePrefix.length),
      programmed: parseJson(programmed, read('programmed'), {}),
      seats: parseJson(texts, read('seats'), []),
      mode,
      inUse: parseJson(texts, read('inUse'), []).slice(0, maxInUse),
      ...omitEmpty({ unsupported, draining, addresses, silent, apiVips }),
      ...(Object.keys(unheld).length === 0 ? {} : { unheld }),
      ...(isNumber(announced) ? { announced } : {}),
      ...listServices({ left, dropping }),
    },
    renewal: spec?.renewTime ?? '',
    // A node may write its own Lease: no duration of its choice makes it live longer than a balancer's.
    durationMs: Math.min(leaseDurationMs, (spec?.leaseDurationSeconds ?? Infinity) * 1000),
  };
}

function parseJson<T>(schema: z.ZodMiniType<T>, text: string, fallback: T): T {
  try {
    return schema.safeParse(JSON.parse(text)).data ?? fallback;
  } catch {
    return fallback;
  }
}

function omitEmpty<T extends Readonly<Record<string, readonly unknown[]>>>(lists: T): Partial<T> {
  return Object.fromEntries(Object.entries(lists).filter(([, list]) => list.length > 0)) as Partial<T>;
}
