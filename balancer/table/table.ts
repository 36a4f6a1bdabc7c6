import { nameTable } from '../../lib/services/balancer-table.ts';
import { type Family } from '../../lib/address/address.ts';
import { readNftTable } from '../../lib/netfilter/nftables/parse.ts';
import { type NftSet, type NftTable } from '../../lib/netfilter/nftables/ruleset.ts';

/** Reads what `nft -n list table` printed of it; null for no table, and for one that holds what no balancer writes: it can only be replaced. */
export function readTable(text: string, family: Family): NftTable | null {
  const table = readNftTable(text, nameTable(family));
  return table === null || table.flags !== '' || table.others.length > 0 ? null : table;
}

/** One table with the objects of all. A set that several have gets the elements of all. */
export function mergeTables(tables: readonly NftTable[]): NftTable {
  const sets = new Map<string, NftSet & { readonly elements: Map<string, string> }>();
  const taken = new Set<NftSet>();
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
