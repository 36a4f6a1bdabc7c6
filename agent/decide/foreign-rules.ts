import { type Ruleset, isOwnChain, parseRule } from '../../lib/iptables/rules.ts';
import type { NftRuleset } from '../../lib/nft/table.ts';
import { type Endpoint, type Family, formatEndpoint } from '../../lib/net.ts';
import { readNftVips } from '../../lib/nft/vip-rules.ts';
import { readIptablesVips } from '../../lib/iptables/vip-rules.ts';

/** Targets of iptables for which the kernel tracks and translates connections; the names are iptables-extensions(8)'s. */
const translations: ReadonlySet<string | null> = new Set([
  ...['DNAT', 'SNAT', 'MASQUERADE', 'REDIRECT', 'NETMAP'],
]);

/**
 * The virtual IPs whose open connections the kernel forgets when their rules go, because nothing that stays translates
 * connections of their family. `vips` are those whose rules go; null for all. `translated` has the families that other tables
 * of nftables translate. Rules that could not be read count as such rules: nothing is known of them. Pure.
 */
export function findUntracked(
  seen: readonly (Ruleset | NftRuleset)[],
  vips: readonly Endpoint[] | null,
  translated: ReadonlySet<Family>,
): Endpoint[] {
  const textToVip = new Map(seen.flatMap(listVips).map((vip) => [formatEndpoint(vip), vip]));
  const named = vips?.map(formatEndpoint);
  const all = [...textToVip].map(([text, vip]) => ({ vip, goes: named?.includes(text) ?? true }));
  const tracked = new Set([
    ...translated,
    ...all.filter(({ goes }) => !goes).map(({ vip }) => vip.family),
    ...seen.filter(translatesForOthers).map(({ family }) => family),
  ]);
  return all.filter(({ vip, goes }) => goes && !tracked.has(vip.family)).map(({ vip }) => vip);
}

function listVips(ruleset: Ruleset | NftRuleset): Endpoint[] {
  return ruleset.dialect === 'nftables' ? readNftVips(ruleset) : readIptablesVips(ruleset);
}

function translatesForOthers(ruleset: Ruleset | NftRuleset): boolean {
  if (ruleset.dialect === 'nftables') return false;
  if (ruleset.unread.includes('nat')) return true;
  const chains = [...(ruleset.tables.get('nat') ?? [])];
  return chains.some(
    ([chain, rules]) => !isOwnChain(chain) && rules.some((text) => translations.has(parseRule(text).target)),
  );
}
