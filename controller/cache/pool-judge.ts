import { parseAddress } from '../../lib/address/address.ts';
import { type AddressPool } from '../../lib/services/objects.ts';
import { contains, formatRange, overlap } from '../../lib/services/ranges.ts';
import { type JudgedPool, judgePools, type ReservedRange } from './judge-pools.ts';
import { put } from './multi-map.ts';

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
