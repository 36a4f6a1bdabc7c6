import { type Family } from '../../address/address.ts';
import { compareChain, type IsKnownRendering } from '../rules/compare-chain.ts';
import { type Drift } from '../rules/drift.ts';
import { diffObjects, listUnchangeable, type NftChange, orderChanges } from './change.ts';
import { nftLanguage } from './language.ts';
import { nameOwnTable } from '../../kernel/netlink/own-table.ts';
import { emptyTable, type NftChain, type NftTable, type SeenNftTable } from './ruleset.ts';

/** What to change in a table, and why: nothing in both lists when it is as wanted. */
export interface NftDiff {
  readonly drift: readonly Drift[];
  readonly changes: readonly NftChange[];
}

/** One family's table as it shall be and as it is, each null where there is none. */
export interface TablePair {
  readonly family: Family;
  readonly wanted: NftTable | null;
  readonly seen: SeenNftTable | null;
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
    return {
      drift: [{ kind: 'missing-chain', chain: '', message }],
      changes: createTable(table, wanted),
    };
  }
  const unchangeable = findUnchangeable(wanted, seen);
  if (unchangeable.length > 0) {
    return { drift: unchangeable, changes: [...removeTable(table).changes, ...createTable(table, wanted)] };
  }
  const nameToDrift = new Map(
    [...wanted.chains].map(([name, chain]) => [
      name,
      compareRules(name, chain, seen.chains.get(name), isKnownRendering),
    ]),
  );
  const isSameChain = (name: string) => nameToDrift.get(name)?.length === 0;
  return {
    drift: [...[...nameToDrift.values()].flat(), ...describeLeftovers(wanted, seen)],
    changes: orderChanges(diffObjects(table, { wanted, seen }, isSameChain)),
  };
}

const inSync: NftDiff = { drift: [], changes: [] };

function removeTable(table: string): NftDiff {
  return {
    drift: [{ kind: 'leftover-chain', chain: '', message: `table ${table} is left over` }],
    changes: [{ kind: 'delete-table', name: '', command: `delete table ${table}` }],
  };
}

function createTable(table: string, wanted: NftTable): NftChange[] {
  return [
    { kind: 'add-table', name: '', command: `add table ${table}` },
    ...orderChanges(diffObjects(table, { wanted, seen: emptyTable })),
  ];
}

function findUnchangeable(wanted: NftTable, seen: SeenNftTable): Drift[] {
  const toDrift = (message: string): Drift => ({ kind: 'edited-table', chain: '', message });
  // We write none.
  const maps = [...seen.sets].filter(([, { kind }]) => kind === 'map').map(([name]) => `map ${name}`);
  return [
    ...(seen.flags === '' ? [] : [toDrift(`the table was set to ${seen.flags}`)]),
    ...listUnchangeable(wanted, seen),
    ...[...maps, ...seen.others].map((object) => toDrift(`a foreign object is in the table: ${object}`)),
  ];
}

function compareRules(
  chain: string,
  { rules }: NftChain,
  seen: NftChain | undefined,
  isKnownRendering: IsKnownRendering,
): Drift[] {
  if (seen === undefined) return [{ kind: 'missing-chain', chain, message: `chain ${chain} does not exist` }];
  const wanted = rules.map((text) => ({ id: nftLanguage.readComment(text) ?? '', text }));
  return compareChain({ chain, wanted, seen: seen.rules, isKnownRendering }, nftLanguage);
}

function describeLeftovers(wanted: NftTable, seen: NftTable): Drift[] {
  const toDrift = (chain: string, object: string): Drift => ({
    kind: 'leftover-chain',
    chain,
    message: `${object} is left over`,
  });
  return [
    ...[...seen.chains.keys()].filter((name) => !wanted.chains.has(name)).map((name) => toDrift(name, name)),
    ...[...seen.sets.keys()]
      .filter((name) => !wanted.sets.has(name))
      .map((name) => toDrift(name, `set ${name}`)),
  ];
}
