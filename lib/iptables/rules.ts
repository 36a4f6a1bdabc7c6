import {
  type SaveOutput,
  familyToNft,
  toolName,
  iptablesTables,
  type IptablesDialect,
} from '../kernel/port.ts';
import { splitLines } from '../kernel/tools.ts';
import { VipnatError } from '../errors.ts';
import { type Family, type Endpoint, sortEndpoints } from '../net.ts';
import ipaddr from 'ipaddr.js';
import {
  type Balance,
  listApiservers,
  type SignedRule,
  signChain,
  signaturePrefix,
  type RuleLanguage,
} from '../dialect.ts';

/** A line of foreign text that goes into a message stays readable. */
const maxQuotedCharacters = 80;

/** What is known in the middle of the text. */
interface Progress {
  readonly output: SaveOutput;
  /** Every table that ended with COMMIT, by name. */
  readonly tables: Map<string, Map<string, string[]>>;
  /** The table whose lines these are; null outside one. */
  open: { readonly name: string; readonly chains: Map<string, string[]> } | null;
  forwardPolicy: string | null;
  /** Tables that the tool reports as incompatible, and leaves out. */
  readonly incompatible: TableName[];
}

/**
 * Reads what `ip[6]tables-{nft,legacy}-save` printed, from iptables 1.8.2 on, with or without counters. Tables other
 * than nat, filter and mangle are left out; empty text is an empty ruleset. Rules stay text: a host may have 100,000.
 * A table that iptables-nft cannot show is unread, see toIncompatible.
 * @throws VipnatError TOOL_OUTPUT_UNEXPECTED for text that is not whole save output. A table is read to its COMMIT or
 *   not at all.
 */
export function parseSave(output: SaveOutput): Ruleset {
  const progress: Progress = { output, tables: new Map(), open: null, forwardPolicy: null, incompatible: [] };
  for (const line of splitLines(output.text)) readLine(progress, line);
  if (progress.open !== null) {
    throw unexpected(output, `the table ${progress.open.name} has no COMMIT`, output.text.trimEnd());
  }
  const { family, dialect, unlistedRules = 0 } = output;
  const { forwardPolicy, incompatible: unread } = progress;
  const ruleset = { family, dialect, tables: keepTables(progress.tables), forwardPolicy, unread };
  return unlistedRules === 0 ? ruleset : { ...ruleset, unlistedRules };
}

/** TABLE_INCOMPATIBLE: a table that is unread because iptables-nft cannot show it. */
export function toIncompatible({ family, dialect }: Ruleset, table: TableName): VipnatError {
  const nftFamily = familyToNft[family];
  return new VipnatError(
    'TABLE_INCOMPATIBLE',
    `${toolName(family, dialect, 'save')} cannot show the table ${table}: ` +
      `find the rule with \`nft list table ${nftFamily} ${table}\`, and move this rule to a table of its own` +
      (table === 'mangle' ? '' : '. `--iptables none` writes to no table of iptables'),
  );
}

function readLine(progress: Progress, line: string): void {
  switch (line[0]) {
    case '-':
    case '[':
      readRule(progress, line);
      return;
    case ':':
      readChain(progress, line);
      return;
    case '#':
      readComment(progress, line);
      return;
    case '*':
      readTable(progress, line);
      return;
    case undefined:
      return;
    default:
      readCommit(progress, line);
  }
}

/** `-A CHAIN …`, or `[12:34] -A CHAIN …` with counters. */
function readRule({ output, open }: Progress, line: string): void {
  const start = line.startsWith('[') ? line.indexOf('] ') + 2 : 0;
  const chainStart = start + '-A '.length;
  const space = line.indexOf(' ', chainStart);
  const chainEnd = space === -1 ? line.length : space;
  const rules = open?.chains.get(line.slice(chainStart, chainEnd));
  if (rules === undefined || !line.startsWith('-A ', start)) {
    throw unexpected(output, 'a rule belongs to no declared chain', line);
  }
  rules.push(line.slice(chainEnd + 1));
}

function readChain(progress: Progress, line: string): void {
  const { output, open } = progress;
  const [, name, policy = ''] = /^:(\S+) (\S+) \[\d+:\d+\]$/.exec(line) ?? [];
  if (open === null || name === undefined || open.chains.has(name)) {
    throw unexpected(output, 'a chain is not declared once and in a table', line);
  }
  open.chains.set(name, []);
  if (open.name === 'filter' && name === 'FORWARD') progress.forwardPolicy = policy;
}

/** iptables-nft-save 1.8.2 to 1.8.11 says in a comment, on standard output and with exit status 0, that it leaves a table out. */
function readComment({ incompatible }: Progress, line: string): void {
  const name = /^# Table `(\w+)' is incompatible, use 'nft' tool\./.exec(line)?.[1];
  const table = iptablesTables.find((candidate) => candidate === name);
  if (table !== undefined) incompatible.push(table);
}

function readTable(progress: Progress, line: string): void {
  const name = line.slice(1);
  if (progress.open !== null || progress.tables.has(name)) {
    throw unexpected(progress.output, 'a table begins inside another or twice', line);
  }
  progress.open = { name, chains: new Map() };
}

function readCommit(progress: Progress, line: string): void {
  if (line !== 'COMMIT' || progress.open === null) {
    throw unexpected(progress.output, 'a line has no place there', line);
  }
  progress.tables.set(progress.open.name, progress.open.chains);
  progress.open = null;
}

function keepTables(tables: ReadonlyMap<string, Table>): Ruleset['tables'] {
  return new Map(
    iptablesTables.flatMap((name) => {
      const table = tables.get(name);
      return table === undefined ? [] : [[name, table] as const];
    }),
  );
}

function unexpected({ family, dialect }: SaveOutput, problem: string, text: string): VipnatError {
  const line = text.slice(text.lastIndexOf('\n') + 1).slice(0, maxQuotedCharacters);
  return new VipnatError(
    'TOOL_OUTPUT_UNEXPECTED',
    `${toolName(family, dialect, 'save')} printed no whole set of rules: ${problem}: ${JSON.stringify(line)}`,
  );
}

/** One of the tables vipnat reads. */
export type TableName = (typeof iptablesTables)[number];

/** Chain name to its rules, in order. A rule is its text as iptables-save prints it, without `-A CHAIN `. */
export type Table = ReadonlyMap<string, readonly string[]>;

/** One backend's tables of one family. A table that does not exist is absent. */
export interface Ruleset {
  readonly family: Family;
  readonly dialect: IptablesDialect;
  readonly tables: ReadonlyMap<TableName, Table>;
  /** What happens in filter FORWARD to packets that no rule decides about; null without that chain. */
  readonly forwardPolicy: string | null;
  /** Tables that may be there and could not be read: nothing is known of them, so nothing is written to them. */
  readonly unread: readonly TableName[];
  /** About how many foreign rules are in chains that were not read, see KernelQuery; none when left out. */
  readonly unlistedRules?: number;
}

/**
 * Whether a rule may match a packet. Conditions other than protocol, addresses, ports, connection state and `lo` count as met: only
 * what cannot be is excluded. Pure and total.
 */
export function mayMatch({ options }: Rule, packet: Packet): boolean {
  return (
    [...options].every(([option, value]) => mayHold(option, value, packet)) &&
    !(options.get('-i') === 'lo' && packet.isFromOutside)
  );
}

/** Whether a rule matches a packet, whatever of the packet is unknown. Pure and total. */
export function surelyMatches({ options }: Rule, packet: Packet): boolean {
  return [...options].every(
    ([option, value]) => isNoCondition(option) || holds(option, value, packet) === true,
  );
}

function mayHold(option: string, value: string, packet: Packet): boolean {
  return holds(option, value, packet) !== false;
}

/** One condition of a rule; null where it may hold and may not. A repeated option has a number behind it. */
function holds(printed: string, value: string, packet: Packet): boolean | null {
  const option = printed.replace(/#\d+$/, '');
  const isNegated = option.startsWith('!');
  const answer = conditions[isNegated ? option.slice(1) : option]?.(value, packet) ?? null;
  return answer === null ? null : answer !== isNegated;
}

/** What names a match, a target or a comment. */
function isNoCondition(option: string): boolean {
  return /^(?:-m|-j|-g|--comment|--notrack)(?:#\d+)?$/.test(option);
}

/** Whether it holds; null where it may and may not. */
type Condition = (value: string, packet: Packet) => boolean | null;

const conditions: Readonly<Record<string, Condition>> = {
  '-p': (protocol) => ['tcp', '6', 'all', '0'].includes(protocol),
  '-s': (prefix, { source }) => isWithin(source, prefix),
  '-d': (prefix, { destination }) => isWithin(destination, prefix),
  '--sport': comesFromPort,
  '--sports': comesFromPort,
  '--dport': goesToPort,
  '--dports': goesToPort,
  '--ctstate': isInState,
  '--state': isInState,
};

function isWithin(endpoint: Endpoint | null, prefix: string): boolean | null {
  if (endpoint === null) return null;
  const { address, family } = endpoint;
  try {
    const range = prefix.includes('/') ? prefix : `${prefix}/${family === 'ipv6' ? 128 : 32}`;
    return ipaddr.parse(address).match(ipaddr.parseCIDR(range));
  } catch {
    // A netmask that iptables accepts and ipaddr.js does not (non-contiguous).
    return null;
  }
}

/** Where one end is known, the other one is a client. */
function comesFromPort(ports: string, { source, destination }: Packet): boolean | null {
  return hasPort(source, ports, destination !== null);
}

function goesToPort(ports: string, { source, destination }: Packet): boolean | null {
  return hasPort(destination, ports, source !== null);
}

/** The ports below are servers': clients have higher ones, unless they ask for them. */
const firstClientPort = 1024;

/** Of `6443`, `6000:7000` and, by multiport, `443,6000:7000`. */
function hasPort(endpoint: Endpoint | null, ports: string, isClient: boolean): boolean | null {
  const ranges = ports.split(',').map((range) => {
    const [first = 0, last = first] = range.split(':').map(Number);
    return { first, last };
  });
  if (endpoint !== null)
    return ranges.some(({ first, last }) => first <= endpoint.port && endpoint.port <= last);
  return isClient && ranges.every(({ last }) => last < firstClientPort) ? false : null;
}

function isInState(value: string, { states, isTranslated }: Packet): boolean | null {
  const listed = value.split(',');
  if (isTranslated && listed.includes('DNAT')) return true;
  if (isTranslated && listed.includes('SNAT')) return null;
  const found = states.filter((state) => listed.includes(state));
  if (found.length === states.length) return true;
  return found.length === 0 ? false : null;
}

/** TCP packets of balanced connections, as they are where a chain sees them. */
export interface Packet {
  /** Null where it may be anybody. */
  readonly source: Endpoint | null;
  /** Null alike. */
  readonly destination: Endpoint | null;
  /** The states that conntrack may give it, as `--ctstate` names them. */
  readonly states: readonly string[];
  /** Whether its connection has been sent elsewhere than to the VIP it asked for. */
  readonly isTranslated: boolean;
  /** Whether it came by an interface other than `lo`. */
  readonly isFromOutside: boolean;
}

const anyPacket = { source: null, destination: null, isTranslated: false, isFromOutside: true } as const;

/**
 * The packets that a hook in one of the kernel's chains has to see. Translation comes in between: until then a packet asks for the
 * VIP, afterwards for an apiserver, or for the ClusterIP. Chains without a vipnat hook have none. Pure.
 */
export function listPackets(chain: string, balances: readonly Balance[]): Packet[] {
  switch (chain) {
    case 'PREROUTING':
    case 'OUTPUT':
      return balances.map(({ vip }) => ({
        ...anyPacket,
        destination: vip,
        states: ['NEW'],
        isFromOutside: chain === 'PREROUTING',
      }));
    case 'POSTROUTING':
      return listEnds(balances).map((destination) => ({
        ...{ source: null, destination, states: ['NEW'], isTranslated: true, isFromOutside: false },
      }));
    case 'FORWARD':
      return listEnds(balances).flatMap((end) => [
        { ...anyPacket, destination: end, states: ['NEW', 'ESTABLISHED'], isTranslated: true },
        { ...anyPacket, source: end, states: ['ESTABLISHED'], isTranslated: true },
      ]);
    case 'INPUT':
      return listApiservers(balances).map((source) => ({
        ...anyPacket,
        source,
        states: ['INVALID'],
      }));
    default:
      return [];
  }
}

/** Where connections end; null for wherever kube-proxy's chain leads, where nothing else is known. */
function listEnds(balances: readonly Balance[]): (Endpoint | null)[] {
  const known = balances.flatMap(({ route, apiservers = [] }) => [
    ...(route.kind === 'translate' ? route.backends : []),
    ...apiservers,
  ]);
  const isUnknown = balances.some(
    ({ route, apiservers = [] }) => route.kind === 'jump' && apiservers.length === 0,
  );
  return isUnknown ? [null] : sortEndpoints(known);
}

/**
 * How a rule is recognised as vipnat's, by any later version and without any memory.
 *
 * Goal: after a crash, an upgrade or a foreign edit, the kernel alone shows which rules are vipnat's. It also shows
 * whether they are the wanted ones, in the wanted order.
 * Tension: printed rules are not the rules that were written (`--probability 0.3333333333` comes back as
 * 0.33333333349). `-C` answers yes for rules that are not there. Other software decides about positions.
 * Compromise: the first comment of each rule is `vipnat:` and a hash chained over the chain's name and the
 * rules before it. So the comment alone says what the rule is and where it belongs. Own chains are those named
 * VIPNAT or VIPNAT-…. In foreign chains, vipnat's rules have such a comment or a jump into those chains.
 */

/** A rule as it is written, without the comment that identifies it. That comment is between head and tail. */
export interface RuleSpec {
  /** The matches before the comment, for example `-d 10.0.0.50/32 -p tcp`; may be empty. */
  readonly head: string;
  /** The matches after the comment and the target, for example `-m conntrack --ctstate DNAT -j ACCEPT`. */
  readonly tail: string;
}

/** The chain that the hooks lead to; the names of all other vipnat chains begin with it. */
export const dispatchChain = 'VIPNAT';

/** The chain of table filter, which has a rule for each VIP. */
export const forwardChain = 'VIPNAT-FORWARD';

/** The chain of table filter that drops replies which conntrack could not translate back, see docs/adr/0033. */
export const inputChain = 'VIPNAT-INPUT';

/** The chain by which vipnat's balancer of Services accepts their connections in FORWARD; by its name it is no own chain here. */
export const balancerChain = 'VIPLB-FORWARD';

/** Signs the rules of one chain, in their order: the same rule has another id in another place. */
export function signRules(chain: string, rules: readonly RuleSpec[]): SignedRule[] {
  const ids = signChain(
    chain,
    rules.map(
      ({ head, tail }) => `${head}
${tail}`,
    ),
  );
  return rules.map(({ head, tail }, index) => {
    const id = ids[index] ?? '';
    return { id, text: `${head} -m comment --comment "${id}" ${tail}`.trimStart() };
  });
}

/** Whether a chain is vipnat's by its name. */
export function isOwnChain(name: string): boolean {
  return name === dispatchChain || name.startsWith(`${dispatchChain}-`);
}

/**
 * Whether a rule in a foreign chain is vipnat's: it carries vipnat's comment or leads into vipnat's chains. A rule with a
 * line break is foreign: no version wrote such, and no restore script can delete it.
 */
export function isOwnRule(text: string): boolean {
  // Most rules of a host are foreign: do not take 100,000 of them apart.
  if (!text.includes(signaturePrefix) && !text.includes(dispatchChain)) return false;
  if (text.includes('\n')) return false;
  const rule = parseRule(text);
  return rule.comment?.startsWith(signaturePrefix) === true || isOwnChain(rule.target ?? '');
}

/** One rule, taken apart. Options keep their order; a negated option's key has a `!` in front. */
export interface Rule {
  /** The text it was read from, without `-A CHAIN `. */
  readonly text: string;
  /** Option (long names for the tools' short ones stay as printed: `-d`, `--dport`) with its values joined by a space. */
  readonly options: ReadonlyMap<string, string>;
  /** The chain or target of `-j` or `-g`; null for a rule without one. */
  readonly target: string | null;
  /** The first comment, unquoted; null when there is none. */
  readonly comment: string | null;
}

/**
 * Takes a rule's text apart, as printed by any iptables from 1.8.2 on or as rendered by vipnat. Total: text
 * that is no rule gives a rule without target whose options hold the text's words.
 */
export function parseRule(text: string): Rule {
  const options = readOptions(splitWords(text));
  return {
    text,
    options,
    target: options.get('-j') ?? options.get('-g') ?? null,
    comment: options.get('--comment') ?? null,
  };
}

/** The words of a rule's text, unquoted: what the tool would be given as arguments. */
export function splitRule(text: string): string[] {
  return splitWords(text).map(({ value }) => value);
}

function readOptions(words: readonly Word[]): Map<string, string> {
  // Joined at the end: adding to a text word by word would take time by the square of its length.
  const optionToValues = new Map<string, string[]>();
  let option = '';
  let negation = '';
  for (const word of words) {
    if (isNegation(word)) {
      negation = '!';
    } else if (isOption(word)) {
      option = nameUniquely(`${negation}${word.value}`, optionToValues);
      optionToValues.set(option, []);
      negation = '';
    } else {
      const values = optionToValues.get(option) ?? [];
      values.push(word.value);
      optionToValues.set(option, values);
    }
  }
  return new Map([...optionToValues].map(([name, values]) => [name, values.join(' ')]));
}

/** A rule can have a match twice, for example two comments: the first keeps the plain name. */
function nameUniquely(option: string, options: ReadonlyMap<string, unknown>): string {
  return options.has(option) ? `${option}#${options.size}` : option;
}

interface Word {
  readonly value: string;
  readonly isQuoted: boolean;
}

/** Splits as iptables-restore does: blanks separate, double quotes group, a backslash inside them escapes. */
function splitWords(text: string): Word[] {
  return [...text.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g)].map(([, quoted, plain]) =>
    quoted === undefined
      ? { value: plain ?? '', isQuoted: false }
      : { value: quoted.replaceAll(/\\(.)/g, '$1'), isQuoted: true },
  );
}

function isNegation({ value, isQuoted }: Word): boolean {
  return !isQuoted && value === '!';
}

function isOption({ value, isQuoted }: Word): boolean {
  return !isQuoted && /^--?[A-Za-z]/.test(value);
}

/** The kernel keeps probabilities as multiples of 2^-31; tools print 11 digits of them (iptables 1.8.2 to 1.8.11). */
const probabilityTolerance = 2 ** -30;

/** How iptables' rules are read. */
export const iptablesLanguage: RuleLanguage = {
  readComment: (printed) => parseRule(printed).comment,
  hasSameMeaning: hasSameIptablesMeaning,
  isOwnRule,
};

/**
 * Whether a printed rule still says what the rendered one said. Tools print `/32` and `/128`, add or move `-m`,
 * and round probabilities; all else that differs, also in the comment, is somebody's edit.
 */
export function hasSameIptablesMeaning(rendered: string, printed: string): boolean {
  if (rendered === printed) return true;
  const wanted = toMeaning(parseRule(rendered));
  const seen = toMeaning(parseRule(printed));
  return (
    wanted.size === seen.size &&
    [...wanted].every(([option, value]) => isSameValue(option, value, seen.get(option)))
  );
}

function toMeaning({ options }: Rule): Map<string, string> {
  return new Map(
    [...options]
      .filter(([option]) => option !== '-m' && !option.startsWith('-m#'))
      .map(([option, value]) => [option, value.replace(/\/(?:32|128)$/, '')]),
  );
}

function isSameValue(option: string, wanted: string, seen: string | undefined): boolean {
  if (option !== '--probability' || seen === undefined) return wanted === seen;
  return Math.abs(Number(wanted) - Number(seen)) <= probabilityTolerance;
}
