import { type Sourced } from '../../lib/text/sourced.ts';
import { type IptablesDialect, type Dialect } from '../../lib/kernel/port.ts';

/** What the choice rests on. */
export interface DialectEvidence {
  /** `--iptables`. */
  readonly configured: IptablesDialect | 'auto' | 'none';
  /** The dialect of iptables that this host uses. */
  readonly iptables: Sourced<IptablesDialect>;
  /** Whether an iptables is installed for every family that is written to. */
  readonly hasIptables: boolean;
  /** The same for nft. */
  readonly hasNft: boolean;
  readonly isNftProxy: boolean;
  /** The table, of those that are written, that the dialect of iptables cannot show; null where it can show all. */
  readonly unshowable: string | null;
}

/**
 * What our rules are written to: a table of our own where kube-proxy has one too, where there is no iptables, or where
 * iptables cannot show a table that we would write to; else iptables. One for all VIPs.
 */
export function chooseDialect({
  configured,
  iptables,
  hasIptables,
  hasNft,
  isNftProxy,
  unshowable,
}: DialectEvidence): Sourced<Dialect> {
  if (configured === 'none') return { value: 'nftables', seenIn: '--iptables none' };
  if (configured !== 'auto') return iptables;
  if (!hasIptables) return { value: 'nftables', seenIn: 'no iptables is installed' };
  if (isNftProxy && hasNft) return { value: 'nftables', seenIn: 'kube-proxy runs in proxy mode nftables' };
  if (unshowable !== null && hasNft) {
    return { value: 'nftables', seenIn: `iptables-${iptables.value} cannot show the table ${unshowable}` };
  }
  return iptables;
}
