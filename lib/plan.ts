import type { Family } from './net.ts';
import {
  type IptablesDialect,
  type ownTable,
  type Transaction,
  familyToNft,
  toolName,
} from './kernel/port.ts';
import type { writtenTables } from './iptables/vip-rules.ts';
import type { Drift } from './dialect.ts';
import type { Change } from './iptables/diff.ts';
import type { NftChange } from './nft/diff.ts';

/** The changes to one table of iptables, in one dialect and family. */
export interface IptablesPlan {
  readonly family: Family;
  readonly dialect: IptablesDialect;
  readonly table: (typeof writtenTables)[number];
  readonly drift: readonly Drift[];
  readonly changes: readonly Change[];
}

/** The changes to vipnat's table of nftables, in one family. */
export interface NftPlan {
  readonly family: Family;
  readonly dialect: 'nftables';
  readonly table: typeof ownTable;
  readonly drift: readonly Drift[];
  readonly changes: readonly NftChange[];
}

/** The changes to one table. */
export type TablePlan = IptablesPlan | NftPlan;

/** What to write, and why. In sync when there are no transactions. */
export interface Plan {
  readonly tables: readonly TablePlan[];
  readonly transactions: readonly Transaction[];
}

/** All drift of a plan, each sentence with its table and tool: `PREROUTING has no jump to VIPNAT (nat, iptables-nft)`. */
export function describeDrift({ tables }: Plan): string[] {
  return tables.flatMap((table) => table.drift.map(({ message }) => `${message} (${describeTable(table)})`));
}

/** `nat, iptables-nft`, or `ip vipnat, nft`. */
export function describeTable({ family, dialect, table }: TablePlan): string {
  const name = dialect === 'nftables' ? `${familyToNft[family]} ${table}` : table;
  return `${name}, ${toolName(family, dialect)}`;
}
