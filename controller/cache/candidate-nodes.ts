import { type Node } from '../../lib/services/cluster.ts';
import { isSelected, mentions } from '../../lib/services/label-selector.ts';
import { excludedNodeLabel } from '../../lib/services/names.ts';
import {
  mayFollowEarly,
  type NodeReport,
  type ReportedKind,
  toLeaseName,
} from '../../lib/services/node-report.ts';
import { type AddressPool } from '../../lib/services/objects.ts';
import { type Known } from './known.ts';

/**
 * Whether a node may hold a pool's addresses. One that load balancers shall not use is left out, unless the pool's selector says
 * something of that label.
 */
export function mayHold({ spec }: AddressPool, { metadata: { labels } }: Node): boolean {
  const isExcluded = Object.hasOwn(labels ?? {}, excludedNodeLabel);
  return (
    (!isExcluded || mentions(spec.nodeSelector, excludedNodeLabel)) && isSelected(spec.nodeSelector, labels)
  );
}

/** Per kind: the oldest version that any of some nodes is at. Null: some node has said none. */
type Progress = Readonly<Record<'virtualips' | 'services' | 'earlyslices', bigint | null>>;

/**
 * The living nodes that may hold a pool's addresses, and how far they are. It is made once for any number of questions: what it costs
 * grows with pools and nodes, and not with virtual IPs.
 */
export class CandidateNodes {
  readonly #pools: ReadonlyMap<string, AddressPool>;
  readonly #nodes: ReadonlyMap<string, Node>;
  readonly #reports: ReadonlyMap<string, NodeReport>;
  readonly #leases: Known['leases'];
  readonly #poolToReports = new Map<string, readonly NodeReport[]>();
  readonly #poolToProgress = new Map<string, Progress>();
  readonly #poolToUnable = new Map<string, readonly NodeReport[]>();
  readonly #poolToMute = new Map<string, boolean>();
  #seatToHolders: ReadonlyMap<string, readonly NodeReport[]> | null = null;
  #addressToFinders: ReadonlyMap<string, readonly NodeReport[]> | null = null;
  readonly #serviceToSayers = new Map<'left' | 'dropping', ReadonlyMap<string, readonly NodeReport[]>>();
  #ofAll: Progress | null = null;
  #surelyLiving: readonly NodeReport[] | null = null;

  /** It answers for the maps as they are at the first question of each kind: after a change, make another one. */
  constructor(
    pools: ReadonlyMap<string, AddressPool>,
    nodes: ReadonlyMap<string, Node>,
    reports: ReadonlyMap<string, NodeReport>,
    leases: Known['leases'] = new Map(),
  ) {
    this.#leases = leases;
    this.#pools = pools;
    this.#nodes = nodes;
    this.#reports = reports;
  }

  /** The reports of a pool's living candidates that can serve. None for a pool that is not there. */
  list(pool: string): readonly NodeReport[] {
    const known = this.#poolToReports.get(pool);
    if (known !== undefined) return known;
    const reports = this.#listAnew(this.#pools.get(pool));
    this.#poolToReports.set(pool, reports);
    return reports;
  }

  /**
   * Whether none of a pool's candidates follows early EndpointSlices, and some have programmed others: they are older than those, or have no
   * right to them. Those that follow are asked, without the others.
   */
  isWithoutEarly(pool: string): boolean {
    const reports = this.list(pool);
    return reports.length > 0 && !reports.some(mayFollowEarly);
  }

  /** Whether each of a pool's candidates has a version of a kind. True where there are none. */
  haveProgrammed(pool: string, kind: keyof Progress, version: string): boolean {
    const known = this.#poolToProgress.get(pool);
    const progress = known ?? measure(this.list(pool));
    if (known === undefined) this.#poolToProgress.set(pool, progress);
    return isReached(progress[kind], this.list(pool).length, version);
  }

  /** Whether every living node, candidate or not, has a version of VirtualIPs: then none serves what is in none of its Services. */
  haveForgotten(version: string): boolean {
    const reports = this.#listSurelyLiving();
    this.#ofAll ??= measure(reports);
    return isReached(this.#ofAll.virtualips, reports.length, version);
  }

  /** The names of the living nodes, candidates or not, that do not have a version of VirtualIPs yet, in order. */
  listNotForgotten(version: string): string[] {
    const behind = this.#listSurelyLiving().filter(
      (report) => !isReached(measure([report]).virtualips, 1, version),
    );
    return behind.map(({ node }) => node).sort();
  }

  /** Why no living node of a seat can hold it, or an address of it: each one's clause. Null where one can, or none lives. */
  explainUnheld(pool: string, seat: number, address: string | null = null): readonly string[] | null {
    if (this.#listUnable(pool).length === 0) return null;
    const nodes = this.#pools.get(pool)?.status?.seats?.find(({ index }) => index === seat)?.nodes ?? [];
    const living = this.list(pool).filter(({ node }) => nodes.includes(node)).length;
    const clauses = this.listUnheld(pool, seat, address);
    return living === 0 || clauses.length < living ? null : clauses;
  }

  /** The candidates that cannot hold a seat, or an address of it, as `NODE: WHY`; in the order of their names. */
  listUnheld(pool: string, seat: number, address: string | null = null): readonly string[] {
    return this.#listUnable(pool).flatMap(({ node, unheld }) => {
      const why = unheld?.[`${pool}/${seat}`] ?? unheld?.[address ?? ''];
      return why === undefined ? [] : [`${node}: ${why}`];
    });
  }

  /** Those that cannot hold something. Most often none: then nothing else is looked at. */
  #listUnable(pool: string): readonly NodeReport[] {
    const known = this.#poolToUnable.get(pool);
    if (known !== undefined) return known;
    const unable = this.list(pool).filter(({ unheld }) => unheld !== undefined);
    const sorted = unable.sort((one, other) => (one.node < other.node ? -1 : 1));
    this.#poolToUnable.set(pool, sorted);
    return sorted;
  }

  /** The names of a pool's candidates that have not a version of a kind yet, in order. */
  listBehind(pool: string, version: string, kind: keyof Progress = 'virtualips'): string[] {
    const reports = this.list(pool).filter((report) => kind !== 'earlyslices' || mayFollowEarly(report));
    const behind = reports.filter((report) => !isReached(measure([report])[kind], 1, version));
    return behind.map(({ node }) => node).sort();
  }

  /** Who says that it holds a seat, `POOL/INDEX`, by name. One node, unless a seat is moving, or keepalived runs nowhere. */
  listHolders(seat: string): readonly NodeReport[] {
    this.#seatToHolders ??= groupBy([...this.#reports.values()], ({ seats }) => seats);
    return this.#seatToHolders.get(seat) ?? [];
  }

  /** The candidates that may hold a seat, and find that another host has an address. */
  listWitnesses(pool: string, seat: number, address: string): readonly NodeReport[] {
    this.#addressToFinders ??= groupBy([...this.#reports.values()], ({ inUse }) => inUse);
    return this.#listOfSeat(this.#addressToFinders.get(address) ?? [], pool, seat);
  }

  /**
   * Of a pool's candidates, those that leave a Service to kube-proxy although nobody asks for that, or drop clients of it; as `NODE: WHY`, in the
   * order of their names.
   */
  listSaying(what: 'left' | 'dropping', pool: string, service: string): readonly string[] {
    const known = this.#serviceToSayers.get(what);
    const sayers = known ?? groupBy([...this.#reports.values()], (report) => Object.keys(report[what] ?? {}));
    if (known === undefined) this.#serviceToSayers.set(what, sayers);
    const saying = sayers.get(service) ?? [];
    if (saying.length === 0) return [];
    const candidates = this.list(pool);
    return saying
      .filter((report) => candidates.includes(report))
      .map((report) => `${report.node}: ${report[what]?.[service] ?? ''}`);
  }

  /** The candidates that may hold a seat, and say that they do. */
  listSeatHolders(pool: string, seat: number): readonly NodeReport[] {
    return this.#listOfSeat(this.listHolders(`${pool}/${seat}`), pool, seat);
  }

  /** Whether one of a pool's candidates does not say which addresses its interfaces have: its balancer is of an older version. */
  isAnyMute(pool: string): boolean {
    const known = this.#poolToMute.get(pool);
    const isAny = known ?? this.list(pool).some(({ announced }) => announced === undefined);
    if (known === undefined) this.#poolToMute.set(pool, isAny);
    return isAny;
  }

  /** Those of some nodes that may hold a seat. While the pool has no seats, any candidate may. */
  #listOfSeat(reports: readonly NodeReport[], pool: string, seat: number): readonly NodeReport[] {
    if (reports.length === 0) return [];
    const nodes = this.#pools.get(pool)?.status?.seats?.find(({ index }) => index === seat)?.nodes;
    const candidates = this.list(pool);
    return reports.filter((one) => candidates.includes(one) && nodes?.includes(one.node) !== false);
  }

  /** A Lease whose Node is gone, and that nobody was heard to renew, is one that was left behind. */
  #listSurelyLiving(): readonly NodeReport[] {
    this.#surelyLiving ??= [...this.#reports.values()].filter(
      ({ node }) => this.#nodes.has(node) || this.#leases.get(toLeaseName(node))?.isProven !== false,
    );
    return this.#surelyLiving;
  }

  #listAnew(pool: AddressPool | undefined): NodeReport[] {
    if (pool === undefined) return [];
    return [...this.#reports.values()].filter(({ node: name, mode }) => {
      const node = this.#nodes.get(name);
      return mode !== 'none' && node !== undefined && mayHold(pool, node);
    });
  }
}

/** By texts that reports have; in the order of the nodes' names. */
function groupBy(
  reports: readonly NodeReport[],
  list: (report: NodeReport) => readonly string[],
): Map<string, NodeReport[]> {
  const textToReports = new Map<string, NodeReport[]>();
  for (const report of reports.toSorted((one, other) => (one.node < other.node ? -1 : 1)))
    for (const text of new Set(list(report))) {
      const known = textToReports.get(text);
      if (known === undefined) textToReports.set(text, [report]);
      else known.push(report);
    }
  return textToReports;
}

function measure(reports: readonly NodeReport[]): Progress {
  return {
    virtualips: findOldest(reports, 'virtualips'),
    services: findOldest(reports, 'services'),
    earlyslices: findOldest(reports.filter(mayFollowEarly), 'earlyslices'),
  };
}

function findOldest(reports: readonly NodeReport[], kind: ReportedKind): bigint | null {
  const versions = reports.map(({ programmed }) => toVersion(programmed[kind]));
  return versions.reduce(
    (oldest, version) => (oldest === null || version === null ? null : min(oldest, version)),
    versions[0] ?? null,
  );
}

/** Versions of one kind are numbers (Kubernetes, KEP 5504); null for what is none. */
function toVersion(text: string | undefined): bigint | null {
  return text !== undefined && /^\d+$/.test(text) ? BigInt(text) : null;
}

function min(one: bigint, other: bigint): bigint {
  return one < other ? one : other;
}

/** Whether a node says that all addresses of the seats it holds are on its interfaces, up to a version of VirtualIPs. */
export function hasAnnounced({ announced }: NodeReport, version: string): boolean {
  return isReached(toVersion(announced), 1, version);
}

function isReached(oldest: bigint | null, nodes: number, version: string): boolean {
  if (nodes === 0) return true;
  const wanted = toVersion(version);
  return oldest !== null && wanted !== null && oldest >= wanted;
}
