import type { FlowSelection, SeenFlow, ForgottenFlow, BalancedFlow } from './port.ts';
import { formatEndpoint, type Endpoint, type Family, toAddressBytes, readAddressBytes } from '../net.ts';
import {
  withNetlinkClient,
  type NetlinkClient,
  isTaken,
  familyToNumber,
  nfgenmsgBytes,
  dumpList,
  type NetlinkQuestioner,
  visitList,
  type NetlinkList,
  renderAttribute,
  findAttribute,
  locateAttribute,
  findValueEnd,
} from './netlink.ts';
import { readAddressAges } from './addresses.ts';
import { readFile } from 'node:fs/promises';

/**
 * Deletes the conntrack entries of connections to a VIP that were sent to one backend; answers how many. The next
 * packet of such a connection is for the VIP holder itself, which knows nothing of it and answers with a reset. A
 * first packet that is sent again is balanced again. By the original destination, so nobody else's connections to this backend are met.
 */
export async function deleteFlows({ vip, backend, isHalfOpen }: FlowSelection): Promise<number> {
  const text = formatEndpoint(backend);
  const isChosen = (flow: SeenFlow) =>
    formatEndpoint(flow.backend) === text && !(isHalfOpen && flow.isAnswered);
  const choice = { ...vip, isHalfOpen };
  const forgotten = await withNetlinkClient('netfilter', (client) => forgetFlows(client, choice, isChosen));
  return forgotten.reduce((sum, { count }) => sum + count, 0);
}

/**
 * How many established connections to a VIP each backend has, by its text, see formatEndpoint. This host's own count, and those that had a packet
 * since the VIP last came here. When it goes the rest ends elsewhere, and the kernel keeps its entries for up to five days.
 */
export async function countFlows(vip: Endpoint): Promise<ReadonlyMap<string, number>> {
  const own = await readAddressAges();
  // Idle times are whole seconds, and most clients connect again in the first one.
  const termMs = (own.get(vip.address) ?? -Infinity) + 1000;
  const backendToCount = new Map<string, number>();
  await withNetlinkClient('netfilter', (client) =>
    visitConnections(client, vip, ({ backend, isEstablished, idleMs = 0 }, _, readClient) => {
      if (!isEstablished || !(idleMs <= termMs || own.has(readClient() ?? ''))) return;
      const text = formatEndpoint(backend);
      backendToCount.set(text, (backendToCount.get(text) ?? 0) + 1);
    }),
  );
  return backendToCount;
}

/**
 * Has the kernel forget the chosen ones of these connections; answers how many there were of each flow. A connection that its client has
 * opened again since it was listed, and that goes elsewhere, stays.
 */
export async function forgetFlows(
  client: NetlinkClient,
  choice: ConnectionChoice,
  isChosen: (flow: SeenFlow) => boolean,
): Promise<ForgottenFlow[]> {
  // Keys alone are kept: of a sweep they can be hundreds of thousands.
  const textToChosen = new Map<string, { readonly flow: BalancedFlow; readonly keys: Buffer[] }>();
  await visitConnections(client, choice, (seen, renderKey) => {
    if (!isChosen(seen)) return;
    const text = describeFlow(seen);
    const { protocol, vip, backend } = seen;
    const chosen = textToChosen.get(text) ?? { flow: { protocol, vip, backend }, keys: [] };
    textToChosen.set(text, chosen);
    chosen.keys.push(renderKey());
  });
  const forgotten: ForgottenFlow[] = [];
  for (const { flow, keys } of textToChosen.values()) {
    let count = 0;
    for (const key of keys) if (await forgetConnection(client, key)) count += 1;
    if (count > 0) forgotten.push({ ...flow, count });
  }
  return forgotten;
}

/** The text by which flows are compared: `tcp 10.0.9.10:80 10.244.1.2:8080`. */
export function describeFlow({ protocol, vip, backend }: BalancedFlow): string {
  return `${protocol} ${formatEndpoint(vip)} ${formatEndpoint(backend)}`;
}

/**
 * Ends this host's own TCP connections to a VIP that have the VIP as their source, as `ss -K` does; answers how many. Their
 * programs get ECONNABORTED. Takes a kernel with CONFIG_INET_DIAG_DESTROY. Rejects with NETLINK_FAILED or TOOL_NOT_PERMITTED.
 */
export async function abortOwnConnections(vip: Endpoint): Promise<number> {
  return await withNetlinkClient('sock-diag', async (client) => {
    let count = 0;
    for (const family of socketFamilies[vip.family]) {
      for (const socket of await listOwn(client, family, vip)) {
        const payload = renderRequest(family, socket);
        const subject = `the end of connections from ${vip.address} itself`;
        const request = { type: SOCK_DESTROY, payload, isOrder: true, subject };
        if (await isTaken(client, request, 'ENOENT')) count += 1;
      }
    }
    return count;
  });
}

// linux/sock_diag.h, linux/inet_diag.h
const SOCK_DIAG_BY_FAMILY = 20;
const SOCK_DESTROY = 21;

/** A socket for both families has its IPv4 addresses mapped into IPv6. */
const socketFamilies: Readonly<Record<Family, readonly Family[]>> = {
  ipv4: ['ipv4', 'ipv6'],
  ipv6: ['ipv6'],
};

/** Of include/net/tcp_states.h, all in which a program may wait: neither TIME_WAIT, CLOSE nor LISTEN. */
const openStates = [1, 2, 4, 5, 8, 9, 11].reduce((mask, state) => mask | (1 << state), 0);

/** struct inet_diag_req_v2: the struct inet_diag_sockid begins at 8; in struct inet_diag_msg it does at 4. */
const requestBytes = 56;
const idBytes = 48;
const messageBytes = 72;

/** The ids of the sockets from the VIP to the VIP. The kernel chooses by the port. */
async function listOwn(
  client: NetlinkClient,
  family: Family,
  { address, port }: Endpoint,
): Promise<Buffer[]> {
  const id = Buffer.alloc(idBytes);
  id.writeUInt16BE(port, 2);
  const messages = await dumpList(client, {
    question: SOCK_DIAG_BY_FAMILY,
    answer: SOCK_DIAG_BY_FAMILY,
    payload: renderRequest(family, id),
    leastBytes: messageBytes,
    subject: 'TCP connections',
  });
  return messages
    .map((data) => Buffer.from(data.subarray(4, 4 + idBytes)))
    .filter((one) => [4, 20].every((at) => readAddress(one.subarray(at, at + 16), family) === address));
}

function renderRequest(family: Family, id: Buffer): Buffer {
  const request = Buffer.alloc(requestBytes);
  request.writeUInt8(familyToNumber[family], 0);
  request.writeUInt8(IPPROTO_TCP, 1);
  request.writeUInt32LE(openStates, 4);
  id.copy(request, 8);
  return request;
}

/** As a VIP is written. */
function readAddress(bytes: Buffer, family: Family): string | null {
  if (family === 'ipv4') return bytes.subarray(0, 4).join('.');
  return readAddressBytes(bytes.subarray(0, 12).equals(mappedPrefix) ? bytes.subarray(12) : bytes);
}

/** ::ffff:0:0/96 */
const mappedPrefix = Buffer.from('00000000000000000000ffff', 'hex');

/** Takes a connection, what makes the key by which the kernel finds exactly this entry, and what tells who opened it. Must not throw. */
type VisitConnection = (flow: SeenFlow, renderKey: () => Buffer, readClient: () => string | null) => void;

/**
 * Which connections: those that were sent to another address than they asked for, also those that go where they asked, or all of TCP that asked
 * for an endpoint. Of these perhaps those alone that have no answer: a few, where a busy VIP has tens of thousands that ended.
 */
export type ConnectionChoice = 'translated' | 'all' | (Endpoint & { readonly isHalfOpen?: boolean });

/**
 * Shows TCP, UDP and SCTP connections of both families, whoever sent them where they go, as the
 * kernel lists them: without those in TIME_WAIT, most of a busy table. It keeps none: a table can have millions. One that comes, goes or moves meanwhile can be lacking, or shown twice.
 * What a visit is given works until it returns. Takes a client of the protocol netfilter, and rejects with NETLINK_FAILED, without
 * CAP_NET_ADMIN with TOOL_NOT_PERMITTED. The kernel reads its whole table, however few connections there are: 32 ms of a processor with 262,144
 * buckets. It hands over those of the choice only: of an endpoint since Linux 5.8, of those that were sent elsewhere since 5.15.
 */
export async function visitConnections(
  client: NetlinkQuestioner,
  choice: ConnectionChoice,
  visit: VisitConnection,
): Promise<void> {
  const [isChosen, readAddress] = [createFilter(choice), createAddressReader()];
  const limitSeconds = Number(await readFile(establishedLimit, 'utf8').catch(() => 0));
  const address = typeof choice === 'string' ? null : toAddressBytes(choice.address);
  await visitList(client, { ...connectionList, payload: renderChoice(choice) }, (datagram, start, end) => {
    const tuple = locateTuple(datagram, start, end, CTA_TUPLE_ORIG);
    // Skips others quickly: those of IPv6, and before Linux 5.8 all.
    if (address !== null && !hasBytes(datagram, tuple.destination, address)) return;
    const connection = parseConnection({ datagram, start, end, limitSeconds }, tuple, readAddress);
    if (connection === null || !isChosen(connection)) return;
    visit(
      connection.flow,
      () => renderKey(datagram.subarray(start, end)),
      () => readAddress(datagram, tuple.source),
    );
  });
}

/** Has the kernel forget a connection, by its key; answers whether it was there still. */
export async function forgetConnection(client: NetlinkQuestioner, payload: Buffer): Promise<boolean> {
  const request = { type: IPCTNL_MSG_CT_DELETE, payload, isOrder: true, subject: 'the end of a connection' };
  return await isTaken(client, request, 'ENOENT');
}

// linux/netfilter/nfnetlink_conntrack.h, nf_conntrack_common.h; NFNL_SUBSYS_CTNETLINK is 1.
const IPCTNL_MSG_CT_GET = 0x0101;
const IPCTNL_MSG_CT_DELETE = 0x0102;
const CTA_TUPLE_ORIG = 1;
const CTA_TUPLE_REPLY = 2;
const CTA_STATUS = 3;
const CTA_PROTOINFO = 4;
const CTA_TIMEOUT = 7;
const CTA_ID = 12;
const CTA_ZONE = 18;
const CTA_FILTER = 25;
const CTA_STATUS_MASK = 26;
const CTA_TUPLE_IP = 1;
const CTA_TUPLE_PROTO = 2;
const CTA_PROTO_NUM = 1;
const CTA_PROTO_SRC_PORT = 2;
const CTA_PROTO_DST_PORT = 3;
const CTA_PROTOINFO_TCP = 1;
const CTA_PROTOINFO_TCP_STATE = 1;
const CTA_FILTER_ORIG_FLAGS = 1;
/**
 * Protocol and destination port, and of IPv4 the destination: `enum ctattr_filter` of nf_internals.h. Of IPv6 Linux 6.18 hands over all but
 * those with the address (ctnetlink_filter_match_tuple).
 */
const askedFlags = { ipv4: (1 << 1) | (1 << 3) | (1 << 5), ipv6: (1 << 3) | (1 << 5) } as const;
/** TCP_CONNTRACK_ESTABLISHED. */
const establishedState = 3;
/** TCP_CONNTRACK_LAST_ACK and CLOSE: both sides have ended it, or one has reset it. */
const [lastAckState, closedState] = [6, 8];
/**
 * TCP_CONNTRACK_TIME_WAIT: the kernel replaces such an entry at the next SYN, and sends that where new connections go. In the two states
 * above it does not: a SYN can follow the entry to the former backend (nf_conntrack_tcp_packet of Linux 6.18).
 */
const replacedState = 7;
const IPS_SEEN_REPLY = 1 << 1;
const IPS_DST_NAT = 1 << 5;
const IPPROTO_TCP = 6;

/** Of CTA_TUPLE_IP: source and destination. */
const addressAttributes = { ipv4: [1, 2], ipv6: [3, 4] } as const;

const numberToProtocol: ReadonlyMap<number, BalancedFlow['protocol']> = new Map([
  [IPPROTO_TCP, 'tcp'],
  [17, 'udp'],
  [132, 'sctp'],
]);

const connectionList: Omit<NetlinkList, 'answer' | 'payload'> = {
  question: IPCTNL_MSG_CT_GET,
  leastBytes: nfgenmsgBytes,
  subject: 'connections',
};

/** What the kernel is asked for: it may hand over more. */
function renderChoice(choice: ConnectionChoice): Buffer {
  const header = Buffer.alloc(nfgenmsgBytes);
  switch (choice) {
    case 'all':
      return header;
    case 'translated':
      return Buffer.concat([header, renderStatus(IPS_DST_NAT, IPS_DST_NAT)]);
    default: {
      header.writeUInt8(familyToNumber[choice.family]);
      const flags = Buffer.alloc(4);
      flags.writeUInt32LE(askedFlags[choice.family]);
      return Buffer.concat([
        header,
        renderAttribute(CTA_TUPLE_ORIG, renderDestination(choice), true),
        renderAttribute(CTA_FILTER, renderAttribute(CTA_FILTER_ORIG_FLAGS, flags), true),
        ...(choice.isHalfOpen === true ? [renderStatus(0, IPS_SEEN_REPLY)] : []),
      ]);
    }
  }
}

/** Those whose status has these bits of a mask, and no others of it. */
function renderStatus(bits: number, mask: number): Buffer {
  const attributes = [CTA_STATUS, CTA_STATUS_MASK].map((type, at) => {
    const value = Buffer.alloc(4);
    value.writeUInt32BE([bits, mask][at] ?? 0);
    return renderAttribute(type, value);
  });
  return Buffer.concat(attributes);
}

/** The part of a tuple that `askedFlags` are about. */
function renderDestination({ family, address, port }: Endpoint): Buffer {
  const portBytes = Buffer.alloc(2);
  portBytes.writeUInt16BE(port);
  const ports = [
    renderAttribute(CTA_PROTO_NUM, Buffer.from([IPPROTO_TCP])),
    renderAttribute(CTA_PROTO_DST_PORT, portBytes),
  ];
  return Buffer.concat([
    renderAttribute(
      CTA_TUPLE_IP,
      renderAttribute(addressAttributes[family][1], toAddressBytes(address)),
      true,
    ),
    renderAttribute(CTA_TUPLE_PROTO, Buffer.concat(ports), true),
  ]);
}

/** The same choice: no kernel knows all of it. */
function createFilter(choice: ConnectionChoice): (connection: Connection) => boolean {
  if (choice === 'all') return () => true;
  if (choice === 'translated') return ({ isTranslated }) => isTranslated;
  return ({ flow: { protocol, vip } }) =>
    protocol === 'tcp' && vip.port === choice.port && vip.address === choice.address;
}

/** For how many seconds the kernel keeps an established connection after a packet. */
const establishedLimit = '/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established';

/** It keeps one for less that waits for an acknowledgement (nf_conntrack_tcp_timeout_unacknowledged): that tells nothing of its last packet. */
const unacknowledgedSeconds = 300;

interface Connection {
  readonly flow: SeenFlow;
  readonly isTranslated: boolean;
}

interface ConnectionMessage extends Readonly<Record<'start' | 'end' | 'limitSeconds', number>> {
  readonly datagram: Buffer;
}

/** Null for what has no ports, and for what the next SYN replaces. No part is copied: a list has hundreds of thousands of them. */
function parseConnection(
  message: ConnectionMessage,
  asked: Tuple,
  readAddress: ReadAddress,
): Connection | null {
  const { datagram, start, end } = message;
  const state = readState(datagram, start, end);
  if (state === replacedState) return null;
  const answering = locateTuple(datagram, start, end, CTA_TUPLE_REPLY);
  const protocol = numberToProtocol.get(readNumber(datagram, asked.protocol, 1));
  const vip = readAddress(datagram, asked.destination);
  const backend = readAddress(datagram, answering.source);
  const vipPort = readNumber(datagram, asked.destinationPort, 2);
  const backendPort = readNumber(datagram, answering.sourcePort, 2);
  if (protocol === undefined || vip === null || backend === null || vipPort < 0 || backendPort < 0)
    return null;
  const { family } = asked;
  const status = Math.max(0, readNumber(datagram, locate(datagram, start, end, CTA_STATUS), 4));
  return {
    flow: {
      protocol,
      vip: { family, address: vip, port: vipPort },
      backend: { family, address: backend, port: backendPort },
      isAnswered: (status & IPS_SEEN_REPLY) !== 0 && state !== closedState,
      isEstablished: state === establishedState,
      isOpen: state !== lastAckState && state !== closedState,
      idleMs: state === establishedState ? readIdleMs(message) : 0,
    },
    isTranslated: (status & IPS_DST_NAT) !== 0,
  };
}

function readIdleMs({ datagram, start, end, limitSeconds }: ConnectionMessage): number {
  const leftSeconds = readNumber(datagram, locate(datagram, start, end, CTA_TIMEOUT), 4);
  return leftSeconds > unacknowledgedSeconds ? Math.max(0, limitSeconds - leftSeconds) * 1000 : 0;
}

/**
 * Of a connection that `parseConnection` knows. Without a tuple the kernel would forget all that it has. The tuple of the answers names the
 * backend. The client's own tuple and the id can be a later connection's: the id is a hash of that tuple and of the entry's place in memory.
 */
function renderKey(data: Buffer): Buffer {
  return Buffer.concat([
    data.subarray(0, nfgenmsgBytes),
    ...[CTA_TUPLE_REPLY, CTA_ID, CTA_ZONE].flatMap((type) => {
      const value = findAttribute(data, nfgenmsgBytes, type);
      return value === undefined ? [] : [renderAttribute(type, value, type === CTA_TUPLE_REPLY)];
    }),
  ]);
}

/** Of TCP; 0 for other protocols, which have none. */
function readState(datagram: Buffer, start: number, end: number): number {
  const ofTcp = locateIn(datagram, locate(datagram, start, end, CTA_PROTOINFO), CTA_PROTOINFO_TCP);
  return Math.max(0, readNumber(datagram, locateIn(datagram, ofTcp, CTA_PROTOINFO_TCP_STATE), 1));
}

/** Where the parts of one direction of a connection begin; -1 for those that are not there. */
interface Tuple {
  readonly family: Family;
  readonly protocol: number;
  readonly source: number;
  readonly sourcePort: number;
  readonly destination: number;
  readonly destinationPort: number;
}

function locateTuple(datagram: Buffer, start: number, end: number, type: number): Tuple {
  const family = datagram.readUInt8(start) === familyToNumber.ipv6 ? 'ipv6' : 'ipv4';
  const tuple = locate(datagram, start, end, type);
  const addresses = locateIn(datagram, tuple, CTA_TUPLE_IP);
  const ports = locateIn(datagram, tuple, CTA_TUPLE_PROTO);
  const [source, destination] = addressAttributes[family];
  return {
    family,
    protocol: locateIn(datagram, ports, CTA_PROTO_NUM),
    source: locateIn(datagram, addresses, source),
    sourcePort: locateIn(datagram, ports, CTA_PROTO_SRC_PORT),
    destination: locateIn(datagram, addresses, destination),
    destinationPort: locateIn(datagram, ports, CTA_PROTO_DST_PORT),
  };
}

/** Of the attributes of a connection. */
function locate(datagram: Buffer, start: number, end: number, type: number): number {
  return locateAttribute(datagram, start + nfgenmsgBytes, end, type);
}

/** Of the attributes that the value at a place is made of. */
function locateIn(datagram: Buffer, at: number, type: number): number {
  return at === -1 ? -1 : locateAttribute(datagram, at, findValueEnd(datagram, at), type);
}

/** As it is in a packet; -1 where it is not there, or of another length. */
function readNumber(datagram: Buffer, at: number, bytes: 1 | 2 | 4): number {
  return at === -1 || findValueEnd(datagram, at) - at !== bytes ? -1 : datagram.readUIntBE(at, bytes);
}

function hasBytes(datagram: Buffer, at: number, bytes: Buffer): boolean {
  if (at === -1 || findValueEnd(datagram, at) - at !== bytes.length) return false;
  // Quicker than `compare`, a call out of JavaScript for each connection.
  for (let index = 0; index < bytes.length; index += 1)
    if (datagram[at + index] !== bytes[index]) return false;
  return true;
}

type ReadAddress = (datagram: Buffer, at: number) => string | null;

/** Most connections have few addresses in common, and to write one of IPv6 takes longer than all else. */
function createAddressReader(): ReadAddress {
  const keyToText = new Map<number | string, string | null>();
  return (datagram, at) => {
    if (at === -1) return null;
    const end = findValueEnd(datagram, at);
    const key = end - at === 4 ? datagram.readUInt32BE(at) : datagram.toString('latin1', at, end);
    const known = keyToText.get(key);
    if (known !== undefined) return known;
    if (keyToText.size === maxKnown) keyToText.clear();
    const text = readAddressBytes(datagram.subarray(at, end));
    keyToText.set(key, text);
    return text;
  };
}

/** Some 100 kB, while a list is read. */
const maxKnown = 1000;
