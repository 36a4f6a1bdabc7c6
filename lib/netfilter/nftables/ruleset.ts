import { type Family } from '../../address/address.ts';

/** What our table of one family holds; null when there is none. */
export interface NftRuleset {
  readonly family: Family;
  readonly dialect: 'nftables';
  readonly table: NftTable | null;
}

/** A table, as nft prints it (`-n`, so numbers for names) or as it is written. */
export interface NftTable {
  /** What is set for the whole table: `dormant` switches it off. Empty as we write it. */
  readonly flags: string;
  /** Set name to what it is declared as, without its elements: `type ipv4_addr; size 65535; …`. */
  readonly sets: ReadonlyMap<string, string>;
  readonly chains: ReadonlyMap<string, NftChain>;
  /** Objects of any other kind, or of a name that nft's language has no word for, each by its kind and name. */
  readonly others: readonly string[];
}

/** A chain. */
export interface NftChain {
  /** `type nat hook prerouting priority -105; policy accept;`; null for a chain that others jump to. */
  readonly hook: string | null;
  /** In order. */
  readonly rules: readonly string[];
}
