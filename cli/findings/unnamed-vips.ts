import { type Endpoint, formatEndpoint, sortEndpoints } from '../../lib/address/endpoint.ts';
import { readVips as readFromIptables } from '../../lib/netfilter/iptables/read-vips.ts';
import { readVips as readFromNft } from '../../lib/netfilter/nftables/read-vips.ts';
import { quoteWords } from '../../lib/text/shell-words.ts';
import type { HostLook } from '../../agent/main.ts';

/** The virtual IPs that vipnat's rules on this host are about, and that the configuration does not name; sorted. Pure. */
export function listUnnamedVips({
  observation: { rulesets, nftRulesets },
  decisions,
}: Pick<HostLook, 'observation' | 'decisions'>): Endpoint[] {
  const named = new Set(decisions.map(({ vip }) => formatEndpoint(vip)));
  const seen = [...rulesets.flatMap(readFromIptables), ...nftRulesets.flatMap(readFromNft)];
  const others = new Map(seen.map((vip) => [formatEndpoint(vip), vip]));
  return sortEndpoints([...others].filter(([text]) => !named.has(text)).map(([, vip]) => vip));
}

/** The command that puts the rules right once: it keeps those of virtual IPs that `flags` do not name. */
export function formatRunOnce(flags: string, unnamed: readonly Endpoint[]): string {
  return ['vipnat run --once', flags, formatVipFlags(unnamed)].filter((part) => part !== '').join(' ');
}

/** The command that takes away what is of these virtual IPs, and of no other. */
export function formatRemoveOnly(vips: readonly Endpoint[]): string {
  return `vipnat cleanup ${formatVipFlags(vips)}`;
}

function formatVipFlags(vips: readonly Endpoint[]): string {
  return quoteWords(vips.map((vip) => `--vip=${formatEndpoint(vip)}`));
}
