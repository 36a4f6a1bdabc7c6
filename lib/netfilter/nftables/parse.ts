import { type NftTableOutput } from '../../kernel/port.ts';
import { nameOwnTable } from '../../kernel/netlink/own-table.ts';
import { isNftName } from '../../kernel/real/nft-name.ts';
import { toPrefix } from '../../services/prefixes.ts';
import { listBlocks, parseRange } from '../../services/ranges.ts';
import { type NftObject, readNftObjects } from './objects.ts';
import { type NftChain, type NftRuleset, type NftSet, type SeenNftTable } from './ruleset.ts';

/** Our own table of a family, see `readNftTable`. */
export function parseNftTable({ family, text }: NftTableOutput): NftRuleset {
  return { family, dialect: 'nftables', table: readNftTable(text, nameOwnTable(family)) };
}

/**
 * Reads what `nft -n list table` printed of a table (`ip vipnat`), from nft 0.9.8 on; with `-t` its sets have no elements. Rules stay
 * text. Null for empty text, which is no table.
 * @throws VipnatError TOOL_OUTPUT_UNEXPECTED for text that is not one whole table.
 */
export function readNftTable(text: string, table: string): SeenNftTable | null {
  if (text.trim() === '') return null;
  const { flags, objects } = readNftObjects(text, table);
  const toEntries = <T>(kinds: readonly string[], read: (object: NftObject) => T) =>
    objects
      .filter(({ kind, name }) => kinds.includes(kind) && isNftName(name))
      .map((object) => [object.name, read(object)] as const);
  return {
    flags,
    sets: new Map(toEntries(['set', 'map'], readSet)),
    chains: new Map(toEntries(['chain'], readChain)),
    others: objects
      .filter(({ kind, name }) => !['set', 'map', 'chain'].includes(kind) || !isNftName(name))
      .map(({ kind, name }) => `${kind} ${name}`),
  };
}

/** A chain's own comment stands beside its hook; we write none. */
function readChain({ statements }: NftObject): NftChain {
  const isHead = (statement: string) => statement.startsWith('type ') || statement.startsWith('comment ');
  const head = statements.filter(isHead);
  return {
    hook: head.length === 0 ? null : head.join(' '),
    rules: statements.filter((statement) => !isHead(statement)),
  };
}

function readSet({ kind, statements }: NftObject): NftSet {
  const isElements = (statement: string) => statement.startsWith('elements = {');
  const declaration = statements.filter((statement) => !isElements(statement)).join('; ');
  return {
    kind: kind === 'map' ? 'map' : 'set',
    declaration,
    elements: isTimed(declaration)
      ? new Map()
      : readElements(
          statements.find(isElements) ?? '',
          declaration.includes('interval') ? toCanonical : String,
        ),
  };
}

/**
 * A range as it is written: nft prints `::ffff:10.0.0.0/104` for `::ffff:a00:0/104`, and nft 1.0.2 prints `0.0.0.0-255.255.255.255` for all. What is
 * no range, or more than one block, stays.
 */
function toCanonical(text: string): string {
  const range = parseRange(text);
  const [block, ...more] = range === null ? [] : listBlocks(range);
  return block === undefined || more.length > 0 ? text : toPrefix(block);
}

/** Its elements come and go by themselves. */
function isTimed(declaration: string): boolean {
  return declaration.includes('timeout ');
}

function readElements(statement: string, readKey: (text: string) => string): Map<string, string> {
  const [, list = ''] = /^elements = \{(.*)\}$/.exec(statement) ?? [];
  const elements = list
    .split(',')
    .map((element) => element.replaceAll(/\s+/g, ' ').trim())
    .filter((element) => element !== '');
  return new Map(
    elements.map((element) => {
      const at = element.indexOf(' : ');
      return at < 0 ? [readKey(element), ''] : [element.slice(0, at), element.slice(at + 3)];
    }),
  );
}
