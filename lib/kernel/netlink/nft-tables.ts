/** The tables of nftables, asked for without a tool: what it costs does not grow with their rules. */
import { type Family } from '../../address/address.ts';
import { type NetlinkQuestioner } from './netlink.ts';
import { dumpList, type NetlinkList } from './netlink-dump.ts';
import { parseAttributes } from './netlink-messages.ts';

/**
 * The handles of the tables of a name in the families ip and ip6: another handle is another table. Null where a family has none.
 * Takes a client of the protocol netfilter, and rejects with NETLINK_FAILED, without CAP_NET_ADMIN with TOOL_NOT_PERMITTED.
 */
export async function readTableHandles(
  client: NetlinkQuestioner,
  name: string,
): Promise<Readonly<Record<Family, number | null>>> {
  const tables = (await dumpList(client, tableList)).map(parseTable).filter((table) => table.name === name);
  const find = (number: number) => tables.find((table) => table.family === number)?.handle ?? null;
  return { ipv4: find(NFPROTO_IPV4), ipv6: find(NFPROTO_IPV6) };
}

// linux/netfilter.h, linux/netfilter/nf_tables.h
const NFPROTO_IPV4 = 2;
const NFPROTO_IPV6 = 10;
const NFT_MSG_NEWTABLE = 0x0a00;
const NFT_MSG_GETTABLE = 0x0a01;
const NFTA_TABLE_NAME = 1;
const NFTA_TABLE_HANDLE = 4;
const nfgenmsgBytes = 4;

const tableList: NetlinkList = {
  question: NFT_MSG_GETTABLE,
  answer: NFT_MSG_NEWTABLE,
  payload: Buffer.alloc(nfgenmsgBytes),
  leastBytes: nfgenmsgBytes,
  subject: 'tables',
};

function parseTable(data: Buffer): { family: number; name: string; handle: number | null } {
  const attributes = parseAttributes(data, nfgenmsgBytes);
  const handle = attributes.get(NFTA_TABLE_HANDLE);
  return {
    family: data.readUInt8(0),
    name: attributes.get(NFTA_TABLE_NAME)?.toString('utf8').replace(/\0$/, '') ?? '',
    handle: handle?.length === 8 ? Number(handle.readBigUInt64BE()) : null,
  };
}
