import { type Sourced } from '../../lib/text/sourced.ts';
import { type Backend, type RuleBackend } from '../../lib/kernel/port.ts';

/** What the choice rests on. */
export interface RuleBackendEvidence {
  /** `--iptables`. */
  readonly configured: Backend | 'auto' | 'none';
  /** The backend of iptables that this host uses. */
  readonly iptables: Sourced<Backend>;
  /** Whether an iptables is installed for every family that is written to. */
  readonly hasIptables: boolean;
  /** The same for nft. */
  readonly hasNft: boolean;
  readonly isNftProxy: boolean;
}

/**
 * What our rules are written to: a table of our own where kube-proxy has one too or where there is no iptables,
 * else iptables. One for all VIPs.
 */
export function chooseRuleBackend({
  configured,
  iptables,
  hasIptables,
  hasNft,
  isNftProxy,
}: RuleBackendEvidence): Sourced<RuleBackend> {
  if (configured === 'none') return { value: 'nftables', seenIn: '--iptables none' };
  if (configured !== 'auto') return iptables;
  if (!hasIptables) return { value: 'nftables', seenIn: 'no iptables is installed' };
  if (isNftProxy && hasNft) return { value: 'nftables', seenIn: 'kube-proxy runs in nftables mode' };
  return iptables;
}
