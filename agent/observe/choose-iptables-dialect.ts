import { type Sourced } from '../../lib/text/sourced.ts';
import { type IptablesDialect, iptablesDialects } from '../../lib/kernel/port.ts';
import { isOwnChain, isOwnRule } from '../../lib/netfilter/iptables/identity.ts';
import { type Ruleset } from '../../lib/netfilter/iptables/ruleset.ts';

/** Chains that kubelet creates in the mangle table of the backend in use (KEP-3178; kubelet 1.17 and 1.24 on). */
const kubeletHints = ['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY'];

/** The chain kube-proxy creates in the tables it programs, kube-proxy 1.17 on. */
const kubeProxyHint = 'KUBE-PROXY-CANARY';

/** All chains that hint at the dialect in use, the best first. */
export const dialectHints = [...kubeletHints, kubeProxyHint];

/** What the choice rests on beside the rules themselves. */
export interface IptablesDialectEvidence {
  /** In which dialect kube-proxy's live rule for the service was seen, if in one only. */
  readonly liveEdge: IptablesDialect | null;
  /** What was chosen before, by this process; null for nothing. */
  readonly before: IptablesDialect | null;
  /** Those that this host has. */
  readonly candidates: readonly IptablesDialect[];
  /** Those that may have rules that could not be read. */
  readonly unread: readonly IptablesDialect[];
}

/**
 * Which backend's tables this host's Kubernetes uses, as iptables-wrappers decides it, with two additions
 * between its hints and its default: kube-proxy's own canary (a host without kubelet) and the number of others' rules.
 * A jump into kube-proxy's chain is possible nowhere but where its live rule is, so that comes first of all. While a part
 * is unread the choice does not change: what fails for a moment must not move rules. Before any choice, nft is not left
 * for want of evidence that may be in it.
 */
export function chooseIptablesDialect(
  rulesets: readonly Ruleset[],
  configured: IptablesDialect | 'auto',
  evidence: IptablesDialectEvidence,
): Sourced<IptablesDialect> {
  const { liveEdge, before, unread } = evidence;
  if (configured !== 'auto') return { value: configured, seenIn: '--iptables' };
  if (before !== null && unread.length > 0) {
    return {
      value: before,
      seenIn: `chosen earlier, and vipnat cannot read all of iptables-${unread.join('/')}`,
    };
  }
  if (liveEdge !== null) return { value: liveEdge, seenIn: "it has kube-proxy's rules" };
  for (const hint of dialectHints) {
    const dialect = iptablesDialects.find((candidate) => hasChain(rulesets, candidate, hint));
    if (dialect !== undefined) return { value: dialect, seenIn: `mangle has ${hint}` };
  }
  return chooseWithoutHint(rulesets, evidence);
}

function chooseWithoutHint(
  rulesets: readonly Ruleset[],
  { candidates, unread }: IptablesDialectEvidence,
): Sourced<IptablesDialect> {
  if (!candidates.includes('nft') && candidates.includes('legacy')) {
    return { value: 'legacy', seenIn: 'this host has no other iptables' };
  }
  if (unread.includes('nft')) return { value: 'nft', seenIn: 'the default' };
  const legacyLead = countRules(rulesets, 'legacy') - countRules(rulesets, 'nft');
  return legacyLead > 0
    ? { value: 'legacy', seenIn: `it has ${legacyLead} more rules than nft` }
    : { value: 'nft', seenIn: 'the default' };
}

function hasChain(rulesets: readonly Ruleset[], dialect: IptablesDialect, chain: string): boolean {
  return rulesets.some((ruleset) => ruleset.dialect === dialect && ruleset.tables.get('mangle')?.has(chain));
}

/** Ours do not count: they are where an earlier choice put them, and writing them must not change this one (I7). */
function countRules(rulesets: readonly Ruleset[], dialect: IptablesDialect): number {
  const found = rulesets.filter((ruleset) => ruleset.dialect === dialect);
  const unlisted = found.reduce((total, { unlistedRules = 0 }) => total + unlistedRules, 0);
  return found
    .flatMap(({ tables }) => [...tables.values()])
    .flatMap((table) => [...table])
    .filter(([chain]) => !isOwnChain(chain))
    .reduce((total, [, rules]) => total + rules.filter((rule) => !isOwnRule(rule)).length, unlisted);
}
