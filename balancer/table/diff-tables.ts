import { nameTable, type Table, type TableSet } from './table.ts';
import { type Family } from '../../lib/address/address.ts';
import { hasSameDeclaration } from '../../lib/netfilter/nftables/meaning.ts';

/**
 * Commands of nft, of two transactions. All that packets need is in `now`. A packet that is in a chain while its rules are replaced
 * still uses what the rules before refer to: that goes `later`.
 */
export interface TableChange {
  readonly now: readonly string[];
  readonly later: readonly string[];
}

/** A table as it is and as it shall be. */
export interface TablePair {
  readonly family: Family;
  readonly seen: Table;
  readonly wanted: Table;
}

/**
 * The commands that turn one table into the other; null where that cannot be done in place, because a hook or a declaration
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
  const elements = diffElements(pair, table, kept);
  return {
    now: [
      ...newChains.map(
        ([name, { hook }]) => `add chain ${table} ${name}${hook === null ? '' : ` { ${hook} }`}`,
      ),
      ...newSets.map(([name, { kind, declaration }]) => `add ${kind} ${table} ${name} { ${declaration}; }`),
      ...elements.now,
      ...fillChains(seen, wanted, table),
    ],
    later: [
      ...elements.later,
      ...goneChains.map((name) => `flush chain ${table} ${name}`),
      ...goneSets.map((name) => `delete ${seen.sets.get(name)?.kind ?? 'set'} ${table} ${name}`),
      ...goneChains.map((name) => `delete chain ${table} ${name}`),
    ],
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

function diffElements({ seen, wanted }: TablePair, table: string, kept: ReadonlySet<string>): TableChange {
  const names = [...new Set([...seen.sets.keys(), ...wanted.sets.keys()])];
  const changes = names
    // One that goes takes its elements along.
    .filter((name) => wanted.sets.has(name) || kept.has(name))
    .map((name) => diffSet(`element ${table} ${name}`, seen.sets.get(name), wanted.sets.get(name)));
  return { now: changes.flatMap(({ now }) => now), later: changes.flatMap(({ later }) => later) };
}

function diffSet(place: string, seen: TableSet | undefined, wanted: TableSet | undefined): TableChange {
  const before = seen?.elements ?? new Map<string, string>();
  const after = wanted?.elements ?? new Map<string, string>();
  const gone = [...before.keys()].filter((key) => !after.has(key));
  const changed = [...after].filter(([key, value]) => before.get(key) !== value);
  const replaced = changed.filter(([key]) => before.has(key)).map(([key]) => key);
  const isLate = wanted !== undefined && isIndexed(wanted);
  const added = changed.map(([key, value]) => (value === '' ? key : `${key} : ${value}`));
  return {
    now: [
      ...printElements('delete', place, isLate ? replaced : [...gone, ...replaced]),
      ...printElements('add', place, added),
    ],
    later: isLate ? printElements('delete', place, gone) : [],
  };
}

/** nft takes a line of any length, and reads it in one go. */
function printElements(verb: string, place: string, elements: readonly string[]): string[] {
  return elements.length === 0 ? [] : [`${verb} ${place} { ${elements.join(', ')} }`];
}
