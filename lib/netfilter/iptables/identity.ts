/**
 * How a rule is recognised as ours, by any later version and without any memory.
 *
 * Goal: after a crash, an upgrade or a foreign edit, tell from the kernel alone which rules are ours, whether
 * they are the wanted ones and whether they stand in the wanted order.
 * Tension: printed rules are not the rules that were written (`--probability 0.3333333333` comes back as
 * 0.33333333349), `-C` answers yes for rules that are not there, and positions are other people's business.
 * Compromise: the first comment of each rule is `vipnat:` and a hash chained over the chain's name and the
 * rules before it, so the comment alone says what the rule is and where it stands. Own chains are those named
 * VIPNAT or VIPNAT-…; in foreign chains ours are the rules with such a comment or with a jump into those chains.
 */
import { type SignedRule } from '../rules/compare-chain.ts';
import { signaturePrefix, signChain } from '../rules/signature.ts';
import { parseRule } from './rule.ts';

/** A rule as it is written, but for the comment that identifies it and stands between head and tail. */
export interface RuleSpec {
  /** The matches before the comment, for example `-d 10.0.0.50/32 -p tcp`; may be empty. */
  readonly head: string;
  /** The matches after the comment and the target, for example `-m conntrack --ctstate DNAT -j ACCEPT`. */
  readonly tail: string;
}

/** The chain that the hooks lead to; the names of all other chains of ours begin with it. */
export const dispatchChain = 'VIPNAT';

/** The chain of table filter, which has a rule for each VIP. */
export const forwardChain = 'VIPNAT-FORWARD';

/** The chain of table filter that drops replies which conntrack could not translate back, see docs/adr/0033. */
export const inputChain = 'VIPNAT-INPUT';

/** The chain by which vipnat's balancer of Services accepts their connections in FORWARD; by its name it is none of ours here. */
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

/** Whether a chain is ours by its name. */
export function isOwnChain(name: string): boolean {
  return name === dispatchChain || name.startsWith(`${dispatchChain}-`);
}

/**
 * Whether a rule in a foreign chain is ours: it carries our comment or leads into our chains. One with a line break is
 * another's: no version wrote such, and no restore script can delete it.
 */
export function isOwnRule(text: string): boolean {
  // Most rules of a host are foreign: do not take 100,000 of them apart.
  if (!text.includes(signaturePrefix) && !text.includes(dispatchChain)) return false;
  if (text.includes('\n')) return false;
  const rule = parseRule(text);
  return rule.comment?.startsWith(signaturePrefix) === true || isOwnChain(rule.target ?? '');
}
