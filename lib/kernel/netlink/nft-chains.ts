/** The chains of nftables, asked for without a tool, and without their rules. */
import { type Family } from '../../address/address.ts';
import { type NetlinkQuestioner } from './netlink.ts';
import { type NetlinkList, visitList } from './netlink-dump.ts';
import { renderAttribute, visitAttributes } from './netlink-messages.ts';

/** The families of nftables that iptables has tables in. */
export type NftFamily = 'ip' | 'ip6';

/** A family of nftables, as nft names it. */
export type NftLayer = keyof typeof layerToNumber;

/** The names of nftables for the families. */
export const familyToNft: Readonly<Record<Family, NftFamily>> = { ipv4: 'ip', ipv6: 'ip6' };

/** A chain of nftables. */
export interface NftChain {
  /** Null for one that nftables has got since Linux 6.18. */
  readonly layer: NftLayer | null;
  readonly table: string;
  readonly name: string;
  /** How many rules it has, and how many lead to it. */
  readonly use: number;
  /** What happens to packets that no rule decides about, as iptables says it; null for a chain without a hook. */
  readonly policy: 'ACCEPT' | 'DROP' | null;
  /** What a chain with a hook is for, as nft says it: `filter`, `nat`, `route`; null for one without. */
  readonly type: string | null;
  /** Whether packets on their way through this host pass it by its hook. */
  readonly isForward: boolean;
  /** The place of its hook among others: the least comes first. Null for a chain without a hook. */
  readonly priority: number | null;
}

/**
 * All chains, of one family or of every one. What it costs grows with them. Chains that come or go meanwhile can hide others: who
 * cannot have that asks twice. Takes a client of the protocol netfilter, and rejects with NETLINK_FAILED, without CAP_NET_ADMIN
 * with TOOL_NOT_PERMITTED.
 */
export async function listChains(client: NetlinkQuestioner, family?: NftFamily): Promise<NftChain[]> {
  const chains: NftChain[] = [];
  await visitList(client, { ...chainList, payload: renderFamily(family) }, (datagram, start, end) => {
    chains.push(readChain(datagram, start, end));
  });
  return chains;
}

/** Whether there is a chain. What it costs grows with nothing. Takes a client of the protocol netfilter, and rejects as `listChains` does. */
export async function hasChain(
  client: NetlinkQuestioner,
  { family, table, name }: Pick<NftChain, 'table' | 'name'> & { readonly family: NftFamily },
): Promise<boolean> {
  const payload = Buffer.concat([
    renderFamily(family),
    renderAttribute(NFTA_CHAIN_TABLE, Buffer.from(`${table}\0`)),
    renderAttribute(NFTA_CHAIN_NAME, Buffer.from(`${name}\0`)),
  ]);
  const subject = `the chain ${name}`;
  try {
    await client.request({ type: NFT_MSG_GETCHAIN, payload, isDump: false, subject });
    return true;
  } catch (error) {
    if ((error as { cause?: NodeJS.ErrnoException }).cause?.code === 'ENOENT') return false;
    throw error;
  }
}

/** The header of a question about a family; about all of them when left out. */
export function renderFamily(family?: NftLayer): Buffer {
  return Buffer.from([family === undefined ? 0 : layerToNumber[family], 0, 0, 0]);
}

/** Where the attributes of an answer begin: after the struct nfgenmsg. */
export const nfgenmsgBytes = 4;

// linux/netfilter.h
const layerToNumber = { inet: 1, ip: 2, arp: 3, netdev: 5, bridge: 7, ip6: 10 } as const;
const numberToLayer = new Map(
  Object.entries(layerToNumber).map(([layer, number]): [number, NftLayer] => [number, layer as NftLayer]),
);
const NF_DROP = 0;
/** The same number in the families ip, ip6, inet, bridge and arp. The family netdev has no hook of this number. */
const NF_INET_FORWARD = 2;
/** Where a chain is in the way of packets. */
interface Hook {
  readonly number: number | null;
  readonly priority: number | null;
}
/** Of a chain without one, or without its number. */
const noHook: Hook = { number: null, priority: null };
// linux/netfilter/nf_tables.h
const NFT_MSG_GETCHAIN = 0x0a04;
const NFTA_CHAIN_TABLE = 1;
const NFTA_CHAIN_NAME = 3;
const NFTA_CHAIN_HOOK = 4;
const NFTA_CHAIN_POLICY = 5;
const NFTA_CHAIN_USE = 6;
const NFTA_CHAIN_TYPE = 7;
const NFTA_HOOK_HOOKNUM = 1;
const NFTA_HOOK_PRIORITY = 2;

const chainList: Omit<NetlinkList, 'answer' | 'payload'> = {
  question: NFT_MSG_GETCHAIN,
  leastBytes: nfgenmsgBytes,
  subject: 'chains',
};

function readChain(datagram: Buffer, first: number, last: number): NftChain {
  const layer = numberToLayer.get(datagram.readUInt8(first)) ?? null;
  const chain = { layer, table: '', name: '', use: 0, type: null as string | null };
  const place = { hook: noHook, isDropping: false };
  visitAttributes(datagram, first + nfgenmsgBytes, last, (type, start, end) => {
    if (type === NFTA_CHAIN_TABLE) chain.table = readName(datagram, start, end);
    else if (type === NFTA_CHAIN_NAME) chain.name = readName(datagram, start, end);
    else if (type === NFTA_CHAIN_USE && end - start === 4) chain.use = datagram.readUInt32BE(start);
    else if (type === NFTA_CHAIN_TYPE) chain.type = readName(datagram, start, end);
    else if (type === NFTA_CHAIN_HOOK) place.hook = readHook(datagram, start, end);
    else if (type === NFTA_CHAIN_POLICY && end - start === 4)
      place.isDropping = datagram.readUInt32BE(start) === NF_DROP;
  });
  const policy = place.isDropping ? 'DROP' : 'ACCEPT';
  const { number, priority } = place.hook;
  return {
    ...chain,
    isForward: number === NF_INET_FORWARD,
    policy: number === null ? null : policy,
    priority,
  };
}

function readHook(datagram: Buffer, first: number, last: number): Hook {
  let { number, priority } = noHook;
  visitAttributes(datagram, first, last, (type, start, end) => {
    if (end - start !== 4) return;
    if (type === NFTA_HOOK_HOOKNUM) number = datagram.readUInt32BE(start);
    else if (type === NFTA_HOOK_PRIORITY) priority = datagram.readInt32BE(start);
  });
  return { number, priority };
}

/** A name, without the zero that ends it. */
export function readName(datagram: Buffer, start: number, end: number): string {
  return datagram.toString('utf8', start, end - 1);
}
