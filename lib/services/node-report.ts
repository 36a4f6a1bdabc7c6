/**
 * What a balancer says of its node, in the annotations of the Lease `vipnat-lb-NODE`. One small object for a node, whatever the
 * number of Services: it says up to which version of each kind the kernel has all that the API had.
 */
import * as z from 'zod/mini';
import { type Resource } from '../kubernetes/resources.ts';
import { metadata } from './metadata.ts';
import { reportAnnotations } from './names.ts';

/** Kinds whose versions a balancer reports. Versions of one kind can be compared as numbers (Kubernetes, KEP 5504). */
export type ReportedKind = 'virtualips' | 'services' | 'endpointslices';

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
  /** Addresses that another host on the network answers for. */
  readonly inUse: readonly string[];
  /** Protocols that its kernel cannot translate: `SCTP`. Absent where it says nothing of them. */
  readonly unsupported?: readonly string[];
}

const leasePrefix = 'vipnat-lb-';

/** The name of a node's Lease. */
export function toLeaseName(node: string): string {
  return `${leasePrefix}${node}`;
}

/** For how long a Lease counts after a renewal. Packets of a node whose balancer is gone go to kube-proxy 10 s earlier. */
export const leaseDurationMs = 40_000;

/** The annotations that say it. */
export function toAnnotations(report: NodeReport): Record<string, string> {
  const { programmed, seats, mode, inUse, unsupported } = report;
  return {
    [reportAnnotations.programmed]: JSON.stringify(programmed),
    [reportAnnotations.seats]: JSON.stringify(seats),
    [reportAnnotations.mode]: mode,
    [reportAnnotations.inUse]: JSON.stringify(inUse),
    ...(unsupported === undefined ? {} : { [reportAnnotations.unsupported]: JSON.stringify(unsupported) }),
  };
}

/** Whether all changes up to a version are programmed. */
export function isProgrammed(report: NodeReport, kind: ReportedKind, version: string): boolean {
  const programmed = report.programmed[kind];
  return programmed !== undefined && toNumber(programmed) >= toNumber(version);
}

/** A text that is not a number is before every version. */
function toNumber(version: string): bigint {
  return /^\d{1,39}$/.test(version) ? BigInt(version) : -1n;
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
const programmed = z.partial(
  z.object({ virtualips: z.string(), services: z.string(), endpointslices: z.string() }),
);

/**
 * What a Lease says of its node; null for a Lease that is not a balancer's. An annotation that cannot be read says nothing: no
 * version, no seat, no address; a mode that is not known, as of a later version, is `none`. Pure.
 */
export function parseNodeLease({ metadata: { name, annotations }, spec }: Lease): NodeLease | null {
  if (!name.startsWith(leasePrefix)) return null;
  const read = (key: keyof typeof reportAnnotations) => annotations?.[reportAnnotations[key]] ?? '';
  const unsupported = parseJson(texts, read('unsupported'), []);
  const mode = nodeModes.find((one) => one === read('mode')) ?? 'none';
  return {
    report: {
      node: name.slice(leasePrefix.length),
      programmed: parseJson(programmed, read('programmed'), {}),
      seats: parseJson(texts, read('seats'), []),
      mode,
      inUse: parseJson(texts, read('inUse'), []),
      ...(unsupported.length === 0 ? {} : { unsupported }),
    },
    renewal: spec?.renewTime ?? '',
    durationMs: (spec?.leaseDurationSeconds ?? leaseDurationMs / 1000) * 1000,
  };
}

function parseJson<T>(schema: z.ZodMiniType<T>, text: string, fallback: T): T {
  try {
    return schema.safeParse(JSON.parse(text)).data ?? fallback;
  } catch {
    return fallback;
  }
}
