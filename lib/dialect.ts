import { type Endpoint, sortEndpoints, formatEndpoint, parseEndpoint, type Family } from './net.ts';
import { hash } from 'node:crypto';
import {
  type IptablesDialect,
  type ownTable,
  type Transaction,
  familyToNft,
  toolName,
} from './kernel/port.ts';

/** How new connections to one VIP are balanced, ready to be rendered. All endpoints are of the VIP's family. */
export interface Balance {
  readonly vip: Endpoint;
  readonly route: Route;
  /** Who rewrites the source address: vipnat's own rule, kube-proxy's KUBE-MARK-MASQ, or nobody. */
  readonly masquerade: 'own' | 'kube-mark' | 'none';
  /** Who may answer its connections, also those that are open; none when left out. */
  readonly apiservers?: readonly Endpoint[] | undefined;
}

/** Where new connections go. */
export type Route =
  /** Into somebody else's chain of the same table: in iptables only, and not read back. */
  | { readonly kind: 'jump'; readonly chain: string }
  /** To one of these, by the method. An empty list leaves them to the VIP's holder. */
  | {
      readonly kind: 'translate';
      readonly backends: readonly Endpoint[];
      readonly method?: Method | undefined;
      /** Chances that are not the same for all: of no other method than `lc`. */
      readonly weights?: Weights | undefined;
      /** For how long a client that came once goes to the same backend again; not at all when absent or null. */
      readonly affinitySeconds?: number | null;
    };

/** Which backend gets a new connection: any at random, of which `lc` changes the chances, the next in turn, or one for each client's address. */
export type Method = 'random' | 'rr' | 'hash' | 'lc';

/** The method that the rules of a VIP's chain have, as any tool prints them: `random` for `lc`, and where there is no choice. */
export function readMethod(rules: readonly string[]): Method {
  const text = rules.join('\n');
  if (/ (?:numgen inc|--mode nth) /.test(text)) return 'rr';
  return / (?:jhash|-m cluster) /.test(text) ? 'hash' : 'random';
}

/** Backends, by text (see formatEndpoint), to whole numbers above 0: of the sum, the part of new connections that each gets. */
export type Weights = ReadonlyMap<string, number>;

/** Who may answer connections of these balances, each once and in order. */
export function listApiservers(balances: readonly Pick<Balance, 'apiservers'>[]): Endpoint[] {
  return sortEndpoints(balances.flatMap(({ apiservers = [] }) => apiservers));
}

/** What `toChances` asks: without weights, each is as likely. One that the weights do not name gets an equal share. */
export function weighWith(weights: Weights | undefined): (backend: Endpoint) => number {
  return (backend) => weights?.get(formatEndpoint(backend)) ?? unitsPerBackend;
}

/** Weights add up to this for each backend: so they can be read back from rules, which have them in lowest terms. */
export const unitsPerBackend = 20;

/** What vipnat's installed rules do with one VIP's new connections, where they translate. */
export interface InstalledBalance {
  /** At least one. */
  readonly backends: readonly Endpoint[];
  /** For how long a client that came once goes to the same backend again; null: not at all. */
  readonly affinitySeconds: number | null;
  /** Left out where each is as likely. */
  readonly weights?: Weights;
}

/**
 * The weights of backends whose rules, tried one after the other, take these parts of what gets to them; undefined where each is as
 * likely, or a part is none. Pure and total.
 */
export function readWeights(backends: readonly Endpoint[], parts: readonly number[]): Weights | undefined {
  let left = 1;
  const weights = parts.map((part) => {
    const share = left * part;
    left -= share;
    return Math.round(share * parts.length * unitsPerBackend);
  });
  const isWhole = weights.every((weight) => weight > 0);
  return isWhole && weights.some((weight) => weight !== unitsPerBackend)
    ? new Map(backends.map((backend, index) => [formatEndpoint(backend), weights[index] ?? 0]))
    : undefined;
}

/** The chain that says how one VIP is balanced: `VIPNAT-` and ten hexadecimal digits of its family, address and port. */
export function vipChainName(vip: Endpoint): string {
  return `VIPNAT-${shorten(`${vip.family} ${formatEndpoint(vip)}`, 10)}`;
}

/** The set or list of the clients of a VIP whose place at one backend is kept. */
export function affinityName(vip: Endpoint, backend: Endpoint): string {
  return `${vipChainName(vip)}-${shorten(formatEndpoint(backend), 8)}`;
}

/**
 * What clients' addresses are hashed with for a backend, the same on every host: 32 bits as all tools print them, so the first digit is no
 * zero. Each backend has its own. So a client's number at a backend stays when others come and go, and most clients keep their backend.
 */
export function toHashSeed(backend: Endpoint): string {
  return `0x1${shorten(formatEndpoint(backend), 7)}`;
}

function shorten(text: string, digits: number): string {
  return hash('sha256', text).slice(0, digits);
}

/** An address and a port as a rule names them, maybe with the length of a whole address; null where it names none. */
export function readEndpoint(address = '', port = ''): Endpoint | null {
  const bare = address.replace(/\/(?:32|128)$/, '');
  return parseEndpoint(bare.includes(':') ? `[${bare}]:${port}` : `${bare}:${port}`);
}

/** Whether a rule that leads to a target, and names the VIP of an endpoint, is about one of these VIPs. */
export function isAboutAny(
  vips: readonly Endpoint[],
  target: string | null | undefined,
  named: Endpoint | null,
): boolean {
  const text = named === null ? null : formatEndpoint(named);
  return vips.some((vip) => vipChainName(vip) === target || formatEndpoint(vip) === text);
}

/** With what chance a rule takes a connection that gets to it: `weight` of `left`. */
export interface Chance<T> {
  readonly choice: T;
  readonly weight: number;
  /** The weight of this rule's choice and of all after it: the last one takes all that is left. */
  readonly left: number;
}

/**
 * The choices in their order, each with the chance by which rules that are tried one after the other give it its share
 * of new connections: its weight of the sum of all. Weights are whole numbers and 1 where nothing else is said. One of
 * weight 0 is left out: it gets no new connection, and its open ones live, for these rules see only what opens one
 * (docs/adr/0015). Pure.
 */
export function toChances<T>(choices: readonly T[], weigh: (choice: T) => number = () => 1): Chance<T>[] {
  const weighed = choices
    .map((choice) => ({ choice, weight: weigh(choice) }))
    .filter(({ weight }) => weight > 0);
  const unit = weighed.reduce((divisor, { weight }) => findCommonDivisor(divisor, weight), 0);
  return weighed.map(({ choice, weight }, index) => ({
    choice,
    weight: weight / unit,
    left: weighed.slice(index).reduce((sum, one) => sum + one.weight / unit, 0),
  }));
}

/** The greatest, by Euclid. */
function findCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : findCommonDivisor(b, a % b);
}

/** A rule ready to be written. */
export interface SignedRule {
  /** The comment that it is known by, see signChain. */
  readonly id: string;
  /** The rule's text, without what names its chain. */
  readonly text: string;
}

/**
 * Whether a tool is known to print the rule with this id as `printed`, though that text differs from what
 * was written. Learnt from what the tool prints right after vipnat's own write.
 */
export type IsKnownRendering = (id: string, printed: string) => boolean;

/** How the rules of one tool are read. */
export interface RuleLanguage {
  /** The first comment of a printed rule, or null. */
  readonly readComment: (printed: string) => string | null;
  /** Whether a printed rule still says what the rendered one said. */
  readonly hasSameMeaning: (rendered: string, printed: string) => boolean;
  /** Whether any version of vipnat wrote a printed rule. */
  readonly isOwnRule: (printed: string) => boolean;
}

/** A chain of vipnat's: its wanted rules, and its rules in the kernel. */
interface Comparison {
  readonly chain: string;
  readonly wanted: readonly SignedRule[];
  readonly seen: readonly string[];
  readonly isKnownRendering: IsKnownRendering;
}

/** How the rules of a vipnat chain differ from the wanted ones, in content or order. Empty when they do not. Pure. */
export function compareChain(
  { chain, wanted, seen, isKnownRendering }: Comparison,
  language: RuleLanguage,
): Drift[] {
  const isGood = (rule: SignedRule, printed: string) => isIntact(rule, printed, isKnownRendering, language);
  const isSame =
    seen.length === wanted.length && wanted.every((rule, index) => isGood(rule, seen[index] ?? ''));
  if (isSame) return [];
  const idToWanted = new Map(wanted.map((rule) => [rule.id, rule]));
  const unwanted = seen.flatMap((printed): Drift[] => {
    const rule = idToWanted.get(language.readComment(printed) ?? '');
    if (rule === undefined) return [describeForeign(chain, printed, language.isOwnRule(printed))];
    const message = `a rule of ${chain} was edited: ${printed}`;
    return isGood(rule, printed) ? [] : [{ kind: 'edited-rule', chain, rule: printed, id: rule.id, message }];
  });
  const seenIds = new Set(seen.map((printed) => language.readComment(printed)));
  const missing = wanted
    .filter(({ id }) => !seenIds.has(id))
    .map(({ text: rule }): Drift => ({
      kind: 'missing-rule',
      chain,
      rule,
      message: `${chain} lacks ${rule}`,
    }));
  const drift = [...unwanted, ...missing];
  // The same rules in another order or more than once.
  return drift.length > 0
    ? drift
    : [{ kind: 'edited-rule', chain, message: `the rules of ${chain} were reordered` }];
}

/** Whether these are the wanted rules, and no others, in their order. */
export function areIntact(
  wanted: readonly string[],
  seen: readonly string[],
  { hasSameMeaning }: RuleLanguage,
): boolean {
  return (
    seen.length === wanted.length && wanted.every((text, index) => hasSameMeaning(text, seen[index] ?? ''))
  );
}

/** Whether a printed rule is the signed one, unedited. */
export function isIntact(
  { id, text }: SignedRule,
  printed: string,
  isKnownRendering: IsKnownRendering,
  language: RuleLanguage,
): boolean {
  return (
    language.hasSameMeaning(text, printed) ||
    (language.readComment(printed) === id && isKnownRendering(id, printed))
  );
}

function describeForeign(chain: string, rule: string, isOwn: boolean): Drift {
  return isOwn
    ? { kind: 'outdated-rule', chain, rule, message: `${chain} holds an older rule: ${rule}` }
    : { kind: 'strange-rule', chain, rule, message: `a foreign rule is in ${chain}: ${rule}` };
}

/** A difference between vipnat's rules in the kernel and the wanted ones. */
export interface Drift {
  readonly kind:
    | 'missing-hook'
    | 'hook-behind-foreign-rule'
    | 'surplus-hook'
    | 'missing-chain'
    | 'missing-rule'
    | 'edited-rule'
    | 'strange-rule'
    | 'outdated-rule'
    | 'leftover-rule'
    | 'leftover-chain'
    /** Has vipnat's whole nftables table replaced: a flag, a hook, a set, an unknown object. */
    | 'edited-table';
  readonly chain: string;
  /** The rule it is about, as printed or as wanted; absent where it is about a whole chain. */
  readonly rule?: string;
  /** The id of an edited vipnat rule. */
  readonly id?: string;
  /** One sentence for a person, without the table. */
  readonly message: string;
}

/** Drift that only says that an earlier decision or version wrote other rules; nobody interfered. */
export function isOutdated({ kind }: Drift): boolean {
  return kind === 'outdated-rule' || kind === 'leftover-chain' || kind === 'leftover-rule';
}

/**
 * The method `lc`: what new connections each target gets, by the open ones that were counted (docs/adr/0028). For apiservers and for pods.
 *
 * Goal: a target that came back gets its part of the connections that last, without a step of its own.
 * Tension: counts are seconds old, connections end by themselves, and each change of shares is a write.
 * Compromise: only a part of the difference is corrected, never all. Small differences are ignored as random.
 */

/**
 * How much of a difference shares answer. With 1, connections that end before the next count would swing from one side to the other
 * for ever.
 */
const gain = 0.75;

/** No target gets less than half of its part, whatever was counted. */
const leastPart = 0.5;

/** A difference from what is expected that chance makes once in hundreds of counts at most, as a multiple of its usual one. */
const chanceFactor = 4;

/** So many connections more or less are no burden to anybody, nor is a twentieth of what is expected. */
const [leastDifference, leastRatio] = [5, 1 / 20];

/** Changes of shares below a tenth of a part are not worth a write. */
export const leastChange = 0.1;

/** A target of new connections. */
interface CountedTarget {
  /** How many open connections it has. */
  readonly count: number;
  /** How many it is to have, compared with the others. Where all have 0, all are alike. */
  readonly weight: number;
}

/**
 * What each target gets, as a multiple of its part by weight: 1 where chance explains the difference, from `leastPart` to 1.75 elsewhere. With
 * equal weights, its share is between 2/7 and 2.5 times an even one. `isUneven` says whether any gets more or less already: smaller differences
 * count then, so that shares do not come and go. Pure and total.
 */
export function shareByCounts(targets: readonly CountedTarget[], isUneven: boolean): number[] {
  const total = sum(targets.map(({ count }) => count));
  const all = sum(targets.map(({ weight }) => weight));
  return targets.map(({ count, weight }) => {
    const expected = total * (all === 0 ? 1 / targets.length : weight / all);
    if (isByChance(count, expected, targets.length, isUneven)) return 1;
    return Math.max(leastPart, 1 + (gain * (expected - count)) / expected);
  });
}

/**
 * Where shares are uneven: whether all of so many targets stay within it in more than every other count. Anscombe's root makes the usual
 * difference 1, also of a handful of connections: the root of the number itself would take none of 16 for one that chance makes.
 */
function isByChance(count: number, expected: number, targets: number, isUneven: boolean): boolean {
  const least = Math.max(leastDifference, expected * leastRatio) / (isUneven ? 3 : 1);
  const most = isUneven ? Math.sqrt(2 * Math.log(targets)) : chanceFactor;
  const deviation = 2 * Math.abs(Math.sqrt(count + 3 / 8) - Math.sqrt(expected + 3 / 8));
  return Math.abs(count - expected) <= least || deviation <= most;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((before, one) => before + one, 0);
}

/** What the comment of every vipnat rule begins with. */
export const signaturePrefix = 'vipnat:';

/**
 * The comments that mark the rules of one chain as vipnat's, in their order. Each is `vipnat:` and 16 characters of
 * base64url (96 bits) of a hash. The hash is chained over the chain's name and the rules up to this one. The same rule
 * has another signature in another place.
 */
export function signChain(chain: string, rules: readonly string[]): string[] {
  let link = hash('sha256', chain, 'base64url');
  return rules.map((rule) => {
    link = hash('sha256', `${link}\n${rule}`, 'base64url');
    return signaturePrefix + link.slice(0, 16);
  });
}

/** The tables vipnat writes, in the order in which they are written: forwarding is allowed before it is asked for. */
export const writtenTables = ['filter', 'nat'] as const;

/** One step of a plan for a table: one command of nft, of which a script makes all or none. */
export interface NftChange {
  readonly kind: `${'add' | 'delete'}-${'table' | 'set' | 'chain'}` | 'flush-chain' | 'add-rule';
  /** The chain or set it is about; empty where it is about the table. */
  readonly name: string;
  /** As nft takes it: `add rule ip vipnat prerouting …`. */
  readonly command: string;
}

/** One step of a plan within a table. */
export type Change =
  /** Creates a vipnat chain, or empties it when it exists. */
  | { readonly kind: 'reset-chain'; readonly chain: string; readonly exists: boolean }
  | { readonly kind: 'append'; readonly chain: string; readonly rule: string }
  /** Puts a hook before every rule of a kernel's chain. */
  | { readonly kind: 'insert'; readonly chain: string; readonly rule: string }
  /** Deletes by value, so that a rule somebody else removed meanwhile fails the whole transaction. */
  | { readonly kind: 'delete'; readonly chain: string; readonly rule: string }
  | { readonly kind: 'delete-chain'; readonly chain: string };

/** The outcome of comparing a table, or a piece of it: nothing in both lists when it is as wanted. */
export interface Diff<OneChange = Change> {
  readonly drift: readonly Drift[];
  readonly changes: readonly OneChange[];
}

/** The changes to one table of iptables, in one dialect and family. */
export interface IptablesPlan extends Diff {
  readonly family: Family;
  readonly dialect: IptablesDialect;
  readonly table: (typeof writtenTables)[number];
}

/** The changes to vipnat's table of nftables, in one family. */
export interface NftPlan extends Diff<NftChange> {
  readonly family: Family;
  readonly dialect: 'nftables';
  readonly table: typeof ownTable;
}

/** The changes to one table. */
export type TablePlan = IptablesPlan | NftPlan;

/** What to write, and why. In sync when there are no transactions. */
export interface Plan {
  readonly tables: readonly TablePlan[];
  readonly transactions: readonly Transaction[];
}

/** All drift of a plan, each sentence with its table and tool: `PREROUTING has no jump to VIPNAT (nat, iptables-nft)`. */
export function describeDrift({ tables }: Plan): string[] {
  return tables.flatMap((table) => table.drift.map(({ message }) => `${message} (${describeTable(table)})`));
}

/** `nat, iptables-nft`, or `ip vipnat, nft`. */
export function describeTable({ family, dialect, table }: TablePlan): string {
  const name = dialect === 'nftables' ? `${familyToNft[family]} ${table}` : table;
  return `${name}, ${toolName(family, dialect)}`;
}
