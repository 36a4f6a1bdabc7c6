import {
  type Table,
  isOwnChain,
  isOwnRule,
  signRules,
  listPackets,
  iptablesLanguage,
  toLanguage,
  type RuleSpec,
  splitRule,
  parseRule,
  type Packet,
  balancerChain,
  mayMatch,
  type Ruleset,
} from './rules.ts';
import {
  type Balance,
  type IsKnownRendering,
  isIntact,
  type SignedRule,
  type Drift,
  compareChain,
  type Diff,
  type Change,
} from '../dialect.ts';
import { quoteWords } from '../text.ts';

/**
 * The changes that turn vipnat's part of a table into the wanted one, in an order in which one restore can make
 * them. Chains are filled first, then stale hooks are deleted and new ones added. Last, chains that nothing refers
 * to are deleted. Foreign chains keep their rules and the order of these (I5). Empty when in sync (I7).
 */
export function diffTable(wanted: WantedTable, seen: Table | undefined, context: HookContext): Diff {
  const table: Table = seen ?? new Map<string, never>();
  const chains = [...wanted.chains].map(([chain, rules]) =>
    diffOwnChain(chain, rules, table.get(chain), context),
  );
  const hooks = wanted.hooks.map((hook) => diffHook(hook, table.get(hook.chain) ?? [], context));
  const parts = [findLeftoverChains(wanted, table), ...chains, findLeftoverRules(wanted, table), ...hooks];
  const changes = parts.flatMap((part) => part.changes);
  return {
    drift: parts.flatMap(({ drift }) => drift),
    changes: order.flatMap((kind) => changes.filter((change) => change.kind === kind)),
  };
}

/** A rule that refers to a chain is added after the chain is created, and removed before the chain is deleted. */
const order: readonly Change['kind'][] = ['reset-chain', 'append', 'delete', 'insert', 'delete-chain'];

/** vipnat's chains that are not wanted: they are emptied first, so that they refer to nothing. */
function findLeftoverChains(wanted: WantedTable, table: Table): Diff {
  const chains = [...table.keys()].filter((name) => isOwnChain(name) && !wanted.chains.has(name));
  return {
    drift: chains.map((chain) => ({ kind: 'leftover-chain', chain, message: `${chain} is left over` })),
    changes: chains.flatMap((chain): Change[] => [
      { kind: 'reset-chain', chain, exists: true },
      { kind: 'delete-chain', chain },
    ]),
  };
}

/** vipnat's rules in foreign chains that are no wanted hook. */
function findLeftoverRules(wanted: WantedTable, table: Table): Diff {
  const hooked = new Set(wanted.hooks.map(({ chain }) => chain));
  const foreign = [...table].filter(([name]) => !isOwnChain(name) && !hooked.has(name));
  const rules = foreign.flatMap(([chain, texts]) => texts.filter(isOwnRule).map((rule) => ({ chain, rule })));
  return {
    drift: rules.map(({ chain, rule }) => ({
      kind: 'leftover-rule',
      chain,
      rule,
      message: `a rule of vipnat is left over in ${chain}: ${rule}`,
    })),
    changes: rules.map((one) => ({ kind: 'delete', ...one })),
  };
}

/** What rules and a hook's place are judged by. */
interface HookContext extends Pick<Ruleset, 'hidesPorts'> {
  /** Whose packets the hook must see. */
  readonly balances: readonly Balance[];
  readonly isKnownRendering: IsKnownRendering;
}

/**
 * Compares a kernel's chain with the hook it should hold: exactly one, unedited, and before every foreign rule
 * that could decide about a VIP's packets. Foreign rules are neither moved nor touched (I5).
 */
function diffHook(hook: Hook, seen: readonly string[], { balances, isKnownRendering }: HookContext): Diff {
  const [wanted] = signRules(hook.chain, [hook.rule]);
  if (wanted === undefined) return { drift: [], changes: [] };
  const own = seen.filter(isOwnRule);
  const packets = listPackets(hook.chain, balances);
  const conflicting = seen
    .slice(0, Math.max(0, seen.findIndex(isOwnRule)))
    .find((text) => isConflicting(text, hook.chain, packets));
  const drift = describe({ chain: hook.chain, wanted, own, conflicting, isKnownRendering });
  if (drift.length === 0) return { drift, changes: [] };
  return {
    drift,
    changes: [...deleteRules(hook.chain, own), { kind: 'insert', chain: hook.chain, rule: wanted.text }],
  };
}

/** Removes all vipnat rules that a foreign chain has, one delete by value each. */
export function deleteRules(chain: string, rules: readonly string[]): Change[] {
  return rules.map((rule) => ({ kind: 'delete', chain, rule }));
}

interface HookState {
  readonly chain: string;
  readonly wanted: SignedRule;
  readonly own: readonly string[];
  readonly conflicting: string | undefined;
  readonly isKnownRendering: IsKnownRendering;
}

function describe({ chain, wanted, own, conflicting, isKnownRendering }: HookState): Drift[] {
  const target = wanted.text.slice(wanted.text.lastIndexOf('-j ') + 3);
  const intact = own.filter((text) => isIntact(wanted, text, isKnownRendering, iptablesLanguage));
  const drift: Drift[] = own
    .filter((text) => !intact.includes(text))
    .map((rule) => ({
      kind: 'edited-rule',
      chain,
      rule,
      // With another comment it is an older hook, or another one's: no tool changes that.
      ...(iptablesLanguage.readComment(rule) === wanted.id ? { id: wanted.id } : {}),
      message: `vipnat's hook in ${chain} was edited: ${rule}`,
    }));
  if (intact.length === 0) {
    drift.push({ kind: 'missing-hook', chain, message: `${chain} has no jump to ${target}` });
  }
  if (intact.length > 1) {
    drift.push({
      kind: 'surplus-hook',
      chain,
      message: `${chain} jumps to ${target} ${intact.length} times`,
    });
  }
  if (conflicting !== undefined) {
    const message = `in ${chain} a foreign rule comes before the jump to ${target}: ${conflicting}`;
    drift.push({ kind: 'hook-behind-foreign-rule', chain, rule: conflicting, message });
  }
  return drift;
}

/**
 * Compares a vipnat chain with its wanted rules. Any difference in content or order has it rewritten whole,
 * within one transaction, so that no connection passes a half-written chain (I12).
 */
function diffOwnChain(
  chain: string,
  rules: readonly RuleSpec[],
  seen: readonly string[] | undefined,
  { isKnownRendering, ...ruleset }: HookContext,
): Diff {
  const wanted = signRules(chain, rules);
  const drift: Drift[] =
    seen === undefined
      ? [{ kind: 'missing-chain', chain, message: `chain ${chain} does not exist` }]
      : compareChain({ chain, wanted, seen, isKnownRendering }, toLanguage(ruleset));
  if (drift.length === 0) return { drift, changes: [] };
  const reset: Change = { kind: 'reset-chain', chain, exists: seen !== undefined };
  return {
    drift,
    changes: [reset, ...wanted.map(({ text }): Change => ({ kind: 'append', chain, rule: text }))],
  };
}

/** The part of a `*-restore --noflush` script that makes these changes to one table, as one transaction. */
export function toRestoreLines(table: string, changes: readonly Change[]): string[] {
  return [`*${table}`, ...changes.map(toRestoreLine), 'COMMIT'];
}

/** The same change as a line of a shell, to be read or run by a person. Run again, it adds nothing that is there. */
export function toCommand(tool: string, table: string, change: Change): string {
  const toLine = (arguments_: string) => `${tool} -t ${table} ${quoteArguments(arguments_)}`;
  if (change.kind === 'reset-chain') {
    const flush = toLine(`-F ${change.chain}`);
    return change.exists ? flush : `${toLine(`-N ${change.chain}`)} 2>/dev/null || ${flush}`;
  }
  const line = toRestoreLine(change);
  const check = change.kind === 'insert' ? `${toLine(line.replace('-I', '-C'))} 2>/dev/null || ` : '';
  return `${check}${toLine(line)}`;
}

function quoteArguments(line: string): string {
  // Brackets are patterns to a shell: IPv6 destinations are quoted.
  const plain = line.replaceAll(/(\[[0-9a-f:.]+\]:\d+)/g, "'$1'");
  // A rule that somebody else wrote can say anything.
  return isPlain(plain) ? plain : quoteWords(splitRule(line));
}

/** Whether a shell takes it for words, with or without quotes, and for nothing more. */
function isPlain(line: string): boolean {
  return /^(?:[\w ./:,+=%@-]|! |"[\w ./:,+=%@-]*"|'[^']*')*$/.test(line);
}

function toRestoreLine(change: Change): string {
  if (change.kind === 'reset-chain') return `:${change.chain} - [0:0]`;
  if (change.kind === 'delete-chain') return `-X ${change.chain}`;
  return `${kindToOption[change.kind]} ${change.chain} ${change.rule}`;
}

const kindToOption = { append: '-A', insert: '-I', delete: '-D' } as const;

/** Targets after which the packet continues with the next rule: before vipnat's hook they take no packet from it. */
const passingTargets: readonly string[] =
  'LOG NFLOG ULOG TRACE MARK CONNMARK CT NOTRACK SET AUDIT TCPMSS CLASSIFY'.split(' ');

/** What a hook's own chain decides: another rule that decides the same takes nothing away. */
const chainToVerdict: Readonly<Record<string, string>> = { FORWARD: 'ACCEPT', INPUT: 'DROP' };

/**
 * Chains that may precede vipnat's. Their owners put them first and always put them back there (Calico Felix
 * with ChainInsertMode Insert, Cilium, kube-router). Insisting would start an endless rule conflict. What they
 * decide (network policy, floating IPs) is meant to come before any balancing, a VIP's included.
 */
const passingChains = /^(?:cali-|CILIUM_|OLD_CILIUM_|KUBE-ROUTER-|KUBE-NWPLCY-)/;

/** Whether a rule leads to such a chain. */
export function leadsToPolicy(text: string): boolean {
  const { target } = parseRule(text);
  return target !== null && passingChains.test(target);
}

/**
 * Whether a foreign rule that precedes vipnat's hook in a chain could decide about one of these packets. The hook
 * would then not see it. This is the constraint on the hook's place; an index never is.
 */
export function isConflicting(text: string, chain: string, packets: readonly Packet[]): boolean {
  const rule = parseRule(text);
  const { target } = rule;
  if (target === null || passingTargets.includes(target) || passingChains.test(target)) return false;
  // It accepts connections to Services, and nothing else.
  if (target === balancerChain || target === chainToVerdict[chain]) return false;
  return packets.some((packet) => mayMatch(rule, packet));
}

/**
 * Whether other software drops packets that this host forwards, in these tables: by the policy of filter FORWARD or
 * a rule right there. No other table can overrule that: what is balanced has to be accepted in this one.
 */
export function dropsForwarded({ tables, forwardPolicy }: Ruleset): boolean {
  if (forwardPolicy === 'DROP') return true;
  const rules = tables.get('filter')?.get('FORWARD') ?? [];
  return rules.some((text) => !isOwnRule(text) && /^(?:DROP|REJECT)$/.test(parseRule(text).target ?? ''));
}

/** A vipnat rule in a chain of the kernel's. */
interface Hook {
  readonly chain: string;
  readonly rule: RuleSpec;
}

/** The wanted chains and hooks of vipnat in one table. */
export interface WantedTable {
  readonly chains: ReadonlyMap<string, readonly RuleSpec[]>;
  readonly hooks: readonly Hook[];
}
