import { parseAddress } from '../../lib/address/address.ts';
import { type AddressPool } from '../../lib/services/objects.ts';
import { contains, overlap } from '../../lib/services/ranges.ts';
import { type JudgedPool, judgePools, type ReservedRange } from './judge-pools.ts';
import { Reservations } from './reservations.ts';

/** All pools as they are judged, beside what others have. Each is judged when somebody asks: a burst of changes costs one look. */
export class PoolJudge {
  readonly #pools: ReadonlyMap<string, AddressPool>;
  readonly #isOurs: (address: string) => boolean;
  readonly #reservations = new Reservations();
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
    const changed = this.#reservations.put(source, ranges);
    const isTouched = [...this.judged.values()].some((pool) =>
      pool.ranges.some((own) => changed.some(({ range }) => overlap(own, range))),
    );
    if (isTouched) this.reset();
    return isTouched;
  }

  /** A Service has an address from now on, or no longer. Answers whether pools are judged by that: a Node reports it as its own. */
  touch(address: string): boolean {
    const isTouched = this.#reservations.isReported(address);
    if (isTouched) this.reset();
    return isTouched;
  }

  /** The names of the pools that have one of some addresses. */
  findPoolsOf(texts: readonly string[]): string[] {
    const addresses = texts.map(parseAddress).filter((address) => address !== null);
    return [...this.judged]
      .filter(([, { ranges }]) =>
        ranges.some((range) => addresses.some((address) => contains(range, address))),
      )
      .map(([name]) => name);
  }
}
