import { VipnatError } from '../../text/errors.ts';

/** A line of foreign text that goes into a message stays readable. */
const maxQuotedCharacters = 80;

/** A set, map, chain or other object of a table, as nft prints it. */
export interface NftObject {
  readonly kind: string;
  readonly name: string;
  /** Each on one line, without the white space around it. */
  readonly statements: readonly string[];
}

/** `set NAME {` and what follows up to its `}`. */
interface OpenObject extends NftObject {
  readonly statements: string[];
  /** The lines of a statement that goes on: nft breaks the lines of long sets. */
  open: string[];
  /** How many braces of that statement are open. */
  depth: number;
}

/**
 * Reads the objects of one table (`ip vipnat`) of what `nft -n list table` printed, from nft 0.9.8 on, with what is set for the
 * whole table.
 * @throws VipnatError TOOL_OUTPUT_UNEXPECTED for text that is not one whole table.
 */
export function readNftObjects(
  text: string,
  table: string,
): { readonly flags: string; readonly objects: readonly NftObject[] } {
  const [head = '', ...lines] = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  if (!head.startsWith(`table ${table} {`)) throw unexpected('it begins otherwise', head);
  if (lines.at(-1) !== '}') throw unexpected('the table has no end', lines.at(-1) ?? head);
  return readLines(lines.slice(0, -1));
}

function readLines(lines: readonly string[]): { flags: string; objects: readonly NftObject[] } {
  let flags = '';
  const objects: NftObject[] = [];
  let current: OpenObject | null = null;
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
  return { flags, objects };
}

function openObject(line: string): OpenObject | null {
  const [, kind, name] = /^(\w+) (\S+) \{(?: # handle \d+)?$/.exec(line) ?? [];
  if (kind === undefined || name === undefined) return null;
  return { kind, name, statements: [], open: [], depth: 0 };
}

function readStatement(object: OpenObject, line: string): void {
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

function unexpected(problem: string, line: string): VipnatError {
  return new VipnatError(
    'TOOL_OUTPUT_UNEXPECTED',
    `nft printed no whole table: ${problem}: ${JSON.stringify(line.slice(0, maxQuotedCharacters))}`,
  );
}
