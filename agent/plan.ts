import { type Family, families } from '../lib/address/address.ts';
import { type Backend, type Transaction } from '../lib/kernel/port.ts';
import { type Change, toRestoreLines } from '../lib/netfilter/iptables/change.ts';
import { type KnowsPrint } from '../lib/netfilter/iptables/diff-chain.ts';
import { diffTable } from '../lib/netfilter/iptables/diff-table.ts';
import { type Drift } from '../lib/netfilter/iptables/drift.ts';
import { type Balance, renderTables, writtenTables } from '../lib/netfilter/iptables/render.ts';
import { toolName } from '../lib/kernel/tool-name.ts';
import { type Ruleset } from '../lib/netfilter/iptables/ruleset.ts';

/** What is wanted: the balances go into one backend; everything of ours elsewhere goes away. */
export interface Wanted {
  readonly backend: Backend;
  /** Of any family; none at all means clean-up. */
  readonly balances: readonly Balance[];
}

/** The changes to one table of one backend and family. */
export interface TablePlan {
  readonly family: Family;
  readonly backend: Backend;
  readonly table: (typeof writtenTables)[number];
  readonly drift: readonly Drift[];
  readonly changes: readonly Change[];
}

/** What to write, and why. In sync when there are no transactions. */
export interface Plan {
  readonly tables: readonly TablePlan[];
  readonly transactions: readonly Transaction[];
}

/** Whether a backend's tool is known to print a rule of ours in this way, see `diffOwnChain`. */
export type KnowsBackendPrint = (backend: Backend, id: string, printed: string) => boolean;

/**
 * Compares what is wanted with what was seen, for the rulesets that were read and no others (I1), and puts the
 * changes into one transaction per backend and family (I6). The wanted backend comes first, so that a change of
 * backend leaves no moment without rules. Pure and total: same input, same bytes (I3).
 */
export function plan(
  wanted: Wanted,
  seen: readonly Ruleset[],
  knowsPrint: KnowsBackendPrint = () => false,
): Plan {
  const ordered = [
    ...seen.filter(({ backend }) => backend === wanted.backend),
    ...seen.filter(({ backend }) => backend !== wanted.backend),
  ];
  const tables = ordered.flatMap((ruleset) =>
    planRuleset(ruleset, selectBalances(wanted, ruleset), (id, printed) =>
      knowsPrint(ruleset.backend, id, printed),
    ),
  );
  return { tables, transactions: toTransactions(tables) };
}

/** All drift of a plan, each sentence with its table and tool: `PREROUTING has no jump to VIPNAT (nat, iptables-nft)`. */
export function describeDrift({ tables }: Plan): string[] {
  return tables.flatMap(({ family, backend, table, drift }) =>
    drift.map(({ message }) => `${message} (${table}, ${toolName(family, backend)})`),
  );
}

function selectBalances(wanted: Wanted, { family, backend }: Ruleset): Balance[] {
  if (backend !== wanted.backend) return [];
  return wanted.balances.filter(({ vip }) => vip.family === family);
}

function planRuleset(ruleset: Ruleset, balances: readonly Balance[], knowsPrint: KnowsPrint): TablePlan[] {
  const { family, backend } = ruleset;
  const rendered = renderTables(family, balances);
  const context = { vips: balances.map(({ vip }) => vip), knowsPrint };
  return writtenTables
    .map((table) => ({
      family,
      backend,
      table,
      ...diffTable(rendered[table], ruleset.tables.get(table), context),
    }))
    .filter(({ changes }) => changes.length > 0);
}

function toTransactions(tables: readonly TablePlan[]): Transaction[] {
  const backendsInOrder = [...new Set(tables.map(({ backend }) => backend))];
  return backendsInOrder.flatMap((backend) =>
    families.flatMap((family) => {
      const parts = tables.filter((part) => part.backend === backend && part.family === family);
      if (parts.length === 0) return [];
      const lines = parts.flatMap(({ table, changes }) => toRestoreLines(table, changes));
      return [{ family, backend, input: `${lines.join('\n')}\n` }];
    }),
  );
}
