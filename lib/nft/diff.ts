import { type Drift, type IsKnownRendering, compareChain } from '../dialect.ts';
import type { Family } from '../net.ts';
import {
  type NftTable,
  type SeenNftTable,
  emptyTable,
  type NftChain,
  nftLanguage,
  hasSameDeclaration,
  hasSameNftMeaning,
} from './table.ts';
import { nameOwnTable } from '../kernel/port.ts';

/** What to change in a table, and why: nothing in both lists when it is as wanted. */
export interface NftDiff {
  readonly drift: readonly Drift[];
  readonly changes: readonly NftChange[];
}

/** One family's table as it shall be and as it is, each null where there is none. */
interface TablePair {
  readonly family: Family;
  readonly wanted: NftTable | null;
  readonly seen: SeenNftTable | null;
}

/**
 * The changes that turn vipnat's table into the wanted one, for one transaction. Wrong chains are filled again
 * in place: the hooks stay, and what sets hold. Only what cannot be changed, a hook or a set's declaration,
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

/** One step of a plan for a table: one command of nft, of which a script makes all or none. */
export interface NftChange {
  readonly kind:
    | 'add-table'
    | 'delete-table'
    | 'add-set'
    | 'delete-set'
    | 'add-chain'
    | 'flush-chain'
    | 'add-rule'
    | 'delete-chain';
  /** The chain or set it is about; empty where it is about the table. */
  readonly name: string;
  /** As nft takes it: `add rule ip vipnat prerouting …`. */
  readonly command: string;
}

/** What turns the objects of one table into those of another; elements of sets are left out. Each part rests on those before it. */
interface ObjectChanges {
  readonly create: readonly NftChange[];
  /** The rules of chains, whole. */
  readonly fill: readonly NftChange[];
  /** A packet that is in a chain while its rules are replaced still uses what goes here. */
  readonly remove: readonly NftChange[];
}

/** Whether a chain that is there has the rules that it shall have. */
type IsSameChain = (name: string, wanted: NftChain, seen: NftChain) => boolean;

/** To the letter. */
const hasSameRules: IsSameChain = (_, wanted, seen) =>
  wanted.rules.length === seen.rules.length &&
  wanted.rules.every((rule, index) => hasSameNftMeaning(rule, seen.rules[index] ?? ''));

/**
 * The changes of a table (`ip vipnat`) of which both states have the same hooks and declarations where both have an object, see
 * `listUnchangeable`. Wrong chains are filled again in place: hooks stay, and what sets hold. Pure.
 */
export function diffObjects(
  table: string,
  { wanted, seen }: { readonly wanted: NftTable; readonly seen: NftTable },
  isSameChain: IsSameChain = hasSameRules,
): ObjectChanges {
  const change = (kind: NftChange['kind'], name: string, command: string): NftChange => ({
    kind,
    name,
    command,
  });
  const flush = (name: string) => change('flush-chain', name, `flush chain ${table} ${name}`);
  const fill = ([name, chain]: readonly [string, NftChain]) => {
    const before = seen.chains.get(name);
    if (before !== undefined && isSameChain(name, chain, before)) return [];
    const rules = chain.rules.map((rule) => change('add-rule', name, `add rule ${table} ${name} ${rule}`));
    return before === undefined || before.rules.length === 0 ? rules : [flush(name), ...rules];
  };
  const goneChains = [...seen.chains.keys()].filter((name) => !wanted.chains.has(name));
  return {
    create: [
      ...[...wanted.chains]
        .filter(([name]) => !seen.chains.has(name))
        .map(([name, { hook }]) => {
          const base = hook === null ? '' : ` { ${hook} }`;
          return change('add-chain', name, `add chain ${table} ${name}${base}`);
        }),
      ...[...wanted.sets]
        .filter(([name]) => !seen.sets.has(name))
        .map(([name, { kind, declaration }]) =>
          change('add-set', name, `add ${kind} ${table} ${name} { ${declaration}; }`),
        ),
    ],
    fill: [...wanted.chains].flatMap(fill),
    remove: [
      ...goneChains.map(flush),
      // A map can lead to chains.
      ...[...seen.sets]
        .filter(([name]) => !wanted.sets.has(name))
        .map(([name, { kind }]) => change('delete-set', name, `delete ${kind} ${table} ${name}`)),
      ...goneChains.map((name) => change('delete-chain', name, `delete chain ${table} ${name}`)),
    ],
  };
}

/** What of a table nft cannot change in place: hooks of chains, and what sets are declared as. Pure. */
export function listUnchangeable(wanted: NftTable, seen: NftTable): Drift[] {
  const toDrift = (chain: string, message: string): Drift => ({ kind: 'edited-table', chain, message });
  const hooks = [...wanted.chains].flatMap(([name, { hook }]) => {
    const found = seen.chains.get(name);
    return found === undefined || found.hook === hook
      ? []
      : [toDrift(name, `the hook of ${name} was edited: ${found.hook ?? 'there is none'}`)];
  });
  const sets = [...wanted.sets].flatMap(([name, { kind, declaration }]) => {
    const found = seen.sets.get(name);
    return found === undefined || (found.kind === kind && hasSameDeclaration(declaration, found.declaration))
      ? []
      : [toDrift(name, `set ${name} has another declaration: ${found.declaration}`)];
  });
  return [...hooks, ...sets];
}

/** All parts in the order in which one script can make them: what refers to an object comes after what creates it and before what deletes it. */
export function orderChanges({ create, fill, remove }: ObjectChanges): NftChange[] {
  const changes = [...create, ...fill, ...remove];
  return changeOrder.flatMap((kind) => changes.filter((change) => change.kind === kind));
}

const changeOrder: readonly NftChange['kind'][] = [
  'add-set',
  'add-chain',
  'flush-chain',
  'add-rule',
  'delete-chain',
  'delete-set',
];
