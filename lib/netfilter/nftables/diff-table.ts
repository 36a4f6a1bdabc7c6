import { type Family } from '../../address/address.ts';
import { type IsKnownRendering } from '../rules/compare-chain.ts';
import { type Drift } from '../rules/drift.ts';
import { changeOrder, type NftChange } from './change.ts';
import { diffChain } from './diff-chain.ts';
import { hasSameDeclaration } from './meaning.ts';
import { nameOwnTable } from '../../kernel/netlink/own-table.ts';
import { type NftTable } from './ruleset.ts';

/** What to change in a table, and why: nothing in both lists when it is as wanted. */
export interface NftDiff {
  readonly drift: readonly Drift[];
  readonly changes: readonly NftChange[];
}

/** One family's table as it shall be and as it is, each null where there is none. */
export interface TablePair {
  readonly family: Family;
  readonly wanted: NftTable | null;
  readonly seen: NftTable | null;
}

/**
 * The changes that turn our table into the wanted one, for one transaction. Chains that are wrong are filled anew
 * where they are: the hooks stay, and what sets hold. Only what cannot be changed, a hook or a set's declaration,
 * has the whole table replaced. Empty when in sync (I7).
 */
export function diffNftTable(
  { family, wanted, seen }: TablePair,
  isKnownRendering: IsKnownRendering,
): NftDiff {
  const table = nameOwnTable(family);
  if (wanted === null) return seen === null ? inSync : removeTable(table);
  if (seen === null) {
    const message = `table ${table} does not exist`;
    return order([
      { drift: [{ kind: 'missing-chain', chain: '', message }], changes: createTable(table, wanted) },
    ]);
  }
  const unchangeable = findUnchangeable(wanted, seen);
  if (unchangeable.length > 0) {
    const changes = [...removeTable(table).changes, ...createTable(table, wanted)];
    return order([{ drift: unchangeable, changes }]);
  }
  const missingSets = [...wanted.sets].filter(([name]) => !seen.sets.has(name));
  return order([
    { drift: [], changes: missingSets.map(([name, declaration]) => addSet(table, name, declaration)) },
    ...[...wanted.chains].map(([name, chain]) =>
      diffChain({ table, name }, chain, seen.chains.get(name), isKnownRendering),
    ),
    removeLeftovers(table, wanted, seen),
  ]);
}

const inSync: NftDiff = { drift: [], changes: [] };

function order(parts: readonly NftDiff[]): NftDiff {
  const changes = parts.flatMap((part) => part.changes);
  return {
    drift: parts.flatMap(({ drift }) => drift),
    changes: changeOrder.flatMap((kind) => changes.filter((change) => change.kind === kind)),
  };
}

function removeTable(table: string): NftDiff {
  return {
    drift: [{ kind: 'leftover-chain', chain: '', message: `table ${table} is left over` }],
    changes: [{ kind: 'delete-table', name: '', command: `delete table ${table}` }],
  };
}

function createTable(table: string, { sets, chains }: NftTable): NftChange[] {
  return [
    { kind: 'add-table', name: '', command: `add table ${table}` },
    ...[...sets].map(([name, declaration]) => addSet(table, name, declaration)),
    ...[...chains].flatMap(
      ([name, chain]) => diffChain({ table, name }, chain, undefined, () => false).changes,
    ),
  ];
}

function addSet(table: string, name: string, declaration: string): NftChange {
  return { kind: 'add-set', name, command: `add set ${table} ${name} { ${declaration}; }` };
}

function findUnchangeable(wanted: NftTable, seen: NftTable): Drift[] {
  const toDrift = (chain: string, message: string): Drift => ({ kind: 'edited-table', chain, message });
  const hooks = [...wanted.chains].filter(([name, { hook }]) => {
    const found = seen.chains.get(name);
    return found !== undefined && found.hook !== hook;
  });
  const sets = [...wanted.sets].filter(([name, declaration]) => {
    const found = seen.sets.get(name);
    return found !== undefined && !hasSameDeclaration(declaration, found);
  });
  return [
    ...(seen.flags === wanted.flags ? [] : [toDrift('', `the table was set to ${seen.flags}`)]),
    ...hooks.map(([name]) =>
      toDrift(name, `the hook of ${name} was edited: ${seen.chains.get(name)?.hook ?? 'there is none'}`),
    ),
    ...sets.map(([name]) =>
      toDrift(name, `set ${name} has another declaration: ${seen.sets.get(name) ?? ''}`),
    ),
    ...seen.others.map((object) => toDrift('', `a foreign object is in the table: ${object}`)),
  ];
}

/** Emptied first, so that they refer to nothing. */
function removeLeftovers(table: string, wanted: NftTable, seen: NftTable): NftDiff {
  const chains = [...seen.chains.keys()].filter((name) => !wanted.chains.has(name));
  const sets = [...seen.sets.keys()].filter((name) => !wanted.sets.has(name));
  return {
    drift: [
      ...chains.map((chain): Drift => ({ kind: 'leftover-chain', chain, message: `${chain} is left over` })),
      ...sets.map((chain): Drift => ({
        kind: 'leftover-chain',
        chain,
        message: `set ${chain} is left over`,
      })),
    ],
    changes: [
      ...chains.flatMap((name): NftChange[] => [
        { kind: 'flush-chain', name, command: `flush chain ${table} ${name}` },
        { kind: 'delete-chain', name, command: `delete chain ${table} ${name}` },
      ]),
      ...sets.map((name): NftChange => ({
        kind: 'delete-set',
        name,
        command: `delete set ${table} ${name}`,
      })),
    ],
  };
}
