import { type Change } from './change.ts';
import { type Diff } from './diff-chain.ts';
import { type Balance } from '../rules/balance.ts';
import { isIntact, type IsKnownRendering, type SignedRule } from '../rules/compare-chain.ts';
import { type Drift } from '../rules/drift.ts';
import { isRival } from './hook-order.ts';
import { isOwnRule, signRules } from './identity.ts';
import { iptablesLanguage } from './language.ts';
import { listPackets } from './packets.ts';
import { type Hook } from './render.ts';

/** What a hook's place is judged by. */
export interface HookContext {
  /** Whose packets the hook must see. */
  readonly balances: readonly Balance[];
  readonly isKnownRendering: IsKnownRendering;
}

/**
 * Compares a kernel's chain with the hook it should hold: exactly one, unedited, and before every foreign rule
 * that could decide about a VIP's packets. Foreign rules are neither moved nor touched (I5).
 */
export function diffHook(
  hook: Hook,
  seen: readonly string[],
  { balances, isKnownRendering }: HookContext,
): Diff {
  const [wanted] = signRules(hook.chain, [hook.rule]);
  if (wanted === undefined) return { drift: [], changes: [] };
  const own = seen.filter(isOwnRule);
  const packets = listPackets(hook.chain, balances);
  const rival = seen.slice(0, firstOwnIndex(seen)).find((text) => isRival(text, hook.chain, packets));
  const isInPlace =
    rival === undefined &&
    own.length === 1 &&
    isIntact(wanted, own[0] ?? '', isKnownRendering, iptablesLanguage);
  if (isInPlace) return { drift: [], changes: [] };
  return {
    drift: describe({ chain: hook.chain, wanted, own, rival, isKnownRendering }),
    changes: [...deleteRules(hook.chain, own), { kind: 'insert', chain: hook.chain, rule: wanted.text }],
  };
}

/** Removes whatever rules of ours a foreign chain holds, one delete by value each. */
export function deleteRules(chain: string, rules: readonly string[]): Change[] {
  return rules.map((rule) => ({ kind: 'delete', chain, rule }));
}

function firstOwnIndex(seen: readonly string[]): number {
  const index = seen.findIndex(isOwnRule);
  return index === -1 ? 0 : index;
}

interface HookState {
  readonly chain: string;
  readonly wanted: SignedRule;
  readonly own: readonly string[];
  readonly rival: string | undefined;
  readonly isKnownRendering: IsKnownRendering;
}

function describe({ chain, wanted, own, rival, isKnownRendering }: HookState): Drift[] {
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
  if (rival !== undefined) {
    const message = `in ${chain} a foreign rule comes before the jump to ${target}: ${rival}`;
    drift.push({ kind: 'hook-behind-rival', chain, rule: rival, message });
  }
  return drift;
}
