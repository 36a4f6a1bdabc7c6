import { balancerChain } from './identity.ts';
import { mayMatch } from './may-match.ts';
import { type Packet } from './packets.ts';
import { parseRule } from './rule.ts';

/** Targets that let the packet go on to the next rule: standing before our hook they take nothing away. */
const passingTargets = new Set([
  'LOG',
  'NFLOG',
  'ULOG',
  'TRACE',
  'MARK',
  'CONNMARK',
  'CT',
  'NOTRACK',
  'SET',
  'AUDIT',
  'TCPMSS',
  'CLASSIFY',
]);

/** What a hook's own chain decides: another rule that decides the same takes nothing away. */
const chainToVerdict: Readonly<Record<string, string>> = { FORWARD: 'ACCEPT', INPUT: 'DROP' };

/**
 * Chains that may stand before ours. Their owners put them first and put them back there for ever (Calico Felix
 * with ChainInsertMode Insert, Cilium, kube-router): insisting would start a fight that nobody wins. What they
 * decide (network policy, floating IPs) is meant to come before any balancing, a VIP's included.
 */
const patientChains = /^(?:cali-|CILIUM_|OLD_CILIUM_|KUBE-ROUTER-|KUBE-NWPLCY-)/;

/** Whether a rule leads to such a chain. */
export function leadsToPolicy(text: string): boolean {
  const { target } = parseRule(text);
  return target !== null && patientChains.test(target);
}

/**
 * Whether a foreign rule that stands before our hook in a chain could decide about one of these packets, so that the
 * hook would not see it. This is the constraint on the hook's place; an index never is.
 */
export function isRival(text: string, chain: string, packets: readonly Packet[]): boolean {
  const rule = parseRule(text);
  const { target } = rule;
  if (target === null || passingTargets.has(target) || patientChains.test(target)) return false;
  // It accepts connections to Services, and nothing else.
  if (target === balancerChain || target === chainToVerdict[chain]) return false;
  return packets.some((packet) => mayMatch(rule, packet));
}
