import { type NftObject, readNftObjects } from '../../lib/netfilter/nftables/objects.ts';
import { type Family } from '../../lib/address/address.ts';
import { toPrefix } from '../../lib/services/prefixes.ts';
import { listBlocks, parseRange } from '../../lib/services/ranges.ts';
import { isNftName } from '../../lib/kernel/real/nft-name.ts';
import { nameTable, type Table, type TableChain, type TableSet } from './table.ts';

/**
 * Reads what `nft -n list table ip vipnat-lb` printed; null for empty text, which is no table, and for a table that holds what no
 * balancer writes: it can only be replaced.
 * @throws VipnatError TOOL_OUTPUT_UNEXPECTED for text that is not one whole table.
 */
export function readTable(text: string, family: Family): Table | null {
  if (text.trim() === '') return null;
  const { flags, objects } = readNftObjects(text, nameTable(family));
  const strangers = objects.filter(
    ({ kind, name }) => !['set', 'map', 'chain'].includes(kind) || !isNftName(name),
  );
  if (flags !== '' || strangers.length > 0) return null;
  const toEntries = <T>(isMeant: (kind: string) => boolean, read: (object: NftObject) => T) =>
    objects.filter(({ kind }) => isMeant(kind)).map((object) => [object.name, read(object)] as const);
  return {
    sets: new Map(toEntries((kind) => kind !== 'chain', readSet)),
    chains: new Map(toEntries((kind) => kind === 'chain', readChain)),
  };
}

function readChain({ statements }: NftObject): TableChain {
  const [first = '', ...rest] = statements;
  return first.startsWith('type ') ? { hook: first, rules: rest } : { hook: null, rules: statements };
}

function readSet({ kind, statements }: NftObject): TableSet {
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
