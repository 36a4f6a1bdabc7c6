/** How large the rules of nftables are, asked for without a tool, and without the rules. */
import { type NetlinkQuestioner } from './netlink.ts';
import { dumpList, type NetlinkList } from './netlink-dump.ts';
import { parseAttributes } from './netlink-messages.ts';

/**
 * About how many rules nftables has in all tables but those of a name, iptables-nft's included: a rule that leads to a chain counts twice.
 * What it costs grows with the chains. Takes a client of the protocol netfilter, and rejects with NETLINK_FAILED, without CAP_NET_ADMIN
 * with TOOL_NOT_PERMITTED.
 */
export async function countRules(client: NetlinkQuestioner, exceptTable: string): Promise<number> {
  const uses = (await dumpList(client, chainList)).map((data) => {
    const attributes = parseAttributes(data, nfgenmsgBytes);
    const table = attributes.get(NFTA_CHAIN_TABLE)?.toString('utf8').replace(/\0$/, '');
    const use = attributes.get(NFTA_CHAIN_USE);
    return table === exceptTable || use?.length !== 4 ? 0 : use.readUInt32BE();
  });
  return uses.reduce((sum, use) => sum + use, 0);
}

// linux/netfilter/nf_tables.h. A chain's use is its rules and whatever leads to it.
const NFT_MSG_NEWCHAIN = 0x0a03;
const NFT_MSG_GETCHAIN = 0x0a04;
const NFTA_CHAIN_TABLE = 1;
const NFTA_CHAIN_USE = 6;
const nfgenmsgBytes = 4;

const chainList: NetlinkList = {
  question: NFT_MSG_GETCHAIN,
  answer: NFT_MSG_NEWCHAIN,
  payload: Buffer.alloc(nfgenmsgBytes),
  leastBytes: nfgenmsgBytes,
  subject: 'chains',
};
