import { type Finding } from '../../finding.ts';
import { type Backend, backends } from '../../kernel/port.ts';
import { isOwnChain, isOwnRule } from './identity.ts';
import { type Ruleset } from './ruleset.ts';

/** Chains that kubelet creates in the mangle table of the backend in use (KEP-3178; kubelet 1.17 and 1.24 on). */
const kubeletHints = ['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY'];

/** The chain kube-proxy creates in the tables it programs, kube-proxy 1.17 on. */
const kubeProxyHint = 'KUBE-PROXY-CANARY';

/**
 * Which backend's tables this host's Kubernetes uses, as iptables-wrappers decides it, with two additions
 * between its hints and its default: kube-proxy's own canary (a host without kubelet) and the number of others' rules.
 * `liveEdge` is the backend in which kube-proxy's live rule for the service was seen, if in one only: a jump
 * into its chain is possible nowhere else, so it comes first of all.
 */
export function chooseBackend(
  rulesets: readonly Ruleset[],
  configured: Backend | 'auto',
  liveEdge: Backend | null,
): Finding<Backend> {
  if (configured !== 'auto') return { value: configured, seenIn: '--iptables' };
  if (liveEdge !== null) return { value: liveEdge, seenIn: `kube-proxy's rules are there` };
  for (const hint of [...kubeletHints, kubeProxyHint]) {
    const backend = backends.find((candidate) => hasChain(rulesets, candidate, hint));
    if (backend !== undefined) return { value: backend, seenIn: `mangle has ${hint}` };
  }
  const legacyLead = countRules(rulesets, 'legacy') - countRules(rulesets, 'nft');
  return legacyLead > 0
    ? { value: 'legacy', seenIn: `${legacyLead} more rules than in nft` }
    : { value: 'nft', seenIn: 'the default' };
}

function hasChain(rulesets: readonly Ruleset[], backend: Backend, chain: string): boolean {
  return rulesets.some((ruleset) => ruleset.backend === backend && ruleset.tables.get('mangle')?.has(chain));
}

/** Ours do not count: they are where an earlier choice put them, and writing them must not change this one (I7). */
function countRules(rulesets: readonly Ruleset[], backend: Backend): number {
  return rulesets
    .filter((ruleset) => ruleset.backend === backend)
    .flatMap(({ tables }) => [...tables.values()])
    .flatMap((table) => [...table])
    .filter(([chain]) => !isOwnChain(chain))
    .reduce((total, [, rules]) => total + rules.filter((rule) => !isOwnRule(rule)).length, 0);
}
