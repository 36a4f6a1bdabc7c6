import { familyToNft } from '../../kernel/netlink/nft-chains.ts';
import { VipnatError } from '../../text/errors.ts';
import { iptablesTables, type SaveOutput } from '../../kernel/port.ts';
import { toolName } from '../../kernel/tools/tool-name.ts';
import { splitLines } from '../../kernel/tools/save-lines.ts';
import { type Ruleset, type Table, type TableName } from './ruleset.ts';

/** A line of foreign text that goes into a message stays readable. */
const maxQuotedCharacters = 80;

/** What is known in the middle of the text. */
interface Progress {
  readonly output: SaveOutput;
  /** Every table that ended with COMMIT, by name. */
  readonly tables: Map<string, Map<string, string[]>>;
  /** The table whose lines these are; null outside one. */
  open: { readonly name: string; readonly chains: Map<string, string[]> } | null;
  forwardPolicy: string | null;
  /** Tables that the tool reports as incompatible, and leaves out. */
  readonly incompatible: TableName[];
}

/**
 * Reads what `ip[6]tables-{nft,legacy}-save` printed, from iptables 1.8.2 on, with or without counters. Tables other
 * than nat, filter and mangle are left out; empty text is an empty ruleset. Rules stay text: a host may have 100,000.
 * A table that iptables-nft cannot show is unread, see toIncompatible.
 * @throws VipnatError TOOL_OUTPUT_UNEXPECTED for text that is not whole save output. A table is read to its COMMIT or
 *   not at all.
 */
export function parseSave(output: SaveOutput): Ruleset {
  const progress: Progress = { output, tables: new Map(), open: null, forwardPolicy: null, incompatible: [] };
  for (const line of splitLines(output.text)) readLine(progress, line);
  if (progress.open !== null) {
    throw unexpected(output, `the table ${progress.open.name} has no COMMIT`, output.text.trimEnd());
  }
  const { family, dialect, unlistedRules = 0 } = output;
  const { forwardPolicy, incompatible: unread } = progress;
  const ruleset = { family, dialect, tables: keepTables(progress.tables), forwardPolicy, unread };
  return unlistedRules === 0 ? ruleset : { ...ruleset, unlistedRules };
}

/** TABLE_INCOMPATIBLE: a table that is unread because iptables-nft cannot show it. */
export function toIncompatible({ family, dialect }: Ruleset, table: TableName): VipnatError {
  const nftFamily = familyToNft[family];
  return new VipnatError(
    'TABLE_INCOMPATIBLE',
    `${toolName(family, dialect, 'save')} cannot show the table ${table}: ` +
      `find the rule with \`nft list table ${nftFamily} ${table}\`, and move this rule to a table of its own` +
      (table === 'mangle' ? '' : '. `--iptables none` writes to no table of iptables'),
  );
}

function readLine(progress: Progress, line: string): void {
  switch (line[0]) {
    case '-':
    case '[':
      readRule(progress, line);
      return;
    case ':':
      readChain(progress, line);
      return;
    case '#':
      readComment(progress, line);
      return;
    case '*':
      readTable(progress, line);
      return;
    case undefined:
      return;
    default:
      readCommit(progress, line);
  }
}

/** `-A CHAIN …`, or `[12:34] -A CHAIN …` with counters. */
function readRule({ output, open }: Progress, line: string): void {
  const start = line.startsWith('[') ? line.indexOf('] ') + 2 : 0;
  const chainStart = start + '-A '.length;
  const space = line.indexOf(' ', chainStart);
  const chainEnd = space === -1 ? line.length : space;
  const rules = open?.chains.get(line.slice(chainStart, chainEnd));
  if (rules === undefined || !line.startsWith('-A ', start)) {
    throw unexpected(output, 'a rule belongs to no declared chain', line);
  }
  rules.push(line.slice(chainEnd + 1));
}

function readChain(progress: Progress, line: string): void {
  const { output, open } = progress;
  const [, name, policy = ''] = /^:(\S+) (\S+) \[\d+:\d+\]$/.exec(line) ?? [];
  if (open === null || name === undefined || open.chains.has(name)) {
    throw unexpected(output, 'a chain is not declared once and in a table', line);
  }
  open.chains.set(name, []);
  if (open.name === 'filter' && name === 'FORWARD') progress.forwardPolicy = policy;
}

/** iptables-nft-save 1.8.2 to 1.8.11 says in a comment, on standard output and with exit status 0, that it leaves a table out. */
function readComment({ incompatible }: Progress, line: string): void {
  const name = /^# Table `(\w+)' is incompatible, use 'nft' tool\./.exec(line)?.[1];
  const table = iptablesTables.find((candidate) => candidate === name);
  if (table !== undefined) incompatible.push(table);
}

function readTable(progress: Progress, line: string): void {
  const name = line.slice(1);
  if (progress.open !== null || progress.tables.has(name)) {
    throw unexpected(progress.output, 'a table begins inside another or twice', line);
  }
  progress.open = { name, chains: new Map() };
}

function readCommit(progress: Progress, line: string): void {
  if (line !== 'COMMIT' || progress.open === null) {
    throw unexpected(progress.output, 'a line has no place there', line);
  }
  progress.tables.set(progress.open.name, progress.open.chains);
  progress.open = null;
}

function keepTables(tables: ReadonlyMap<string, Table>): Ruleset['tables'] {
  return new Map(
    iptablesTables.flatMap((name) => {
      const table = tables.get(name);
      return table === undefined ? [] : [[name, table] as const];
    }),
  );
}

function unexpected({ family, dialect }: SaveOutput, problem: string, text: string): VipnatError {
  const line = text.slice(text.lastIndexOf('\n') + 1).slice(0, maxQuotedCharacters);
  return new VipnatError(
    'TOOL_OUTPUT_UNEXPECTED',
    `${toolName(family, dialect, 'save')} printed no whole set of rules: ${problem}: ${JSON.stringify(line)}`,
  );
}
