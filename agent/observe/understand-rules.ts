import { toUnread } from '../../lib/kernel/real/attempt.ts';
import {
  iptablesTables,
  type KernelReading,
  type SaveOutput,
  type UnreadRules,
} from '../../lib/kernel/port.ts';
import { parseSave, toIncompatible } from '../../lib/netfilter/iptables/parse.ts';
import { type Ruleset } from '../../lib/netfilter/iptables/ruleset.ts';
import { parseNftTable } from '../../lib/netfilter/nftables/parse.ts';
import { type NftRuleset } from '../../lib/netfilter/nftables/ruleset.ts';

/** All rules of a reading that can be understood, and those that cannot be. */
export interface SeenRules {
  readonly rulesets: readonly Ruleset[];
  readonly nftRulesets: readonly NftRuleset[];
  /** What could not be read, and what was read and not understood. */
  readonly unread: readonly UnreadRules[];
}

interface Part<T> {
  readonly found: readonly T[];
  readonly unread: readonly UnreadRules[];
}

/** Understands what the tools printed. What one of them printed and nobody understands keeps no other from being understood. Pure. */
export function understandRules(
  reading: Pick<KernelReading, 'iptables' | 'nftTables' | 'unread'>,
): SeenRules {
  const iptables = reading.iptables.map((output) => understandSave(output, reading.unread));
  const nftables = reading.nftTables.map((output) =>
    understand(() => parseNftTable(output), {
      family: output.family,
      dialect: 'nftables',
      tables: ['vipnat'],
    }),
  );
  return {
    rulesets: iptables.flatMap(({ found }) => found),
    nftRulesets: nftables.flatMap(({ found }) => found),
    unread: [...reading.unread, ...[...iptables, ...nftables].flatMap(({ unread }) => unread)],
  };
}

function understandSave(output: SaveOutput, unread: readonly UnreadRules[]): Part<Ruleset> {
  const { family, dialect } = output;
  const { found, unread: misunderstood } = understand(() => parseSave(output), {
    family,
    dialect,
    tables: iptablesTables,
  });
  const unreadTables = unread
    .filter((one) => one.family === family && one.dialect === dialect)
    .flatMap(({ tables }) => tables);
  return {
    found: found.map((ruleset) => ({
      ...ruleset,
      unread: iptablesTables.filter(
        (table) => ruleset.unread.includes(table) || unreadTables.includes(table),
      ),
    })),
    unread: [...misunderstood, ...found.flatMap(listIncompatible)],
  };
}

function listIncompatible(ruleset: Ruleset): UnreadRules[] {
  const { family, dialect, unread } = ruleset;
  return unread.map((table) =>
    toUnread({ family, dialect, tables: [table] }, toIncompatible(ruleset, table)),
  );
}

function understand<T>(parse: () => T, rules: Parameters<typeof toUnread>[0]): Part<T> {
  try {
    return { found: [parse()], unread: [] };
  } catch (error) {
    return { found: [], unread: [toUnread(rules, error)] };
  }
}
