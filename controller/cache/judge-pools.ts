import { parseAddress } from '../../lib/address/address.ts';
import { parseGoDuration } from '../../lib/services/go-duration.ts';
import { findSelectorProblem } from '../../lib/services/label-selector.ts';
import { type AddressPool } from '../../lib/services/objects.ts';
import {
  type AddressRange,
  contains,
  formatRange,
  mergeRanges,
  overlap,
  parseRange,
} from '../../lib/services/ranges.ts';
import { put } from './multi-map.ts';

/** Why nothing is given of a pool. Published, as the reason of its condition `Accepted`. */
export type PoolRefusalReason =
  | 'AddressesMalformed'
  | 'AddressesNotUnicast'
  | 'SelectorMalformed'
  | 'DurationMalformed'
  | 'PoolsOverlap'
  | 'AddressesReserved'
  | 'Deleted';

/** A reason, and what is said of it. */
export interface PoolRefusal {
  readonly reason: PoolRefusalReason;
  readonly message: string;
}

/** A pool as it is used. */
export interface JudgedPool {
  readonly pool: AddressPool;
  /** Merged, in order. Without those that could not be read. */
  readonly ranges: readonly AddressRange[];
  readonly reuseAfterMs: number;
  /** Null: addresses are given of it. Otherwise those that were given stay, and no more are. */
  readonly refusal: PoolRefusal | null;
  /** Its addresses that Services have, or that are anchors, and that Nodes report as their own: `10.0.9.10 (the node w1)`. */
  readonly misreported: readonly string[];
}

/** Addresses that no pool may give. */
export interface ReservedRange {
  readonly range: AddressRange;
  /** For people: `the node master-1`, `the API's virtual IP`. */
  readonly owner: string;
  /** It is one address, and a Node reports it as its own. keepalived may have put it there. */
  readonly isReported?: true;
}

const defaultReuseMs = 60_000;

/**
 * Judges all pools together. Of two that overlap the younger one is refused. `isOurs` says of an address whether a Service has it: a Node that
 * reports such an address, or an anchor, takes nothing from the pool.
 */
export function judgePools(
  pools: Iterable<AddressPool>,
  reserved: Iterable<ReservedRange>,
  isOurs: (address: string) => boolean = () => false,
): Map<string, JudgedPool> {
  const inOrder = [...pools].sort(compareAge);
  const { own, foreign } = separate([...reserved], isOurs);
  const judged = new Map<string, JudgedPool>();
  for (const pool of inOrder) {
    const ranges = mergeRanges(pool.spec.addresses.map(parseRange).filter((range) => range !== null));
    const older = [...judged.values()];
    const refusal =
      findOwnProblem(pool, ranges) ?? findOverlap(ranges, older) ?? findReserved(ranges, foreign);
    const reuseAfterMs = parseGoDuration(pool.spec.reuseAfter) ?? defaultReuseMs;
    const misreported = own.filter(({ range }) => ranges.some((each) => overlap(each, range))).map(describe);
    judged.set(pool.metadata.name, { pool, ranges, reuseAfterMs, refusal, misreported });
  }
  return judged;
}

/** Addresses that are ours although Nodes report them, and those of others. */
function separate(
  reserved: readonly ReservedRange[],
  isOurs: (address: string) => boolean,
): { readonly own: readonly ReservedRange[]; readonly foreign: readonly ReservedRange[] } {
  const isOwn = ({ range, isReported }: ReservedRange) => isReported === true && isOurs(formatRange(range));
  const { own = [], foreign = [] } = Object.groupBy(reserved, (one) => (isOwn(one) ? 'own' : 'foreign'));
  return { own, foreign };
}

function describe({ range, owner }: ReservedRange): string {
  return `${formatRange(range)} (${owner})`;
}

/** The older pool first. */
export function compareAge({ metadata: one }: AddressPool, { metadata: other }: AddressPool): number {
  const [a, b] = [one, other].map(({ creationTimestamp, name }) => `${creationTimestamp ?? ''} ${name}`);
  return (a ?? '') < (b ?? '') ? -1 : 1;
}

function findOwnProblem(pool: AddressPool, ranges: readonly AddressRange[]): PoolRefusal | null {
  const { spec, metadata } = pool;
  if (typeof metadata.deletionTimestamp === 'string')
    return {
      reason: 'Deleted',
      message: 'The pool is being deleted. It stays until no Service has an address of it.',
    };
  const malformed = spec.addresses.find((text) => parseRange(text) === null);
  if (malformed !== undefined) {
    const message = `"${malformed}" is not a range: FIRST-LAST, a CIDR without bits of a host, or one address.`;
    return { reason: 'AddressesMalformed', message };
  }
  return findForeignScope(ranges) ?? findSelectors(spec) ?? findDurations(spec);
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
]
  .map(parseRange)
  .filter((range) => range !== null);

function findSelectors(spec: AddressPool['spec']): PoolRefusal | null {
  for (const name of ['serviceSelector', 'namespaceSelector', 'nodeSelector'] as const) {
    const problem = findSelectorProblem(spec[name]);
    if (problem !== null) return { reason: 'SelectorMalformed', message: `${name}: ${problem}.` };
  }
  return null;
}

function findDurations(spec: AddressPool['spec']): PoolRefusal | null {
  for (const name of ['advert', 'reuseAfter'] as const) {
    if (parseGoDuration(spec[name]) === null)
      return {
        reason: 'DurationMalformed',
        message: `${name}: "${spec[name]}" is not a duration like 300ms.`,
      };
  }
  return null;
}

function findOverlap(ranges: readonly AddressRange[], older: readonly JudgedPool[]): PoolRefusal | null {
  const other = older.find((each) =>
    each.ranges.some((theirs) => ranges.some((own) => overlap(own, theirs))),
  );
  return other === undefined
    ? null
    : {
        reason: 'PoolsOverlap',
        message: `The pool ${other.pool.metadata.name}, which is older, has some of the same addresses.`,
      };
}

function findReserved(
  ranges: readonly AddressRange[],
  reserved: readonly ReservedRange[],
): PoolRefusal | null {
  const found = reserved.find(({ range }) => ranges.some((own) => overlap(own, range)));
  return found === undefined
    ? null
    : { reason: 'AddressesReserved', message: `${formatRange(found.range)} belongs to ${found.owner}.` };
}

/** One address as a range; null when the text is none. */
export function reserveAddress(text: string, owner: string): ReservedRange | null {
  const range = parseAddress(text) === null ? null : parseRange(text);
  return range === null ? null : { range, owner };
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

  /** All of them. */
  *[Symbol.iterator](): Generator<T> {
    for (const values of this.#sourceToValues.values()) yield* values.values();
  }
}

/** Those of one that another one has not. */
function listMissing<T>(one: ReadonlyMap<string, T>, other: ReadonlyMap<string, T>): readonly T[] {
  return [...one].filter(([text]) => !other.has(text)).map(([, value]) => value);
}

/** All pools as they are judged, beside what others have. Each is judged when somebody asks: a burst of changes costs one look. */
export class PoolJudge {
  readonly #pools: ReadonlyMap<string, AddressPool>;
  readonly #isOurs: (address: string) => boolean;
  /** Addresses to how many Nodes report them. */
  readonly #reported = new Map<string, number>();
  readonly #reservations = new Reservations<ReservedRange>(
    ({ range, owner }) => `${formatRange(range)} ${owner}`,
  );
  /** Null: something changed since it was made. */
  #judged: ReadonlyMap<string, JudgedPool> | null = null;

  /** It looks at the map as it is at each question. `isOurs`: see `judgePools`. */
  constructor(pools: ReadonlyMap<string, AddressPool>, isOurs: (address: string) => boolean) {
    this.#pools = pools;
    this.#isOurs = isOurs;
  }

  /** By their names. */
  get judged(): ReadonlyMap<string, JudgedPool> {
    this.#judged ??= judgePools(this.#pools.values(), this.#reservations, this.#isOurs);
    return this.#judged;
  }

  /** A pool has changed. */
  reset(): void {
    this.#judged = null;
  }

  /** What a source says that others have. Answers whether a pool has an address of what is different now. */
  reserve(source: string, ranges: readonly ReservedRange[]): boolean {
    const { came, went } = this.#reservations.put(source, ranges);
    this.#count(went, -1);
    this.#count(came, 1);
    const changed = [...went, ...came];
    const isTouched = [...this.judged.values()].some((pool) =>
      pool.ranges.some((own) => changed.some(({ range }) => overlap(own, range))),
    );
    if (isTouched) this.reset();
    return isTouched;
  }

  /** A Service has an address from now on, or no longer. Answers whether pools are judged by that: a Node reports it as its own. */
  touch(address: string): boolean {
    const isTouched = this.#reported.has(address);
    if (isTouched) this.reset();
    return isTouched;
  }

  #count(ranges: readonly ReservedRange[], by: 1 | -1): void {
    for (const { range } of ranges.filter(({ isReported }) => isReported)) {
      const text = formatRange(range);
      const count = (this.#reported.get(text) ?? 0) + by;
      put(this.#reported, text, count === 0 ? null : count);
    }
  }
}

/** The names of the pools that have one of some addresses. */
export function findPoolsOf(judged: ReadonlyMap<string, JudgedPool>, texts: readonly string[]): string[] {
  const addresses = texts.map(parseAddress).filter((address) => address !== null);
  return [...judged]
    .filter(([, { ranges }]) => ranges.some((range) => addresses.some((address) => contains(range, address))))
    .map(([name]) => name);
}
