import { type Change } from './change.ts';
import { type Drift } from './drift.ts';
import { isOwnRule, type RuleSpec, type SignedRule, signRules } from './identity.ts';
import { hasSameMeaning } from './meaning.ts';
import { parseRule } from './rule.ts';

/** The outcome of comparing one piece of a table: nothing in both lists when it is as wanted. */
export interface Diff {
  readonly drift: readonly Drift[];
  readonly changes: readonly Change[];
}

/**
 * Whether a tool is known to print the rule with this id in this way, though it reads differently from what
 * was written. Learnt from what it prints right after our own write.
 */
export type KnowsPrint = (id: string, printed: string) => boolean;

/**
 * Compares a chain of ours with what it should hold. Any difference in content or order has it rewritten whole,
 * within one transaction, so that no connection ever meets half of it (I12).
 */
export function diffOwnChain(
  chain: string,
  rules: readonly RuleSpec[],
  seen: readonly string[] | undefined,
  knowsPrint: KnowsPrint,
): Diff {
  const wanted = signRules(chain, rules);
  const drift = seen === undefined ? [describeMissing(chain)] : compare({ chain, wanted, seen, knowsPrint });
  if (drift.length === 0) return { drift, changes: [] };
  const reset: Change = { kind: 'reset-chain', chain, exists: seen !== undefined };
  return {
    drift,
    changes: [reset, ...wanted.map(({ text }): Change => ({ kind: 'append', chain, rule: text }))],
  };
}

/** Whether a printed rule is the signed one, unedited. */
export function isIntact({ id, text }: SignedRule, printed: string, knowsPrint: KnowsPrint): boolean {
  return hasSameMeaning(text, printed) || (parseRule(printed).comment === id && knowsPrint(id, printed));
}

interface Comparison {
  readonly chain: string;
  readonly wanted: readonly SignedRule[];
  readonly seen: readonly string[];
  readonly knowsPrint: KnowsPrint;
}

function compare({ chain, wanted, seen, knowsPrint }: Comparison): Drift[] {
  const isSame =
    seen.length === wanted.length &&
    wanted.every((rule, index) => isIntact(rule, seen[index] ?? '', knowsPrint));
  if (isSame) return [];
  const idToWanted = new Map(wanted.map((rule) => [rule.id, rule]));
  const unwanted = seen.flatMap((printed) => describeUnwanted({ chain, printed, idToWanted, knowsPrint }));
  const seenIds = new Set(seen.map((printed) => parseRule(printed).comment));
  const missing = wanted.filter(({ id }) => !seenIds.has(id));
  const drift = [...unwanted, ...missing.map(({ text }) => describeMissingRule(chain, text))];
  // The same rules in another order or more than once.
  return drift.length > 0 ? drift : [{ kind: 'edited-rule', chain, message: `${chain} was reordered` }];
}

interface Candidate {
  readonly chain: string;
  readonly printed: string;
  readonly idToWanted: ReadonlyMap<string, SignedRule>;
  readonly knowsPrint: KnowsPrint;
}

function describeUnwanted({ chain, printed, idToWanted, knowsPrint }: Candidate): Drift[] {
  const wanted = idToWanted.get(parseRule(printed).comment ?? '');
  if (wanted !== undefined) {
    if (isIntact(wanted, printed, knowsPrint)) return [];
    return [
      { kind: 'edited-rule', chain, rule: printed, message: `a rule of ${chain} was edited: ${printed}` },
    ];
  }
  return isOwnRule(printed)
    ? [{ kind: 'outdated-rule', chain, rule: printed, message: `${chain} holds an older rule: ${printed}` }]
    : [{ kind: 'strange-rule', chain, rule: printed, message: `a strange rule is in ${chain}: ${printed}` }];
}

function describeMissing(chain: string): Drift {
  return { kind: 'missing-chain', chain, message: `chain ${chain} does not exist` };
}

function describeMissingRule(chain: string, rule: string): Drift {
  return { kind: 'missing-rule', chain, rule, message: `${chain} lacks ${rule}` };
}
