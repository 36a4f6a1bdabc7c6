import { type Family } from '../../lib/address/address.ts';

/** A set or a map of nftables. */
export interface TableSet {
  readonly kind: 'set' | 'map';
  /** What it is declared as, with `; ` between statements: `type ipv4_addr; flags interval`. */
  readonly declaration: string;
  /** Key to value; the values of a set are empty. Elements that the kernel adds or removes itself are left out. */
  readonly elements: ReadonlyMap<string, string>;
}

/** A chain of nftables. */
export interface TableChain {
  /** `type nat hook prerouting priority -105; policy accept;`; null for a chain that others go to. */
  readonly hook: string | null;
  /** In order, as `nft -n` prints them. */
  readonly rules: readonly string[];
}

/** What the balancer's table of one family holds, or the part of it that is one Service's. */
export interface Table {
  readonly sets: ReadonlyMap<string, TableSet>;
  readonly chains: ReadonlyMap<string, TableChain>;
}

/** A table with nothing in it. */
export const emptyTable: Table = { sets: new Map(), chains: new Map() };

/** The name of the balancer's table. Whatever it holds is ours: nobody else writes there. */
export const tableName = 'vipnat-lb';

/** `ip vipnat-lb` or `ip6 vipnat-lb`. */
export function nameTable(family: Family): string {
  return `${toWord(family)} ${tableName}`;
}

/** How nft calls a family: `ip` or `ip6`. */
export function toWord(family: Family): 'ip' | 'ip6' {
  return family === 'ipv6' ? 'ip6' : 'ip';
}

/** One table with the objects of all. A set that several have gets the elements of all. */
export function mergeTables(tables: readonly Table[]): Table {
  const sets = new Map<string, TableSet & { readonly elements: Map<string, string> }>();
  const taken = new Set<TableSet>();
  for (const [name, set] of tables.flatMap((table) => [...table.sets])) {
    // Of long sets that all ports of a Service have.
    if (taken.has(set)) continue;
    taken.add(set);
    const known = sets.get(name) ?? { ...set, elements: new Map<string, string>() };
    for (const [key, value] of set.elements) known.elements.set(key, value);
    sets.set(name, known);
  }
  return { sets, chains: new Map(tables.flatMap((table) => [...table.chains])) };
}
