import type { NodeReport } from '../../lib/api/node.ts';
import { type Service, isForUs, parseGoDuration } from '../../lib/api/service.ts';
import {
  parseAddress,
  parseRange,
  type AddressRange,
  mergeRanges,
  overlap,
  formatRange,
  contains,
  type Address,
} from '../../lib/net.ts';
import { findVrid } from '../../lib/keepalived/read.ts';
import type { AddressPool } from '../../lib/api/vipnat.ts';
import {
  type Objects,
  type JudgedPool,
  type PoolRefusal,
  MultiMap,
  type Known,
  isNews,
  listDiffering,
  defaultReuseMs,
} from './known.ts';
import { findSelectorProblem, isForService } from '../../lib/api/endpoints.ts';
import type { Change } from '../../lib/kubernetes/informer.ts';
import { isDeepStrictEqual } from 'node:util';

/** Which addresses objects of the API have for others than vipnat's Services, by where the objects are known. */
export const sourceToReserved: {
  readonly [S in keyof Objects]?: (object: Objects[S]) => readonly ReservedRange[];
} = {
  /** A node's own addresses, and those of its pods. */
  nodes: ({ metadata: { name }, spec, status }) => [
    ...reserveAddresses(
      (status?.addresses ?? []).map(({ address }) => address),
      `the node ${name}`,
    ).map((reserved) => ({ ...reserved, isReported: true as const })),
    ...reserveRanges(spec?.podCIDRs ?? [spec?.podCIDR ?? ''], `the pods of the node ${name}`),
  ],
  /** ClusterIPs that Services get. */
  serviceCidrs: ({ metadata, spec }) => reserveRanges(spec?.cidrs ?? [], `the ServiceCIDR ${metadata.name}`),
  /** ClusterIPs that a Service has: where the API has no ServiceCIDRs, nothing else says so. */
  services: ({ metadata, spec }) => {
    const owner = `the Service ${metadata.namespace}/${metadata.name}, as its ClusterIP`;
    return reserveAddresses(spec.clusterIPs ?? [spec.clusterIP ?? ''], owner);
  },
  apiservers: ({ endpoints }) =>
    (endpoints ?? []).flatMap(({ addresses }) => reserveAddresses(addresses, 'an apiserver')),
  devices: ({ metadata, spec }) => reserveRanges(spec.addresses, `the LoadBalancerDevice ${metadata.name}`),
};

/** Virtual IPs of the API that a node's balancer has found in the rules there. */
export function listOfReport(report: Pick<NodeReport, 'apiVips'> | null): ReservedRange[] {
  return reserveAddresses(report?.apiVips ?? [], "the API's virtual IP");
}

/** Their VRIDs: keepalived of the API's virtual IPs sends adverts with them, unless they got others by hand. */
export function listApiVrids(report: Pick<NodeReport, 'apiVips'> | null): number[] {
  const addresses = (report?.apiVips ?? []).flatMap((text) => parseAddress(text) ?? []);
  return addresses.flatMap((address) => findVrid(address) ?? []);
}

/** More external IPs than anybody uses. An object has room for tens of thousands. */
const maxRequested = 64;

/**
 * Single addresses that a Service names for itself, in canonical text, each once: the `loadBalancerIP` of one that another load balancer
 * serves, and its external IPs, 64 together at most. Whoever may write a Service can name any address: so only these addresses are
 * excluded, and not their pool.
 */
export function listRequested(service: Service, isDefaultClass: boolean): string[] {
  const { externalIPs, loadBalancerIP, type } = service.spec;
  const isOthers = type === 'LoadBalancer' && !isForUs(service, isDefaultClass);
  const texts = [isOthers ? (loadBalancerIP ?? '') : '', ...(externalIPs ?? []).slice(0, maxRequested)];
  const addresses = texts.flatMap((text) => parseAddress(text)?.text ?? []);
  return [...new Set(addresses)].slice(0, maxRequested);
}

function reserveRanges(texts: readonly string[], owner: string): ReservedRange[] {
  return texts.flatMap((text) => parseRange(text) ?? []).map((range) => ({ range, owner }));
}

/** Those of the texts that are one address each, as ranges. */
export function reserveAddresses(texts: readonly string[], owner: string): ReservedRange[] {
  const addresses = texts.filter((text) => parseAddress(text) !== null);
  return reserveRanges(addresses, owner);
}

/** Addresses that no pool may give. */
export interface ReservedRange {
  readonly range: AddressRange;
  /** For people: `the node master-1`, `the API's virtual IP`. */
  readonly owner: string;
  /** It is one address, and a Node reports it as its own. keepalived may have put it there. */
  readonly isReported?: true;
}

/**
 * Judges all pools together. Of two that overlap the younger one is refused. `isOwnRange` says of an address whether a Service has it: a Node that
 * reports such an address, or an anchor, takes nothing from the pool.
 */
export function judgePools(
  pools: Iterable<AddressPool>,
  reserved: Iterable<ReservedRange>,
  isOwnRange: (address: string) => boolean = () => false,
): Map<string, JudgedPool> {
  const inOrder = [...pools].sort(compareAge);
  const isOwn = ({ range, isReported }: ReservedRange) =>
    isReported === true && isOwnRange(formatRange(range));
  const { own = [], foreign = [] } = Object.groupBy(reserved, (one) => (isOwn(one) ? 'own' : 'foreign'));
  const judged = new Map<string, JudgedPool>();
  for (const pool of inOrder) {
    const ranges = mergeRanges(pool.spec.addresses.flatMap((text) => parseRange(text) ?? []));
    const older = [...judged.values()];
    const refusal =
      findOwnProblem(pool, ranges) ?? findOverlap(ranges, older) ?? findReserved(ranges, foreign);
    const reuseAfterMs = parseGoDuration(pool.spec.reuseAfter) ?? defaultReuseMs;
    const misreported = own
      .filter(({ range }) => ranges.some((each) => overlap(each, range)))
      .map(({ range, owner }) => `${formatRange(range)} (${owner})`);
    judged.set(pool.metadata.name, { pool, ranges, reuseAfterMs, refusal, misreported });
  }
  return judged;
}

/** The older pool first. */
export function compareAge({ metadata: one }: AddressPool, { metadata: other }: AddressPool): number {
  const [a, b] = [one, other].map(({ creationTimestamp, name }) => `${creationTimestamp ?? ''} ${name}`);
  return (a ?? '') < (b ?? '') ? -1 : 1;
}

function findOwnProblem(pool: AddressPool, ranges: readonly AddressRange[]): PoolRefusal | null {
  const { spec, metadata } = pool;
  const stays = 'The pool is being deleted. It stays until no Service has an address of it.';
  if (typeof metadata.deletionTimestamp === 'string') return { reason: 'Deleted', message: stays };
  const malformed = spec.addresses.find((text) => parseRange(text) === null);
  if (malformed !== undefined) {
    const message = `"${malformed}" is not a range: FIRST-LAST, a CIDR without bits of a host, or one address.`;
    return { reason: 'AddressesMalformed', message };
  }
  return findForeignScope(ranges) ?? findMalformed(spec);
}

function findForeignScope(ranges: readonly AddressRange[]): PoolRefusal | null {
  const found = ranges.find((range) => specialRanges.some((special) => overlap(range, special)));
  if (found === undefined) return null;
  const kinds = 'loopback, link-local, multicast or unspecified ones';
  const message = `${formatRange(found)} has addresses that no host can have: ${kinds}.`;
  return { reason: 'AddressesNotUnicast', message };
}

const specialRanges = [
  '0.0.0.0/8',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '224.0.0.0/3',
  '::/127',
  '::ffff:0:0/96',
  'fe80::/10',
  'ff00::/8',
].flatMap((text) => parseRange(text) ?? []);

function findMalformed(spec: AddressPool['spec']): PoolRefusal | null {
  for (const name of ['serviceSelector', 'namespaceSelector', 'nodeSelector'] as const) {
    const problem = findSelectorProblem(spec[name]);
    if (problem !== null) return { reason: 'SelectorMalformed', message: `${name}: ${problem}.` };
  }
  for (const name of ['advert', 'garpInterval', 'reuseAfter'] as const) {
    const text = spec[name] ?? '60s';
    const message = `${name}: "${text}" is not a duration like 300ms.`;
    if (parseGoDuration(text) === null) return { reason: 'DurationMalformed', message };
  }
  return null;
}

function findOverlap(ranges: readonly AddressRange[], older: readonly JudgedPool[]): PoolRefusal | null {
  const other = older.find((each) => each.ranges.some((one) => ranges.some((own) => overlap(own, one))));
  if (other === undefined) return null;
  const message = `The pool ${other.pool.metadata.name}, which is older, has some of the same addresses.`;
  return { reason: 'PoolsOverlap', message };
}

function findReserved(ranges: readonly AddressRange[], all: readonly ReservedRange[]): PoolRefusal | null {
  const found = all.find(({ range }) => ranges.some((own) => overlap(own, range)));
  return found === undefined
    ? null
    : { reason: 'AddressesReserved', message: `${formatRange(found.range)} belongs to ${found.owner}.` };
}

/** What others have, by where that is known from. One change costs what it changes. */
export class Reservations<T> {
  readonly #toText: (value: T) => string;
  readonly #sourceToValues = new Map<string, ReadonlyMap<string, T>>();

  /** Two values with the same text are the same. */
  constructor(toText: (value: T) => string) {
    this.#toText = toText;
  }

  /** What a source says now, in place of what it said before. One that says nothing is forgotten. */
  put(source: string, values: Iterable<T>): { readonly came: readonly T[]; readonly went: readonly T[] } {
    const before = this.#sourceToValues.get(source) ?? new Map<string, T>();
    const after = new Map([...values].map((value) => [this.#toText(value), value]));
    if (after.size === 0) this.#sourceToValues.delete(source);
    else this.#sourceToValues.set(source, after);
    return { came: listMissing(after, before), went: listMissing(before, after) };
  }

  *[Symbol.iterator](): Generator<T> {
    for (const values of this.#sourceToValues.values()) yield* values.values();
  }
}

/** Those of one that another one has not. */
function listMissing<T>(one: ReadonlyMap<string, T>, other: ReadonlyMap<string, T>): readonly T[] {
  return [...one].filter(([text]) => !other.has(text)).map(([, value]) => value);
}

/** All pools as they are judged, compared with what others have. Each is judged when somebody asks: a burst of changes costs one judgement. */
export class PoolJudge {
  readonly #pools: ReadonlyMap<string, AddressPool>;
  readonly #isOwnRange: (address: string) => boolean;
  /** Addresses to the sources that have them of Nodes. */
  readonly #reported = new MultiMap();
  readonly #reservations = new Reservations<ReservedRange>(
    ({ range, owner }) => `${formatRange(range)} ${owner}`,
  );
  /** Null: something changed since it was made. */
  #judged: ReadonlyMap<string, JudgedPool> | null = null;

  /** It reads the map as it is at each question. `isOwnRange`: see `judgePools`. */
  constructor(pools: ReadonlyMap<string, AddressPool>, isOwnRange: (address: string) => boolean) {
    this.#pools = pools;
    this.#isOwnRange = isOwnRange;
  }

  get judged(): ReadonlyMap<string, JudgedPool> {
    this.#judged ??= judgePools(this.#pools.values(), this.#reservations, this.#isOwnRange);
    return this.#judged;
  }

  reset(): void {
    this.#judged = null;
  }

  /** What a source says that others have. Answers whether a pool has an address of what is different now. */
  reserve(source: string, ranges: readonly ReservedRange[]): boolean {
    const { came, went } = this.#reservations.put(source, ranges);
    this.#reported.move(source, listReported(went), listReported(came));
    const changed = [...went, ...came];
    const isTouched = [...this.judged.values()].some((pool) =>
      pool.ranges.some((own) => changed.some(({ range }) => overlap(own, range))),
    );
    if (isTouched) this.reset();
    return isTouched;
  }

  /** A Service has an address from now on, or no longer. Answers whether pools are judged by that: a Node reports it as its own. */
  touch(address: string): boolean {
    const isTouched = this.#reported.map.has(address);
    if (isTouched) this.reset();
    return isTouched;
  }
}

function listReported(ranges: readonly ReservedRange[]): string[] {
  return ranges.flatMap(({ range, isReported }) => (isReported === true ? [formatRange(range)] : []));
}

/** The names of the pools that have one of some addresses. */
export function findPoolsOf(judged: ReadonlyMap<string, JudgedPool>, texts: readonly string[]): string[] {
  const addresses = texts.flatMap((text) => parseAddress(text) ?? []);
  return [...judged]
    .filter(([, { ranges }]) => ranges.some((range) => addresses.some((address) => contains(range, address))))
    .map(([name]) => name);
}

/** What is excluded of one pool. */
interface OfPool {
  /** Addresses to the first two Services that name them. */
  readonly requesters: ReadonlyMap<string, readonly string[]>;
  /** See `listAddresses`: a list of its own, as reading only its length is to cost nothing. */
  readonly addresses: readonly string[];
  readonly texts: readonly string[];
}

/**
 * Addresses of pools that Services name for themselves: no other Service gets them. A Service that a pool does not select keeps nothing of it back: it gets nothing of it, either. Which these are
 * is found out when somebody asks, once for all questions between two changes.
 */
export class ExclusionStore {
  readonly #known: Pick<Known, 'services' | 'namespaces' | 'addressToRequesters'>;
  readonly #judge: PoolJudge;
  /** Null: something changed since it was made. */
  #poolToExcluded: ReadonlyMap<string, OfPool> | null = null;

  /** It reads the maps as they are at each question. */
  constructor(known: Pick<Known, 'services' | 'namespaces' | 'addressToRequesters'>, judge: PoolJudge) {
    this.#known = known;
    this.#judge = judge;
  }

  /** A Service, of any type, has changed, and named these addresses before it names those. Answers the pools for which that is news. */
  changeService(change: Change<Service>, old: readonly string[], now: readonly string[]): readonly string[] {
    const areSame = isDeepStrictEqual(old, now);
    if (areSame && (now.length === 0 || !isNews(change, ({ metadata }) => metadata.labels))) return [];
    const pools = findPoolsOf(this.#judge.judged, areSame ? now : listDiffering(old, now));
    if (pools.length > 0) this.reset();
    return pools;
  }

  /** Pools or labels of namespaces have changed. */
  reset(): void {
    this.#poolToExcluded = null;
  }

  /** A Service that names an address of a pool, other than this one; null where none does. */
  find(pool: string, { text }: Address, own: string): string | null {
    const requesters = this.#getPool(pool)?.requesters.get(text);
    return requesters?.find((key) => key !== own) ?? null;
  }

  /** All such addresses of a pool, in canonical text. */
  listAddresses(pool: string): readonly string[] {
    return this.#getPool(pool)?.addresses ?? [];
  }

  /** `ADDRESS of NAMESPACE/NAME` of each such address of a pool, with one of the Services that name it; in order. */
  list(pool: string): readonly string[] {
    return this.#getPool(pool)?.texts ?? [];
  }

  #getPool(pool: string): OfPool | undefined {
    this.#poolToExcluded ??= new Map([...this.#judge.judged].map(([name, each]) => [name, this.#list(each)]));
    return this.#poolToExcluded.get(pool);
  }

  #list(pool: JudgedPool): OfPool {
    const requesters = new Map<string, readonly string[]>();
    for (const [text, keys] of this.#known.addressToRequesters) {
      const address = parseAddress(text);
      if (address === null || !pool.ranges.some((range) => contains(range, address))) continue;
      const selected = this.#listSelected(pool, keys);
      if (selected.length > 0) requesters.set(text, selected);
    }
    const texts = [...requesters].map(([text, [key = '']]) => `${text} of ${key}`).sort();
    return { requesters, addresses: [...requesters.keys()], texts };
  }

  /** Two at most: one of them may be who asks. */
  #listSelected({ pool: { spec } }: JudgedPool, keys: ReadonlySet<string>): string[] {
    const selected: string[] = [];
    for (const key of keys) {
      const metadata = this.#known.services.get(key)?.metadata;
      const namespace = this.#known.namespaces.get(metadata?.namespace ?? '')?.metadata;
      if (isForService(spec, metadata?.labels, namespace)) selected.push(key);
      if (selected.length === 2) break;
    }
    return selected;
  }
}
