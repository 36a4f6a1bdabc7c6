import { type NftTableOutput } from '../../kernel/port.ts';
import { nameOwnTable } from '../../kernel/netlink/own-table.ts';
import { isNftName } from '../../kernel/real/nft-name.ts';
import { type NftObject, readNftObjects } from './objects.ts';
import { type NftChain, type NftRuleset, type NftTable } from './ruleset.ts';

/**
 * Reads what `nft -n -t list table ip vipnat` printed, from nft 0.9.8 on. Rules stay text. Empty text is no table.
 * @throws VipnatError TOOL_OUTPUT_UNEXPECTED for text that is not one whole table.
 */
export function parseNftTable({ family, text }: NftTableOutput): NftRuleset {
  if (text.trim() === '') return { family, dialect: 'nftables', table: null };
  const { flags, objects } = readNftObjects(text, nameOwnTable(family));
  return { family, dialect: 'nftables', table: { flags, ...sortObjects(objects) } };
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
