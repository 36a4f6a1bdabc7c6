import { VipnatError } from '../../text/errors.ts';
import { type NetlinkQuestioner } from '../netlink/netlink.ts';
import { parseAttributes } from '../netlink/netlink-messages.ts';

/**
 * The number of nftables transactions this network namespace has seen, of all tables: it moves by one with every
 * commit, iptables-nft's included, and by nothing else. What it costs does not grow with the number of rules.
 * Takes a client of the protocol netfilter and rejects with NETLINK_FAILED, without CAP_NET_ADMIN with TOOL_NOT_PERMITTED.
 */
export async function readGeneration(client: NetlinkQuestioner): Promise<number> {
  const [message] = await client.request({
    type: NFT_MSG_GETGEN,
    payload: Buffer.alloc(nfgenmsgBytes),
    isDump: false,
    subject: 'the nftables generation',
  });
  const id =
    message === undefined ? undefined : parseAttributes(message.data, nfgenmsgBytes).get(NFTA_GEN_ID);
  if (id?.length !== 4) throw new VipnatError('NETLINK_FAILED', 'the kernel named no nftables generation');
  return id.readUInt32BE();
}

/** NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN, linux/netfilter/nf_tables.h. */
const NFT_MSG_GETGEN = 0x0a10;
const NFTA_GEN_ID = 1;
const nfgenmsgBytes = 4;
