import type { TableName } from '../../../lib/iptables/rules.ts';

/** A chain: the kernel's own have a policy, others have null. Rules are as the tools print them, without `-A CHAIN `. */
export interface FakeChain {
  policy: string | null;
  rules: string[];
}

/** Chain name to chain, in the order of creation. */
export type FakeTable = Map<string, FakeChain>;

/** The tables of one family and backend, in the order of creation. */
export type FakeTables = Map<TableName, FakeTable>;

const tableToChains: Record<TableName, readonly string[]> = {
  mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
};

/** The tables the fake knows, in the order in which iptables-nft-save prints them. */
export const tableNames = Object.keys(tableToChains) as TableName[];

export function isTableName(name: string): name is TableName {
  return name in tableToChains;
}

/** A table with the kernel's own chains, as a first use makes it. */
export function createTable(name: TableName): FakeTable {
  return new Map(tableToChains[name].map((chain) => [chain, { policy: 'ACCEPT', rules: [] }]));
}

/** A copy to try changes on. */
export function copyTable(table: FakeTable): FakeTable {
  return new Map([...table].map(([name, { policy, rules }]) => [name, { policy, rules: [...rules] }]));
}

/** A copy of all tables, in their order. */
export function copyTables(tables: FakeTables): FakeTables {
  return new Map([...tables].map(([name, table]) => [name, copyTable(table)]));
}

/** The chain or target a printed rule leads to. */
export function targetOf(rule: string): string | undefined {
  return /(?:^| )-[jg] (\S+)/.exec(rule.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""'))?.[1];
}
