import { type Address, parseAddress } from '../../lib/address/address.ts';
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { isSelected } from '../../lib/services/label-selector.ts';
import { contains } from '../../lib/services/ranges.ts';
import { type Service } from '../../lib/services/services.ts';
import { findPoolsOf, type JudgedPool, type PoolJudge } from './judge-pools.ts';
import { isSameList, listDiffering } from './multi-map.ts';
import { type Known } from './known.ts';

/** Addresses of pools that Services name for themselves: no other Service gets them. */
export interface KeptBack {
  /** A Service that names an address of a pool, other than this one; null where none does. */
  find(pool: string, address: Address, own: string): string | null;
  /** All such addresses of a pool, in canonical text. */
  listAddresses(pool: string): readonly string[];
  /** `ADDRESS of NAMESPACE/NAME` of each such address of a pool, with one of the Services that name it; in order. */
  list(pool: string): readonly string[];
}

/** What is kept back of one pool. */
interface OfPool {
  /** Addresses to the first two Services that name them. */
  readonly claimers: ReadonlyMap<string, readonly string[]>;
  /** See `listAddresses`: a list of its own, as a look that reads only its length is to cost nothing. */
  readonly addresses: readonly string[];
  /** See `list`. */
  readonly texts: readonly string[];
}

/**
 * Keeps who names which address. A Service that a pool does not select keeps nothing of it back: it gets nothing of it, either. Which these are
 * is found out when somebody asks, once for all questions between two changes.
 */
export class ClaimStore implements KeptBack {
  readonly #known: Pick<Known, 'services' | 'namespaces' | 'addressToClaimers'>;
  readonly #judge: PoolJudge;
  /** Null: something changed since it was made. */
  #poolToClaimed: ReadonlyMap<string, OfPool> | null = null;

  /** It looks at the maps as they are at each question. */
  constructor(known: Pick<Known, 'services' | 'namespaces' | 'addressToClaimers'>, judge: PoolJudge) {
    this.#known = known;
    this.#judge = judge;
  }

  /** A Service, of any type, has changed, and named these addresses before it names those. Answers the pools for which that is news. */
  changeService(
    { before, after }: Change<Service>,
    old: readonly string[],
    now: readonly string[],
  ): readonly string[] {
    const areSame = isSameList(old, now);
    if (areSame && (now.length === 0 || toLabels(before) === toLabels(after))) return [];
    const pools = findPoolsOf(this.#judge.judged, areSame ? now : listDiffering(old, now));
    if (pools.length > 0) this.reset();
    return pools;
  }

  /** Pools or labels of namespaces have changed. */
  reset(): void {
    this.#poolToClaimed = null;
  }

  find(pool: string, { text }: Address, own: string): string | null {
    return (
      this.#getPool(pool)
        ?.claimers.get(text)
        ?.find((key) => key !== own) ?? null
    );
  }

  listAddresses(pool: string): readonly string[] {
    return this.#getPool(pool)?.addresses ?? [];
  }

  list(pool: string): readonly string[] {
    return this.#getPool(pool)?.texts ?? [];
  }

  #getPool(pool: string): OfPool | undefined {
    this.#poolToClaimed ??= new Map([...this.#judge.judged].map(([name, each]) => [name, this.#list(each)]));
    return this.#poolToClaimed.get(pool);
  }

  #list(pool: JudgedPool): OfPool {
    const claimers = new Map<string, readonly string[]>();
    for (const [text, keys] of this.#known.addressToClaimers) {
      const address = parseAddress(text);
      if (address === null || !pool.ranges.some((range) => contains(range, address))) continue;
      const selected = this.#listSelected(pool, keys);
      if (selected.length > 0) claimers.set(text, selected);
    }
    const texts = [...claimers].map(([text, [key = '']]) => `${text} of ${key}`).sort();
    return { claimers, addresses: [...claimers.keys()], texts };
  }

  /** Two at most: one of them may be who asks. */
  #listSelected({ pool: { spec } }: JudgedPool, keys: ReadonlySet<string>): string[] {
    const selected: string[] = [];
    for (const key of keys) {
      const metadata = this.#known.services.get(key)?.metadata;
      const ofNamespace = this.#known.namespaces.get(metadata?.namespace ?? '')?.metadata.labels;
      if (!isSelected(spec.serviceSelector, metadata?.labels)) continue;
      if (isSelected(spec.namespaceSelector, ofNamespace)) selected.push(key);
      if (selected.length === 2) break;
    }
    return selected;
  }
}

function toLabels(service: Service | null): string {
  return JSON.stringify(service?.metadata.labels ?? null);
}
