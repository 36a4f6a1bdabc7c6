import { type Family } from '../../address/address.ts';

/** What our table of one family holds; null when there is none. */
export interface NftRuleset {
  readonly family: Family;
  readonly dialect: 'nftables';
  readonly table: SeenNftTable | null;
}

/** What a table of nftables holds, or a part of it. */
export interface NftTable {
  readonly sets: ReadonlyMap<string, NftSet>;
  readonly chains: ReadonlyMap<string, NftChain>;
}

/** The same as nft prints it (`-n`, so numbers for names). */
export interface SeenNftTable extends NftTable {
  /** What is set for the whole table: `dormant` switches it off. Empty as we write it. */
  readonly flags: string;
  /** Objects of any other kind, or of a name that nft's language has no word for, each by its kind and name. */
  readonly others: readonly string[];
}

/** A set or a map. */
export interface NftSet {
  readonly kind: 'set' | 'map';
  /** What it is declared as, with `; ` between statements: `type ipv4_addr; flags interval`. */
  readonly declaration: string;
  /** Key to value; the values of a set are empty. Elements that the kernel adds or removes itself are left out. */
  readonly elements: ReadonlyMap<string, string>;
}

/** A chain. */
export interface NftChain {
  /** `type nat hook prerouting priority -105; policy accept;`; null for a chain that others jump to. */
  readonly hook: string | null;
  /** In order. */
  readonly rules: readonly string[];
}

/** A table with nothing in it. */
export const emptyTable: NftTable = { sets: new Map(), chains: new Map() };
