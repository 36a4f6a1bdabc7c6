import { type Family } from '../../address/address.ts';
import { type IptablesDialect, type iptablesTables } from '../../kernel/port.ts';

/** One of the tables vipnat reads. */
export type TableName = (typeof iptablesTables)[number];

/** Chain name to its rules, in order. A rule is its text as iptables-save prints it, without `-A CHAIN `. */
export type Table = ReadonlyMap<string, readonly string[]>;

/** One backend's tables of one family. A table that does not exist is absent. */
export interface Ruleset {
  readonly family: Family;
  readonly dialect: IptablesDialect;
  readonly tables: ReadonlyMap<TableName, Table>;
  /** What happens in filter FORWARD to packets that no rule decides about; null without that chain. */
  readonly forwardPolicy: string | null;
  /** Tables that may be there and could not be read: nothing is known of them, so nothing is written to them. */
  readonly unread: readonly TableName[];
  /** About how many rules of others are in chains that were not read, see KernelQuery; none when left out. */
  readonly unlistedRules?: number;
}
