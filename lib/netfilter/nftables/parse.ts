import { VipnatError } from '../../text/errors.ts';
import { type NftTableOutput } from '../../kernel/port.ts';
import { nameOwnTable } from '../../kernel/real/own-table.ts';
import { isNftName } from '../../kernel/real/nft-name.ts';
import { type NftChain, type NftRuleset, type NftTable } from './ruleset.ts';

/** A line of foreign text that goes into a message stays readable. */
const maxQuotedCharacters = 80;

/** `set NAME {` and what follows up to its `}`. */
interface NftObject {
  readonly kind: string;
  readonly name: string;
  readonly statements: string[];
  /** The lines of a statement that goes on: nft breaks the lines of long sets. */
  open: string[];
  /** How many braces of that statement are open. */
  depth: number;
}

/**
 * Reads what `nft -n -t list table ip vipnat` printed, from nft 0.9.8 on. Rules stay text. Empty text is no table.
 * @throws VipnatError TOOL_OUTPUT_UNEXPECTED for text that is not one whole table.
 */
export function parseNftTable({ family, text }: NftTableOutput): NftRuleset {
  if (text.trim() === '') return { family, dialect: 'nftables', table: null };
  const [head = '', ...lines] = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  if (!head.startsWith(`table ${nameOwnTable(family)} {`)) throw unexpected('it begins otherwise', head);
  if (lines.at(-1) !== '}') throw unexpected('the table has no end', lines.at(-1) ?? head);
  return { family, dialect: 'nftables', table: readTable(lines.slice(0, -1)) };
}

function readTable(lines: readonly string[]): NftTable {
  let flags = '';
  const objects: NftObject[] = [];
  let current: NftObject | null = null;
  for (const line of lines) {
    if (current !== null) {
      if (current.open.length === 0 && line === '}') current = null;
      else readStatement(current, line);
      continue;
    }
    current = openObject(line);
    if (current !== null) objects.push(current);
    else if (line.startsWith('flags ')) flags = line.slice('flags '.length);
    // The table's own comment.
    else if (!line.startsWith('comment ')) throw unexpected('a line has no place there', line);
  }
  if (current !== null) throw unexpected(`${current.kind} ${current.name} has no end`, current.open[0] ?? '');
  return { flags, ...sortObjects(objects) };
}

function openObject(line: string): NftObject | null {
  const [, kind, name] = /^(\w+) (\S+) \{(?: # handle \d+)?$/.exec(line) ?? [];
  if (kind === undefined || name === undefined) return null;
  return { kind, name, statements: [], open: [], depth: 0 };
}

function readStatement(object: NftObject, line: string): void {
  object.open.push(line);
  object.depth += countOpenBraces(line);
  if (object.depth > 0) return;
  object.statements.push(object.open.join(' '));
  object.open = [];
  object.depth = 0;
}

/** nft has no way to put a quote or a line break into a string. */
function countOpenBraces(line: string): number {
  const bare = line.replaceAll(/"[^"]*"/g, '');
  return bare.split('{').length - bare.split('}').length;
}

function sortObjects(objects: readonly NftObject[]): Omit<NftTable, 'flags'> {
  const ofKind = (kind: string) => objects.filter((object) => object.kind === kind && isNftName(object.name));
  return {
    sets: new Map(ofKind('set').map(({ name, statements }) => [name, toDeclaration(statements)])),
    chains: new Map(ofKind('chain').map(({ name, statements }) => [name, toChain(statements)])),
    others: objects
      .filter(({ kind, name }) => !isNftName(name) || (kind !== 'set' && kind !== 'chain'))
      .map(({ kind, name }) => `${kind} ${name}`),
  };
}

/** Elements come and go by themselves. */
function toDeclaration(statements: readonly string[]): string {
  return statements.filter((statement) => !statement.startsWith('elements =')).join('; ');
}

/** A chain's own comment stands beside its hook; we write none. */
function toChain(statements: readonly string[]): NftChain {
  const isHead = (statement: string) => statement.startsWith('type ') || statement.startsWith('comment ');
  const head = statements.filter(isHead);
  return {
    hook: head.length === 0 ? null : head.join(' '),
    rules: statements.filter((statement) => !isHead(statement)),
  };
}

function unexpected(problem: string, line: string): VipnatError {
  return new VipnatError(
    'TOOL_OUTPUT_UNEXPECTED',
    `nft printed no whole table: ${problem}: ${JSON.stringify(line.slice(0, maxQuotedCharacters))}`,
  );
}
