/** The kernel's table of connections (conntrack), asked and changed without a tool. */
import { type BalancedFlow } from '../port.ts';
import { readAddressBytes } from '../../address/bytes.ts';
import { type NetlinkQuestioner } from './netlink.ts';
import { dumpList, type NetlinkList } from './netlink-dump.ts';
import { parseAttributes, renderAttribute } from './netlink-messages.ts';

/** A connection that asked for one address and was sent to another. */
export interface TranslatedConnection extends BalancedFlow {
  /** By which the kernel finds exactly this entry. */
  readonly key: Buffer;
}

/**
 * The TCP, UDP and SCTP connections of both families that were sent to another address than they asked for, whoever did that. Takes
 * a client of the protocol netfilter, and rejects with NETLINK_FAILED, without CAP_NET_ADMIN with TOOL_NOT_PERMITTED. The kernel
 * walks its whole table, however few connections there are: 32 ms of a processor with 262,144 buckets.
 */
export async function listTranslatedConnections(client: NetlinkQuestioner): Promise<TranslatedConnection[]> {
  return (await dumpList(client, connectionList)).flatMap(parseConnection);
}

/** Has the kernel forget a connection; answers whether it was there still. */
export async function forgetConnection(
  client: NetlinkQuestioner,
  { key, vip }: TranslatedConnection,
): Promise<boolean> {
  const subject = `the end of a connection to ${vip.address}`;
  try {
    await client.request({ type: IPCTNL_MSG_CT_DELETE, payload: key, isDump: false, isOrder: true, subject });
    return true;
  } catch (error) {
    if (((error as Error).cause as NodeJS.ErrnoException | undefined)?.code === 'ENOENT') return false;
    throw error;
  }
}

// linux/netfilter/nfnetlink_conntrack.h, nf_conntrack_common.h; NFNL_SUBSYS_CTNETLINK is 1.
const IPCTNL_MSG_CT_NEW = 0x0100;
const IPCTNL_MSG_CT_GET = 0x0101;
const IPCTNL_MSG_CT_DELETE = 0x0102;
const CTA_TUPLE_ORIG = 1;
const CTA_TUPLE_REPLY = 2;
const CTA_STATUS = 3;
const CTA_ID = 12;
const CTA_ZONE = 18;
const CTA_STATUS_MASK = 26;
const CTA_TUPLE_IP = 1;
const CTA_TUPLE_PROTO = 2;
const CTA_PROTO_NUM = 1;
const CTA_PROTO_SRC_PORT = 2;
const CTA_PROTO_DST_PORT = 3;
const IPS_DST_NAT = 1 << 5;
const AF_INET6 = 10;
const nfgenmsgBytes = 4;

/** Of CTA_TUPLE_IP: source and destination. */
const addressAttributes = { ipv4: [1, 2], ipv6: [3, 4] } as const;

const numberToProtocol: ReadonlyMap<number, BalancedFlow['protocol']> = new Map([
  [6, 'tcp'],
  [17, 'udp'],
  [132, 'sctp'],
]);

const status = Buffer.alloc(4);
status.writeUInt32BE(IPS_DST_NAT);

const connectionList: NetlinkList = {
  question: IPCTNL_MSG_CT_GET,
  answer: IPCTNL_MSG_CT_NEW,
  payload: Buffer.concat([
    Buffer.alloc(nfgenmsgBytes),
    // Linux before 5.15 lists all connections nevertheless.
    renderAttribute(CTA_STATUS, status),
    renderAttribute(CTA_STATUS_MASK, status),
  ]),
  leastBytes: nfgenmsgBytes,
  subject: 'connections',
};

function parseConnection(data: Buffer): TranslatedConnection[] {
  const attributes = parseAttributes(data, nfgenmsgBytes);
  const [original, reply] = [attributes.get(CTA_TUPLE_ORIG), attributes.get(CTA_TUPLE_REPLY)];
  if (original === undefined || reply === undefined || !isTranslated(attributes.get(CTA_STATUS))) return [];
  const family = data.readUInt8(0) === AF_INET6 ? 'ipv6' : 'ipv4';
  const [asked, answering] = [parseTuple(original, family), parseTuple(reply, family)];
  const protocol = numberToProtocol.get(asked?.protocol ?? 0);
  if (asked === null || answering === null || protocol === undefined) return [];
  // Without a tuple the kernel would forget all that it has.
  const key = [
    data.subarray(0, nfgenmsgBytes),
    renderAttribute(CTA_TUPLE_ORIG, original, true),
    ...[CTA_ID, CTA_ZONE].flatMap((type) => {
      const value = attributes.get(type);
      return value === undefined ? [] : [renderAttribute(type, value)];
    }),
  ];
  return [
    {
      protocol,
      vip: { family, ...asked.to },
      backend: { family, ...answering.from },
      key: Buffer.concat(key),
    },
  ];
}

function isTranslated(bits: Buffer | undefined): boolean {
  return bits?.length === 4 && (bits.readUInt32BE() & IPS_DST_NAT) !== 0;
}

interface Place {
  readonly address: string;
  readonly port: number;
}

interface Tuple {
  readonly protocol: number;
  readonly from: Place;
  readonly to: Place;
}

/** One direction of a connection; null for a protocol without ports. */
function parseTuple(bytes: Buffer, family: keyof typeof addressAttributes): Tuple | null {
  const parts = parseAttributes(bytes, 0);
  const addresses = parseAttributes(parts.get(CTA_TUPLE_IP) ?? nothing, 0);
  const ports = parseAttributes(parts.get(CTA_TUPLE_PROTO) ?? nothing, 0);
  const [source, destination] = addressAttributes[family];
  const from = toPlace(addresses.get(source), ports.get(CTA_PROTO_SRC_PORT));
  const to = toPlace(addresses.get(destination), ports.get(CTA_PROTO_DST_PORT));
  const protocol = ports.get(CTA_PROTO_NUM);
  return from === null || to === null || protocol?.length !== 1
    ? null
    : { protocol: protocol.readUInt8(), from, to };
}

const nothing = Buffer.alloc(0);

function toPlace(addressBytes: Buffer | undefined, port: Buffer | undefined): Place | null {
  const address = readAddressBytes(addressBytes);
  return address === null || port?.length !== 2 ? null : { address, port: port.readUInt16BE() };
}
