import { compareChain, type IsKnownRendering } from '../rules/compare-chain.ts';
import { type Drift } from '../rules/drift.ts';
import { type Change } from './change.ts';
import { type RuleSpec, signRules } from './identity.ts';
import { iptablesLanguage } from './language.ts';

/** The outcome of comparing one piece of a table: nothing in both lists when it is as wanted. */
export interface Diff {
  readonly drift: readonly Drift[];
  readonly changes: readonly Change[];
}

/**
 * Compares a chain of ours with what it should hold. Any difference in content or order has it rewritten whole,
 * within one transaction, so that no connection ever meets half of it (I12).
 */
export function diffOwnChain(
  chain: string,
  rules: readonly RuleSpec[],
  seen: readonly string[] | undefined,
  isKnownRendering: IsKnownRendering,
): Diff {
  const wanted = signRules(chain, rules);
  const drift =
    seen === undefined
      ? [describeMissing(chain)]
      : compareChain({ chain, wanted, seen, isKnownRendering }, iptablesLanguage);
  if (drift.length === 0) return { drift, changes: [] };
  const reset: Change = { kind: 'reset-chain', chain, exists: seen !== undefined };
  return {
    drift,
    changes: [reset, ...wanted.map(({ text }): Change => ({ kind: 'append', chain, rule: text }))],
  };
}

function describeMissing(chain: string): Drift {
  return { kind: 'missing-chain', chain, message: `chain ${chain} does not exist` };
}
