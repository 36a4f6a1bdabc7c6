/** How large the rules of nftables are, asked for without a tool, and without the rules. */
import { type NetlinkQuestioner } from './netlink.ts';
import { listChains } from './nft-chains.ts';

/**
 * About how many rules nftables has in all tables but those of a name, iptables-nft's included: a rule that leads to a chain counts twice.
 * What it costs grows with the chains. Takes a client of the protocol netfilter, and rejects with NETLINK_FAILED, without CAP_NET_ADMIN
 * with TOOL_NOT_PERMITTED.
 */
export async function countRules(client: NetlinkQuestioner, exceptTable: string): Promise<number> {
  const others = (await listChains(client)).filter(({ table }) => table !== exceptTable);
  return others.reduce((sum, { use }) => sum + use, 0);
}
