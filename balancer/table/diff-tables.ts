import { type Family } from '../../lib/address/address.ts';
import { type ElementChange } from '../../lib/kernel/netlink/nft-elements.ts';
import { diffObjects, listUnchangeable, type NftChange } from '../../lib/netfilter/nftables/change.ts';
import { type NftSet, type NftTable } from '../../lib/netfilter/nftables/ruleset.ts';
import { nameTable, tableName } from '../../lib/services/balancer-table.ts';

/** What one transaction does to a table. */
export interface TableStep {
  /** Commands of nft that come before the elements. */
  readonly before: readonly string[];
  readonly elements: readonly ElementChange[];
  /** Commands of nft that come after the elements. */
  readonly after: readonly string[];
}

/**
 * Two transactions. All that packets need is in `now`. A packet that is in a chain while its rules are replaced
 * still uses what the rules before refer to: that goes `later`.
 */
export interface TableChange {
  readonly now: TableStep;
  readonly later: TableStep;
}

/** A table as it is and as it shall be. */
export interface TablePair {
  readonly family: Family;
  readonly seen: NftTable;
  readonly wanted: NftTable;
}

/**
 * The steps that turn one table into the other; null where that cannot be done in place, because a hook or a declaration
 * differs. Sets that only one of both has are made or deleted, but for those named in `kept`. Pure.
 */
export function diffTables(pair: TablePair, kept: ReadonlySet<string> = new Set()): TableChange | null {
  const { family, seen, wanted } = pair;
  if (listUnchangeable(wanted, seen).length > 0) return null;
  const { create, fill, remove } = diffObjects(nameTable(family), {
    wanted: withoutSets(wanted, kept),
    seen: withoutSets(seen, kept),
  });
  const elements = diffElements(pair, kept);
  return {
    now: { before: create.map(toCommand), elements: elements.now, after: fill.map(toCommand) },
    later: { before: [], elements: elements.later, after: remove.map(toCommand) },
  };
}

const toCommand = ({ command }: NftChange) => command;

function withoutSets({ sets, chains }: NftTable, names: ReadonlySet<string>): NftTable {
  return { sets: new Map([...sets].filter(([name]) => !names.has(name))), chains };
}

/** Whether a set's elements are read by their number: a rule that is being replaced may still ask for one that is to go. */
function isIndexed({ declaration }: NftSet): boolean {
  return declaration.startsWith('typeof numgen ');
}

interface ElementChanges {
  readonly now: readonly ElementChange[];
  readonly later: readonly ElementChange[];
}

function diffElements({ family, seen, wanted }: TablePair, kept: ReadonlySet<string>): ElementChanges {
  const names = [...new Set([...seen.sets.keys(), ...wanted.sets.keys()])];
  const changes = names
    // One that goes takes its elements along.
    .filter((name) => wanted.sets.has(name) || kept.has(name))
    .map((name) => {
      const place = { family, table: tableName, set: name };
      return diffSet(place, seen.sets.get(name) ?? noSet, wanted.sets.get(name) ?? noSet);
    });
  return { now: changes.flatMap(({ now }) => now), later: changes.flatMap(({ later }) => later) };
}

/** Instead of one that is not there. */
const noSet: NftSet = { kind: 'set', declaration: '', elements: new Map() };

function diffSet(
  place: Pick<ElementChange, 'family' | 'table' | 'set'>,
  { declaration, elements: before }: NftSet,
  wanted: NftSet,
): ElementChanges {
  const gone = [...before.keys()].filter((key) => !wanted.elements.has(key));
  const added = [...wanted.elements].filter(([key, value]) => before.get(key) !== value);
  const replaced = added.filter(([key]) => before.has(key)).map(([key]) => key);
  const isLate = isIndexed(wanted);
  const toChanges = (change: Pick<ElementChange, 'removed' | 'added'>) => {
    const isNone = change.removed.length + change.added.length === 0;
    return isNone ? [] : [{ ...place, declaration: wanted.declaration || declaration, ...change }];
  };
  return {
    now: toChanges({ removed: isLate ? replaced : [...gone, ...replaced], added }),
    later: isLate ? toChanges({ removed: gone, added: [] }) : [],
  };
}
