import { type Family } from '../../lib/address/address.ts';
import { type ElementChange } from '../../lib/kernel/netlink/nft-elements.ts';
import { hasSameDeclaration } from '../../lib/netfilter/nftables/meaning.ts';
import { nameTable, type Table, tableName, type TableSet } from './table.ts';

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
  readonly seen: Table;
  readonly wanted: Table;
}

/**
 * The steps that turn one table into the other; null where that cannot be done in place, because a hook or a declaration
 * differs. Sets that only one of both has are made or deleted, but for those named in `kept`. Pure.
 */
export function diffTables(pair: TablePair, kept: ReadonlySet<string> = new Set()): TableChange | null {
  const { family, seen, wanted } = pair;
  if (hasOtherShape(seen, wanted)) return null;
  const table = nameTable(family);
  const newSets = [...wanted.sets].filter(([name]) => !seen.sets.has(name) && !kept.has(name));
  const goneSets = [...seen.sets.keys()].filter((name) => !wanted.sets.has(name) && !kept.has(name));
  const newChains = [...wanted.chains].filter(([name]) => !seen.chains.has(name));
  const goneChains = [...seen.chains.keys()].filter((name) => !wanted.chains.has(name));
  const elements = diffElements(pair, kept);
  return {
    now: {
      before: [
        ...newChains.map(
          ([name, { hook }]) => `add chain ${table} ${name}${hook === null ? '' : ` { ${hook} }`}`,
        ),
        ...newSets.map(([name, { kind, declaration }]) => `add ${kind} ${table} ${name} { ${declaration}; }`),
      ],
      elements: elements.now,
      after: fillChains(seen, wanted, table),
    },
    later: {
      before: [],
      elements: elements.later,
      after: [
        ...goneChains.map((name) => `flush chain ${table} ${name}`),
        ...goneSets.map((name) => `delete ${seen.sets.get(name)?.kind ?? 'set'} ${table} ${name}`),
        ...goneChains.map((name) => `delete chain ${table} ${name}`),
      ],
    },
  };
}

/** Whether a set's elements are read by their number: a rule that is being replaced may still ask for one that is to go. */
function isIndexed({ declaration }: TableSet): boolean {
  return declaration.startsWith('typeof numgen ');
}

function hasOtherShape(seen: Table, wanted: Table): boolean {
  return (
    [...wanted.chains].some(([name, { hook }]) => {
      const found = seen.chains.get(name);
      return found !== undefined && found.hook !== hook;
    }) ||
    [...wanted.sets].some(([name, { kind, declaration }]) => {
      const found = seen.sets.get(name);
      return (
        found !== undefined && (found.kind !== kind || !hasSameDeclaration(declaration, found.declaration))
      );
    })
  );
}

function fillChains(seen: Table, wanted: Table, table: string): string[] {
  return [...wanted.chains].flatMap(([name, { rules }]) => {
    const before = seen.chains.get(name)?.rules;
    if (
      before !== undefined &&
      before.length === rules.length &&
      before.every((rule, at) => rule === rules[at])
    )
      return [];
    return [
      ...(before === undefined || before.length === 0 ? [] : [`flush chain ${table} ${name}`]),
      ...rules.map((rule) => `add rule ${table} ${name} ${rule}`),
    ];
  });
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
const noSet: TableSet = { kind: 'set', declaration: '', elements: new Map() };

function diffSet(
  place: Pick<ElementChange, 'family' | 'table' | 'set'>,
  { declaration, elements: before }: TableSet,
  wanted: TableSet,
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
