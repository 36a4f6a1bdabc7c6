/**
 * Tells changes of vipnat's own rules from all others.
 *
 * Goal: what another program does to vipnat's rules is repaired soon, also while somebody writes to nftables all the time.
 * Tension: looks that find nothing come less and less often, and the generation counts the changes of everybody.
 * Compromise: after each change, the handles of a few rules: of vipnat's own chain, and of the chains that lead to it. vipnat's other chains
 * are not looked at: whoever changes these is seen by the next look.
 */
import { ownTable } from '../netlink/own-table.ts';
import { type NetlinkClient } from '../netlink/netlink.ts';
import { readRuleHandles, type RulePlace } from '../netlink/nft-rules.ts';

/** What vipnat's rules are at the time, as a text to compare. Rejects as readRuleHandles does. */
export async function readOwnRules(client: NetlinkClient): Promise<string> {
  const found: string[] = [];
  for (const place of places) found.push((await readRuleHandles(client, place)).join());
  return found.join(' ');
}

/** Where they are: in iptables-nft, or in a table of their own. */
const places: readonly RulePlace[] = (['ip', 'ip6'] as const).flatMap((family) => [
  ...['VIPNAT', 'PREROUTING', 'OUTPUT'].map((chain) => ({ family, table: 'nat', chain })),
  { family, table: ownTable },
]);
