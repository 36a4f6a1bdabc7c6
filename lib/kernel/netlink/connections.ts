/** The kernel's table of connections (conntrack), asked and changed without a tool. */
import { type BalancedFlow, type SeenFlow } from '../port.ts';
import { readAddressBytes } from '../../address/bytes.ts';
import { type NetlinkQuestioner } from './netlink.ts';
import { type NetlinkList, visitList } from './netlink-dump.ts';
import { parseAttributes, renderAttribute } from './netlink-messages.ts';

/** Takes a connection, and what makes the key by which the kernel finds exactly this entry. Must not throw. */
export type VisitConnection = (flow: SeenFlow, renderKey: () => Buffer) => void;

/** Which connections: those that were sent to another address than they asked for, or also those that go where they asked. */
export type ConnectionChoice = 'translated' | 'all';

/**
 * Shows TCP, UDP and SCTP connections of both families, whoever sent them where they go, as the
 * kernel lists them. It keeps none: a table can have millions. One that comes, goes or moves meanwhile can be lacking, or shown twice.
 * `renderKey` works until `visit` returns. Takes a client of the protocol netfilter, and rejects with NETLINK_FAILED, without CAP_NET_ADMIN
 * with TOOL_NOT_PERMITTED. The kernel walks its whole table, however few connections there are: 32 ms of a processor with 262,144 buckets.
 */
export async function visitConnections(
  client: NetlinkQuestioner,
  choice: ConnectionChoice,
  visit: VisitConnection,
): Promise<void> {
  const { list, statuses } = choiceToList[choice];
  await visitList(client, list, (datagram, start, end) => {
    const data = datagram.subarray(start, end);
    const attributes = parseAttributes(data, nfgenmsgBytes);
    // Linux before 5.15 lists all connections whatever is asked.
    if (statuses !== 0 && !hasStatus(attributes.get(CTA_STATUS), statuses)) return;
    const flow = parseFlow(data, attributes);
    if (flow !== null) visit(flow, () => renderKey(data, attributes));
  });
}

/** Has the kernel forget a connection, by its key; answers whether it was there still. */
export async function forgetConnection(client: NetlinkQuestioner, payload: Buffer): Promise<boolean> {
  const subject = 'the end of a connection';
  try {
    await client.request({ type: IPCTNL_MSG_CT_DELETE, payload, isDump: false, isOrder: true, subject });
    return true;
  } catch (error) {
    if (((error as Error).cause as NodeJS.ErrnoException | undefined)?.code === 'ENOENT') return false;
    throw error;
  }
}

// linux/netfilter/nfnetlink_conntrack.h, nf_conntrack_common.h; NFNL_SUBSYS_CTNETLINK is 1.
const IPCTNL_MSG_CT_GET = 0x0101;
const IPCTNL_MSG_CT_DELETE = 0x0102;
const CTA_TUPLE_ORIG = 1;
const CTA_TUPLE_REPLY = 2;
const CTA_STATUS = 3;
const CTA_PROTOINFO = 4;
const CTA_ID = 12;
const CTA_ZONE = 18;
const CTA_STATUS_MASK = 26;
const CTA_TUPLE_IP = 1;
const CTA_TUPLE_PROTO = 2;
const CTA_PROTO_NUM = 1;
const CTA_PROTO_SRC_PORT = 2;
const CTA_PROTO_DST_PORT = 3;
const CTA_PROTOINFO_TCP = 1;
const CTA_PROTOINFO_TCP_STATE = 1;
/** TCP_CONNTRACK_LAST_ACK, TIME_WAIT and CLOSE: both sides have ended it, or one has reset it. */
const endedStates: readonly number[] = [6, 7, 8];
const IPS_SEEN_REPLY = 1 << 1;
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

const allConnections: Omit<NetlinkList, 'answer'> = {
  question: IPCTNL_MSG_CT_GET,
  payload: Buffer.alloc(nfgenmsgBytes),
  leastBytes: nfgenmsgBytes,
  subject: 'connections',
};

const choiceToList = {
  all: { list: allConnections, statuses: 0 },
  translated: {
    list: {
      ...allConnections,
      payload: Buffer.concat([
        allConnections.payload,
        renderAttribute(CTA_STATUS, status),
        renderAttribute(CTA_STATUS_MASK, status),
      ]),
    },
    statuses: IPS_DST_NAT,
  },
} as const;

type Attributes = ReadonlyMap<number, Buffer>;

/** Null for what has no ports. */
function parseFlow(data: Buffer, attributes: Attributes): SeenFlow | null {
  const [original, reply] = [attributes.get(CTA_TUPLE_ORIG), attributes.get(CTA_TUPLE_REPLY)];
  if (original === undefined || reply === undefined) return null;
  const family = data.readUInt8(0) === AF_INET6 ? 'ipv6' : 'ipv4';
  const [asked, answering] = [parseTuple(original, family), parseTuple(reply, family)];
  const protocol = numberToProtocol.get(asked?.protocol ?? 0);
  if (asked === null || answering === null || protocol === undefined) return null;
  return {
    protocol,
    vip: { family, ...asked.to },
    backend: { family, ...answering.from },
    isAnswered: hasStatus(attributes.get(CTA_STATUS), IPS_SEEN_REPLY),
    isOpen: isOpen(attributes.get(CTA_PROTOINFO)),
  };
}

/** Of a connection that `parseFlow` knows. Without a tuple the kernel would forget all that it has. */
function renderKey(data: Buffer, attributes: Attributes): Buffer {
  return Buffer.concat([
    data.subarray(0, nfgenmsgBytes),
    ...[CTA_TUPLE_ORIG, CTA_ID, CTA_ZONE].flatMap((type) => {
      const value = attributes.get(type);
      return value === undefined ? [] : [renderAttribute(type, value, type === CTA_TUPLE_ORIG)];
    }),
  ]);
}

function hasStatus(bits: Buffer | undefined, bit: number): boolean {
  return bits?.length === 4 && (bits.readUInt32BE() & bit) !== 0;
}

/** Other protocols than TCP say nothing of their end. */
function isOpen(info: Buffer = nothing): boolean {
  const ofTcp = parseAttributes(info, 0).get(CTA_PROTOINFO_TCP) ?? nothing;
  const state = parseAttributes(ofTcp, 0).get(CTA_PROTOINFO_TCP_STATE);
  return state?.length !== 1 || !endedStates.includes(state.readUInt8());
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
