import { type Family } from '../../address/address.ts';
import { type Backend } from '../../kernel/port.ts';

/** The tables vipnat reads; it writes to nat and filter only. */
export type TableName = 'nat' | 'filter' | 'mangle';

/** Chain name to its rules, in order. A rule is its text as iptables-save prints it, without `-A CHAIN `. */
export type Table = ReadonlyMap<string, readonly string[]>;

/** One backend's tables of one family. A table that does not exist is absent. */
export interface Ruleset {
  readonly family: Family;
  readonly backend: Backend;
  readonly tables: ReadonlyMap<TableName, Table>;
  /** What happens in filter FORWARD to packets that no rule decides about; null without that chain. */
  readonly forwardPolicy: string | null;
}
