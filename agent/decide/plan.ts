import { type Dialect, ownTable, type Transaction } from '../../lib/kernel/port.ts';
import {
  type Balance,
  type IsKnownRendering,
  writtenTables,
  type Plan,
  type TablePlan,
  type NftPlan,
  type IptablesPlan,
} from '../../lib/dialect.ts';
import type { Ruleset } from '../../lib/iptables/rules.ts';
import { type NftRuleset, diffNftTable } from '../../lib/nft/table.ts';
import { type Endpoint, includesEndpoint, families } from '../../lib/net.ts';
import { removeVipsFromNft, renderNftTable, toTableBalance } from '../../lib/nft/vip-rules.ts';
import { readIptablesVips, removeVips, renderTables } from '../../lib/iptables/vip-rules.ts';
import { dropsForwarded, diffTable, toRestoreLines } from '../../lib/iptables/diff.ts';

/**
 * Compares what is wanted (the balances, of any family, go into one backend; everything of vipnat's elsewhere goes away) with what was
 * seen, for the tables that were read and no others (I1), and puts the changes into one transaction per dialect and family (I6). The
 * wanted dialect comes first, so that a change of backend leaves no moment without rules. Without any balance it is clean-up. Pure and
 * total: same input, same bytes (I3). `isKnownRendering` answers whether a backend's tool is known to print a rule of vipnat's as this
 * text, see `compareChain`.
 */
export function plan(
  wanted: { readonly dialect: Dialect; readonly balances: readonly Balance[] },
  seen: readonly (Ruleset | NftRuleset)[],
  isKnownRendering: (dialect: Dialect, id: string, printed: string) => boolean = () => false,
): Plan {
  const ordered = [
    ...seen.filter(({ dialect }) => dialect === wanted.dialect),
    ...seen.filter(({ dialect }) => dialect !== wanted.dialect),
  ];
  const tables = ordered.flatMap((ruleset): TablePlan[] => {
    const balances = wanted.balances.filter(({ vip }) => vip.family === ruleset.family);
    const knows: IsKnownRendering = (id, printed) => isKnownRendering(ruleset.dialect, id, printed);
    const isWanted = ruleset.dialect === wanted.dialect;
    return ruleset.dialect === 'nftables'
      ? planNft(ruleset, isWanted ? balances : [], knows)
      : planIptables(ruleset, { balances, isWanted }, knows);
  });
  return { tables, transactions: toTransactions(tables) };
}

/** What removes some VIPs from these rulesets; what others need, hooks too, stays. Pure and total. */
export function planRemoval(seen: readonly (Ruleset | NftRuleset)[], vips: readonly Endpoint[]): Plan {
  const tables = seen.flatMap((ruleset): TablePlan[] => {
    const { family } = ruleset;
    if (ruleset.dialect === 'nftables')
      return [{ family, dialect: 'nftables', table: ownTable, ...removeVipsFromNft(ruleset, vips) }];
    const { dialect } = ruleset;
    // What cannot be read still sends connections.
    const isLast =
      !ruleset.unread.includes('nat') &&
      readIptablesVips(ruleset).every((vip) => includesEndpoint(vips, vip));
    return writtenTables.map((table) => {
      const diff = removeVips(ruleset.tables.get(table) ?? new Map(), vips, isLast);
      return { family, dialect, table, ...diff };
    });
  });
  const changed = tables.filter(({ changes }) => changes.length > 0);
  return { tables: changed, transactions: toTransactions(changed) };
}

function planNft(
  { family, table: seen }: NftRuleset,
  balances: readonly Balance[],
  isKnownRendering: IsKnownRendering,
): NftPlan[] {
  const wanted = renderNftTable(family, balances.map(toTableBalance));
  const { drift, changes } = diffNftTable({ family, wanted, seen }, isKnownRendering);
  return changes.length === 0 ? [] : [{ family, dialect: 'nftables', table: ownTable, drift, changes }];
}

/** Where other software drops what passes, a rule of vipnat's accepts it, whichever backend translates (docs/adr/0013). */
function planIptables(
  ruleset: Ruleset,
  { balances, isWanted }: { readonly balances: readonly Balance[]; readonly isWanted: boolean },
  isKnownRendering: IsKnownRendering,
): IptablesPlan[] {
  const { family, dialect } = ruleset;
  const nothing = renderTables([]);
  const everything = renderTables(balances);
  const { filter } = renderTables(balances.map((balance) => ({ ...balance, apiservers: [] })));
  const elsewhere = dropsForwarded(ruleset) ? { ...nothing, filter } : nothing;
  const rendered = isWanted ? everything : elsewhere;
  const context = { ...ruleset, balances, isKnownRendering };
  return writtenTables
    .filter((table) => !ruleset.unread.includes(table))
    .map((table) => ({
      family,
      dialect,
      table,
      ...diffTable(rendered[table], ruleset.tables.get(table), context),
    }))
    .filter(({ changes }) => changes.length > 0);
}

function toTransactions(tables: readonly TablePlan[]): Transaction[] {
  const backendsInOrder = [...new Set(tables.map(({ dialect }) => dialect))];
  return backendsInOrder.flatMap((dialect) =>
    families.flatMap((family) => {
      const parts = tables.filter((part) => part.dialect === dialect && part.family === family);
      if (parts.length === 0) return [];
      const lines = parts.flatMap((part) =>
        part.dialect === 'nftables'
          ? part.changes.map(({ command }) => command)
          : toRestoreLines(part.table, part.changes),
      );
      return [{ family, dialect, input: `${lines.join('\n')}\n` }];
    }),
  );
}
