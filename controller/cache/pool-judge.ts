import { parseAddress } from '../../lib/address/address.ts';
import { type AddressPool } from '../../lib/services/objects.ts';
import { contains, formatRange, overlap } from '../../lib/services/ranges.ts';
import { type JudgedPool, judgePools, type ReservedRange } from './judge-pools.ts';
import { listDiffering } from './multi-map.ts';

/** What others have, by where that is known from. One change costs what it changes. */
export class Reservations<T> {
  readonly #toText: (value: T) => string;
  readonly #sourceToValues = new Map<string, ReadonlyMap<string, T>>();

  /** Two values with the same text are the same. */
  constructor(toText: (value: T) => string) {
    this.#toText = toText;
  }

  /** What a source says now, in place of what it said before. Answers what came and what went. One that says nothing is forgotten. */
  put(source: string, values: Iterable<T>): readonly T[] {
    const before = this.#sourceToValues.get(source) ?? new Map<string, T>();
    const after = new Map([...values].map((value) => [this.#toText(value), value]));
    if (after.size === 0) this.#sourceToValues.delete(source);
    else this.#sourceToValues.set(source, after);
    return listDiffering(before.keys(), after.keys()).flatMap(
      (text) => after.get(text) ?? before.get(text) ?? [],
    );
  }

  /** All of them. */
  *[Symbol.iterator](): Generator<T> {
    for (const values of this.#sourceToValues.values()) yield* values.values();
  }
}

/** All pools as they are judged, beside what others have. Each is judged when somebody asks: a burst of changes costs one look. */
export class PoolJudge {
  readonly #pools: ReadonlyMap<string, AddressPool>;
  readonly #reservations = new Reservations<ReservedRange>(
    ({ range, owner }) => `${formatRange(range)} ${owner}`,
  );
  /** Null: something changed since it was made. */
  #judged: ReadonlyMap<string, JudgedPool> | null = null;

  /** It looks at the map as it is at each question. */
  constructor(pools: ReadonlyMap<string, AddressPool>) {
    this.#pools = pools;
  }

  /** By their names. */
  get judged(): ReadonlyMap<string, JudgedPool> {
    this.#judged ??= judgePools(this.#pools.values(), this.#reservations);
    return this.#judged;
  }

  /** A pool has changed. */
  reset(): void {
    this.#judged = null;
  }

  /** What a source says that others have. Answers whether a pool has an address of what is different now. */
  reserve(source: string, ranges: readonly ReservedRange[]): boolean {
    const changed = this.#reservations.put(source, ranges);
    const isTouched = [...this.judged.values()].some((pool) =>
      pool.ranges.some((own) => changed.some(({ range }) => overlap(own, range))),
    );
    if (isTouched) this.reset();
    return isTouched;
  }
}

/** The names of the pools that have one of some addresses. */
export function findPoolsOf(judged: ReadonlyMap<string, JudgedPool>, texts: readonly string[]): string[] {
  const addresses = texts.map(parseAddress).filter((address) => address !== null);
  return [...judged]
    .filter(([, { ranges }]) => ranges.some((range) => addresses.some((address) => contains(range, address))))
    .map(([name]) => name);
}
