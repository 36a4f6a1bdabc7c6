import { type Family, parseRange, listBlocks, toPrefix } from '../net.ts';
import { type NftTableOutput, nameOwnTable } from '../kernel/port.ts';
import { isNftName, toTyped } from '../kernel/nftables.ts';
import { outputUnexpected, type VipnatError } from '../errors.ts';
import {
  type RuleLanguage,
  signaturePrefix,
  type Drift,
  type IsKnownRendering,
  compareChain,
  areIntact,
  type Diff,
  type NftChange,
} from '../dialect.ts';

/** How nft calls the addresses of a family. */
export function toAddressType(family: Family): 'ipv4_addr' | 'ipv6_addr' {
  return family === 'ipv6' ? 'ipv6_addr' : 'ipv4_addr';
}

/** How many keys one memory can have. One more is not remembered. */
const maxRemembered = 65_535;

/** A set that rules put keys of a type into, such as clients whose place is kept: each for so many seconds after its last packet. */
export function declareMemory(type: string, seconds: number): NftSet {
  const declaration = `type ${type}; size ${maxRemembered}; flags dynamic,timeout; timeout ${seconds}s`;
  return { kind: 'set', declaration, elements: new Map() };
}

/** Before kube-proxy's and iptables' nat chains at -100 (dstnat) and 100 (srcnat). Numbers: nft refuses `dstnat` in output chains. */
export const natPriority = { translate: -105, masquerade: 95 } as const;

/** A chain's declaration for packets that pass at a hook; packets that no rule of it decides about pass. */
export function declareHook(type: 'filter' | 'nat', hook: string, priority: number): string {
  return `type ${type} hook ${hook} priority ${priority}; policy accept;`;
}

/** vipnat's table of a family, see `readNftTable`. */
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

/** A chain's own comment is next to its hook; vipnat writes none. */
export function readChain({ statements }: NftObject): NftChain {
  const isHead = (statement: string) => statement.startsWith('type ') || statement.startsWith('comment ');
  const head = statements.filter(isHead);
  return {
    hook: head.length === 0 ? null : head.join(' '),
    rules: statements.filter((statement) => !isHead(statement)),
  };
}

function readSet({ kind, statements }: NftObject): NftSet {
  const isElements = (statement: string) => statement.startsWith('elements = {');
  const declaration = toTyped(statements.filter((statement) => !isElements(statement)).join('; '));
  return {
    kind: kind === 'map' ? 'map' : 'set',
    declaration,
    // With a timeout they come and go by themselves.
    elements: declaration.includes('timeout ')
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

/** What vipnat's table of one family holds; null when there is none. */
export interface NftRuleset {
  readonly family: Family;
  readonly dialect: 'nftables';
  readonly table: SeenNftTable | null;
}

/** What a table of nftables holds, or a part of it. */
export interface NftTable {
  readonly sets: ReadonlyMap<string, NftSet>;
  readonly chains: ReadonlyMap<string, NftChain>;
}

/** The same as nft prints it (`-n`, so numbers for names). */
export interface SeenNftTable extends NftTable {
  /** What is set for the whole table: `dormant` switches it off. Empty as we write it. */
  readonly flags: string;
  /** Objects of any other kind, or of a name that nft's language has no word for, each by its kind and name. */
  readonly others: readonly string[];
}

/** A set or a map. */
export interface NftSet {
  readonly kind: 'set' | 'map';
  /** What it is declared as, with `; ` between statements: `type ipv4_addr; flags interval`. */
  readonly declaration: string;
  /** Key to value; the values of a set are empty. Elements that the kernel adds or removes itself are left out. */
  readonly elements: ReadonlyMap<string, string>;
}

/** A chain. */
export interface NftChain {
  /** `type nat hook prerouting priority -105; policy accept;`; null for a chain that others jump to. */
  readonly hook: string | null;
  /** In order. */
  readonly rules: readonly string[];
}

/** A table with nothing in it. */
export const emptyTable: NftTable = { sets: new Map(), chains: new Map() };

/** A set, map, chain or other object of a table, as nft prints it. */
interface NftObject {
  readonly kind: string;
  readonly name: string;
  /** Each on one line, without the white space around it. */
  readonly statements: readonly string[];
}

/** `set NAME {` and what follows up to its `}`. */
interface OpenObject extends NftObject {
  readonly statements: string[];
  /** The lines of an unfinished statement: nft breaks the lines of long sets. */
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
  const [, kind, name] = /^((?:ct )?\w+) (\S+) \{(?: # handle \d+)?$/.exec(line) ?? [];
  if (kind === undefined || name === undefined) return null;
  return { kind, name, statements: [], open: [], depth: 0 };
}

function readStatement(object: OpenObject, line: string): void {
  object.open.push(line);
  // nft cannot put a quote or a line break into a string.
  const bare = line.replaceAll(/"[^"]*"/g, '');
  object.depth += bare.split('{').length - bare.split('}').length;
  if (object.depth > 0) return;
  object.statements.push(object.open.join(' '));
  object.open = [];
  object.depth = 0;
}

function unexpected(problem: string, line: string): VipnatError {
  return outputUnexpected(`nft printed no whole table: ${problem}`, line);
}

/**
 * Whether a printed rule still says what the rendered one said. nft prints numbers for some of vipnat's words, as `-n`
 * asks, in its own number of digits. It leaves out the family where it is plain. Any other difference is an edit.
 */
export function hasSameNftMeaning(rendered: string, printed: string): boolean {
  return rendered === printed || toMeaning(rendered) === toMeaning(printed);
}

function toMeaning(rule: string): string {
  return rule
    .replaceAll(/\s+/g, ' ')
    .replace(/\bl4proto tcp\b/, 'l4proto 6')
    .replace(/\btcp flags & (\([^()]+\)|\w+) == (\w+)/, (_, mask: string, value: string) =>
      describeFlags(value, mask),
    )
    .replace(/\btcp flags ([\w,]+) \/ ([\w,]+)/, (_, value: string, mask: string) =>
      describeFlags(value, mask),
    )
    .replace(/\bct state (?:invalid|0x0*1)\b/, 'ct state invalid')
    .replace(/\bct status (?:dnat|0x0*20)\b/, 'ct status dnat')
    .replace(/\bdnat ip6? to\b/, 'dnat to');
}

/** RFC 9293, 3.1. */
const flags = ['fin', 'syn', 'rst', 'psh', 'ack', 'urg', 'ecn', 'cwr'];
const flagToBit = new Map(flags.map((flag, bit) => [flag, 1 << bit]));

/** `syn / fin,syn` as much as `& (0x1 | 0x2) == 0x2`: versions of nft differ. */
function describeFlags(value: string, mask: string): string {
  return `tcp flags ${addFlags(value)} of ${addFlags(mask)}`;
}

/** Of flags by name or number, each named once. */
function addFlags(flags: string): number {
  return [...flags.matchAll(/\w+/g)].reduce((sum, [flag]) => sum + (flagToBit.get(flag) ?? Number(flag)), 0);
}

/** The same for what a set is declared as: nft prints `3h` unless it is asked to print numbers. */
export function hasSameDeclaration(rendered: string, printed: string): boolean {
  return toDeclared(rendered) === toDeclared(printed);
}

const unitToSeconds: Readonly<Record<string, number>> = { d: 86_400, h: 3600, m: 60, s: 1 };

function toDeclared(declaration: string): string {
  // The kernel names a size also where none was given.
  return declaration
    .replaceAll(/\s+/g, ' ')
    .replace(` size ${maxRemembered};`, '')
    .replace(/\btimeout ((?:\d+[dhms])+)/, (_, duration: string) => `timeout ${toSeconds(duration)}`);
}

function toSeconds(duration: string): number {
  return [...duration.matchAll(/(\d+)([dhms])/g)].reduce(
    (total, [, count, unit]) => total + Number(count) * (unitToSeconds[unit ?? ''] ?? 0),
    0,
  );
}

/** How rules of nft are read. */
export const nftLanguage: RuleLanguage = {
  readComment,
  hasSameMeaning: hasSameNftMeaning,
  isOwnRule: (printed) => readComment(printed)?.startsWith(signaturePrefix) === true,
};

/** nft prints the comment last. */
function readComment(printed: string): string | null {
  return / comment "([^"]*)"$/.exec(printed)?.[1] ?? null;
}

/**
 * The changes that turn vipnat's table into the wanted one, for one transaction. Wrong chains are filled again
 * in place: the hooks stay, and what sets hold. Only what cannot be changed, a hook or a set's declaration,
 * has the whole table replaced. Empty when in sync (I7). Each of both is null where there is none.
 */
export function diffNftTable(
  { family, wanted, seen }: { family: Family; wanted: NftTable | null; seen: SeenNftTable | null },
  isKnownRendering: IsKnownRendering,
): Diff<NftChange> {
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

const inSync: Diff<NftChange> = { drift: [], changes: [] };

function removeTable(table: string): Diff<NftChange> {
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
  const chains = [...seen.chains.keys()].filter((name) => !wanted.chains.has(name));
  const sets = [...seen.sets.keys()].filter((name) => !wanted.sets.has(name));
  const toDrift = (chain: string, object: string): Drift => {
    return { kind: 'leftover-chain', chain, message: `${object} is left over` };
  };
  return [...chains.map((name) => toDrift(name, name)), ...sets.map((name) => toDrift(name, `set ${name}`))];
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
const hasSameRules: IsSameChain = (_, wanted, seen) => areIntact(wanted.rules, seen.rules, nftLanguage);

/**
 * The changes of a table (`ip vipnat`) of which both states have the same hooks and declarations where both have an object, see
 * `listUnchangeable`. Wrong chains are filled again in place: hooks stay, and what sets hold. Pure.
 */
export function diffObjects(
  table: string,
  { wanted, seen }: { readonly wanted: NftTable; readonly seen: NftTable },
  isSameChain: IsSameChain = hasSameRules,
): ObjectChanges {
  const change = (kind: NftChange['kind'], name: string, command: string) => ({ kind, name, command });
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
