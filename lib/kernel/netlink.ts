import { VipnatError } from '../errors.ts';
import type { RawNetlinkSocket } from 'netlink/dist/raw.js';
import { scheduleLimit, systemClock } from '../clock.ts';
import { getSystemErrorName } from 'node:util';
import { toolNotPermitted } from './tools.ts';
import type { Family } from '../net.ts';

/** A list of the kernel's, as it is asked for and as it comes. */
export interface NetlinkList {
  /** The type of the question, for example RTM_GETADDR. */
  readonly question: number;
  /** The type of its answers, for example RTM_NEWADDR. */
  readonly answer: number;
  /** What follows the header of the question: a struct, mostly of zeros. */
  readonly payload: Buffer;
  /** How many bytes the struct has that begins each answer. */
  readonly leastBytes: number;
  /** What is listed, in words for a message: `addresses`. */
  readonly subject: string;
}

/** What follows the header in each answer, in the kernel's order. Rejects with NETLINK_FAILED, also if others keep changing the list. */
export async function dumpList(client: NetlinkQuestioner, list: NetlinkList): Promise<Buffer[]> {
  for (let attempt = 0; attempt < dumpAttempts; attempt += 1) {
    const { entries, isWhole } = await dumpOnce(client, list);
    if (isWhole) return entries;
  }
  throw new VipnatError('NETLINK_FAILED', `the list of ${list.subject} kept changing while it was read`);
}

/**
 * The same of a list of which thousands may come and go, and few matter. If others keep changing it, this is what either of the last two
 * readings has: so it has all that was there all along, and nothing that went before them. Rejects with NETLINK_FAILED for other reasons only.
 */
export async function dumpBusyList(client: NetlinkQuestioner, list: NetlinkList): Promise<Buffer[]> {
  let before: readonly Buffer[] = [];
  for (let attempt = 1; ; attempt += 1) {
    const { entries, isWhole } = await dumpOnce(client, list);
    if (isWhole) return entries;
    if (attempt === busyAttempts) return unite(entries, before);
    before = entries;
  }
}

/**
 * Visits the same, of a list that is long, or that others change all the time, as nftables with each commit of anybody. The list can
 * lack or repeat entries that came or went meanwhile, and the entries next to these.
 */
export async function visitList(
  client: NetlinkQuestioner,
  { question: type, payload, leastBytes, subject }: Omit<NetlinkList, 'answer'>,
  visit: VisitAnswer,
): Promise<void> {
  await client.request({
    ...{ type, payload, isDump: true, subject: `its ${subject}` },
    visit: (datagram, start, end) => {
      if (end - start >= leastBytes) visit(datagram, start, end);
    },
  });
}

// linux/netlink.h
const NLM_F_DUMP_INTR = 0x10;

/** A list that changed while it was read is marked so, and is wrong; a host that changes it five times in a row is not settled anyway. */
const dumpAttempts = 5;

/** Each costs milliseconds where the list is long, and where others change it all the time a third is no better. */
const busyAttempts = 2;

async function dumpOnce(
  client: NetlinkQuestioner,
  { question: type, answer, payload, leastBytes, subject }: NetlinkList,
): Promise<{ readonly entries: Buffer[]; readonly isWhole: boolean }> {
  const messages = await client.request({ type, payload, isDump: true, subject: `its ${subject}` });
  const entries = messages.filter((message) => message.type === answer).map(({ data }) => data);
  if (entries.some(({ length }) => length < leastBytes)) {
    throw new VipnatError('NETLINK_FAILED', `the kernel lists one of its ${subject} that is cut short`);
  }
  return { entries, isWhole: messages.every(({ flags }) => (flags & NLM_F_DUMP_INTR) === 0) };
}

/** Both, each entry once; the first list comes first. */
function unite(entries: readonly Buffer[], others: readonly Buffer[]): Buffer[] {
  return [...new Map([...entries, ...others].map((entry) => [entry.toString('latin1'), entry])).values()];
}

/**
 * Questions to the kernel over netlink, one at a time.
 *
 * Goal: poll twenty times a second for less than 1 % of a core.
 * Tension: the package's own `request` asks for an acknowledgement, and its promises and timers cost twice what the
 * kernel takes; its subscriptions would be cheaper still, but an overflowing one aborts the process (0.3.0).
 * Compromise: the package's raw socket, request and reply only, with the little framing that needs.
 */

/** Which part of the kernel is asked. */
type NetlinkProtocol = 'netfilter' | 'route' | 'sock-diag';

/** One question. */
export interface NetlinkRequest {
  /** The message type, for example RTM_GETADDR. */
  readonly type: number;
  /** What follows the netlink header. */
  readonly payload: Buffer;
  /** Whether the answer is a list. */
  readonly isDump: boolean;
  /** Whether it asks for something to be done, and made where it is not there: then the answer is an empty list. */
  readonly isOrder?: boolean;
  /** What is asked for, in words for a message: `the nftables generation`. */
  readonly subject: string;
  /** For long lists: called with each answer, which is not kept then. Must not throw. */
  readonly visit?: VisitAnswer;
  /** For lists that are asked for all the time, in place of `visit`: reads each part. An equal list comes in equal bytes then. */
  readonly read?: ReadDatagram;
}

/** One of several orders that netfilter is given together. */
export type NetlinkOrder = Pick<NetlinkRequest, 'type' | 'payload'> & {
  /** Whether something is to be made where it is not there. */
  readonly isCreation: boolean;
};

/** Orders of which netfilter follows all, or none. */
interface NetlinkTransaction {
  /** The part of netfilter that all types belong to: the high byte of each. */
  readonly subsystem: number;
  /** At least one; altogether less than the kernel takes in one write, which is 200 kB. */
  readonly orders: readonly NetlinkOrder[];
  /** What is asked for, in words for a message. */
  readonly subject: string;
}

/** Opens its socket at the first request, and again after a failure. */
export interface NetlinkClient {
  /** The kernel's messages. Rejects with NETLINK_FAILED or TOOL_NOT_PERMITTED, a second after its last message, also when another request is pending. */
  request(request: NetlinkRequest): Promise<readonly NetlinkMessage[]>;
  /** Has a transaction done. Rejects as `request` does: the kernel has done nothing then, unless it did not answer. */
  commit(transaction: NetlinkTransaction): Promise<void>;
  /** Closes the socket. A later request would open a new one. */
  close(): void;
}

/** A client, as far as it answers questions one by one. */
export type NetlinkQuestioner = Pick<NetlinkClient, 'request'>;

/** Makes a request, and answers whether the kernel took it: false where it refused it by this code, such as ENOENT. Rejects as `request` does. */
export async function isTaken(
  client: NetlinkQuestioner,
  request: Omit<NetlinkRequest, 'isDump'>,
  refusal: string,
): Promise<boolean> {
  try {
    await client.request({ ...request, isDump: false });
    return true;
  } catch (error) {
    const { cause } = error as { cause?: NodeJS.ErrnoException };
    if (cause?.code === refusal) return false;
    throw error;
  }
}

/** Gives a client to what has several requests in a row, and closes it afterwards; one for lists if asked. */
export async function withNetlinkClient<T>(
  protocol: NetlinkProtocol,
  use: (client: NetlinkClient) => Promise<T>,
  isForLists = false,
): Promise<T> {
  const client = createNetlinkClient(protocol, isForLists);
  try {
    return await use(client);
  } finally {
    client.close();
  }
}

/**
 * A client with no socket yet; close it when done. One for lists reads long ones quicker. The kernel makes the parts of a list as large as it
 * was last asked for. At each part it rereads all that it has sent before. 36,000 chains take 35 ms instead of 130 (Linux 6.18). But
 * each answer, however short, takes 32 kB until it is collected.
 */
export function createNetlinkClient(protocol: NetlinkProtocol, isForLists = false): NetlinkClient {
  let socket: RawNetlinkSocket | null = null;
  let sequence = 0;
  let isBusy = false;

  function close(): void {
    socket?.close();
    socket = null;
  }

  async function ask(request: Question & { readonly subject: string }, render: (sequence: number) => Buffer) {
    const { subject } = request;
    if (isBusy) throw toNetlinkError(subject, new Error('another request is pending'));
    isBusy = true;
    try {
      socket ??= await openSocket(protocol, isForLists);
      // A socket has one question at a time, and ends with one that failed: no answer comes late.
      const number = request.read === undefined ? (sequence += 1) : 0;
      return await exchange(socket, { ...request, bytes: render(number) }, number);
    } catch (error) {
      close();
      throw toNetlinkError(subject, error);
    } finally {
      isBusy = false;
    }
  }

  return {
    request: (request) => ask(request, (number) => frame(request, number)),
    async commit(transaction) {
      const { subject } = transaction;
      await ask({ subject, isDump: false }, (number) => frameTransaction(transaction, number));
    },
    close,
  };
}

/** Protocol numbers of linux/netlink.h. */
const protocolToNumber: Record<NetlinkProtocol, number> = { route: 0, 'sock-diag': 4, netfilter: 12 };

/** A list is read in parts as large as the kernel makes them. 0 leaves the kernel's own sizes. */
const longLists = {
  ...{ messagePeeking: false, msgBufferSize: 32 * 1024 },
  ...{ recvBufferSize: 0, sendBufferSize: 0 },
};

async function openSocket(protocol: NetlinkProtocol, isForLists: boolean): Promise<RawNetlinkSocket> {
  // Imported late: loading the native addon costs 20 ms, and most commands never get here.
  const { RawNetlinkSocket } = await import('netlink/dist/raw.js');
  const socket = new RawNetlinkSocket(protocolToNumber[protocol], isForLists ? longLists : undefined);
  socket.unref();
  // An 'error' event without a listener aborts the process (netlink 0.3.0).
  socket.on('error', () => undefined);
  return socket;
}

/** Between two parts of a long list, too. The kernel answers in microseconds; a lost answer would otherwise be waited for for ever. */
const answerLimitMs = 1000;

type Question = Pick<NetlinkRequest, 'isDump' | 'visit' | 'read'>;

async function exchange(
  socket: RawNetlinkSocket,
  { bytes, isDump, visit, read: given }: Question & { readonly bytes: Buffer },
  sequence: number,
): Promise<readonly NetlinkMessage[]> {
  const read = given ?? (visit === undefined ? parseMessages : visitWith(visit));
  const { promise, resolve, reject } = Promise.withResolvers<readonly NetlinkMessage[]>();
  const messages: NetlinkMessage[] = [];
  // What throws in a 'message' handler aborts the process (netlink 0.3.0): all of it stays within the promise.
  const startLimit = () =>
    scheduleLimit(systemClock, answerLimitMs, () => {
      reject(new Error(`no answer within ${answerLimitMs} ms`));
    });
  let cancelLimit = startLimit();
  const onMessage = (datagram: Buffer) => {
    cancelLimit();
    cancelLimit = startLimit();
    try {
      const found = read(datagram, sequence).filter((message) => message.sequence === sequence);
      messages.push(...found);
      if (isComplete(found.at(-1), isDump)) resolve(withoutEnd(messages));
    } catch (error) {
      reject(error instanceof Error ? error : new Error(String(error)));
    }
  };
  socket.on('message', onMessage).once('error', reject);
  socket.send(bytes);
  try {
    return await promise;
  } finally {
    cancelLimit();
    socket.off('message', onMessage).off('error', reject);
  }
}

// linux/netlink.h
const NLM_F_ACK = 0x004;
const NLM_F_CREATE = 0x400;
const NLM_F_DUMP = 0x300;
// linux/netfilter/nfnetlink.h
const NFNL_MSG_BATCH_BEGIN = 0x10;
const NFNL_MSG_BATCH_END = 0x11;

function frame({ type, payload, isDump, isOrder = false }: NetlinkRequest, sequence: number): Buffer {
  const flags = (isDump ? NLM_F_DUMP : 0) | (isOrder ? NLM_F_ACK | NLM_F_CREATE : 0);
  return renderMessage({ type, payload, flags }, sequence);
}

/**
 * All messages have one number. The kernel answers each that it refuses, and the last, which alone asks for an answer: so the first
 * answer says what has become of all.
 */
function frameTransaction({ subsystem, orders }: NetlinkTransaction, sequence: number): Buffer {
  // struct nfgenmsg: the subsystem is in its last two bytes.
  const payload = Buffer.from([0, 0, subsystem >> 8, subsystem & 0xff]);
  const messages = orders.map(({ isCreation, ...order }, at) => {
    const answer = at === orders.length - 1 ? NLM_F_ACK : 0;
    return { ...order, flags: answer | (isCreation ? NLM_F_CREATE : 0) };
  });
  const begin = { type: NFNL_MSG_BATCH_BEGIN, payload, flags: 0 };
  const end = { type: NFNL_MSG_BATCH_END, payload, flags: 0 };
  return Buffer.concat([begin, ...messages, end].map((message) => renderMessage(message, sequence)));
}

function isComplete(last: NetlinkMessage | undefined, isDump: boolean): boolean {
  if (last === undefined) return false;
  return !isDump || last.type === NLMSG_DONE || last.type === NLMSG_ERROR;
}

/** Throws when the end says that the kernel refused; DONE carries an error number too. */
function withoutEnd(messages: readonly NetlinkMessage[]): readonly NetlinkMessage[] {
  const last = messages.at(-1);
  if (last === undefined || (last.type !== NLMSG_ERROR && last.type !== NLMSG_DONE)) return messages;
  const errno = last.data.length >= 4 ? -last.data.readInt32LE() : 0;
  if (errno > 0) throw refuse(getSystemErrorName(-errno));
  return messages.slice(0, -1);
}

const refuse = (code: string) => Object.assign(new Error(code), { code });

function toNetlinkError(subject: string, error: unknown): VipnatError {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'EPERM' || code === 'EACCES')
    return toolNotPermitted(`asking the kernel for ${subject}`, code);
  const reason = error instanceof Error ? error.message : String(error);
  return new VipnatError('NETLINK_FAILED', `asking the kernel for ${subject} failed: ${reason}`, {
    cause: error,
  });
}

/** One netlink message; linux/netlink.h, struct nlmsghdr. */
export interface NetlinkMessage {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  /** What follows the header. */
  readonly data: Buffer;
}

/** The messages of one datagram, each whole. From a malformed one on, all is left out. */
export function parseMessages(datagram: Buffer): NetlinkMessage[] {
  const messages: NetlinkMessage[] = [];
  for (let at = 0; at + headerBytes <= datagram.length;) {
    const length = datagram.readUInt32LE(at);
    if (length < headerBytes || length > datagram.length - at) break;
    messages.push({
      type: datagram.readUInt16LE(at + 4),
      flags: datagram.readUInt16LE(at + 6),
      sequence: datagram.readUInt32LE(at + 8),
      data: datagram.subarray(at + headerBytes, at + length),
    });
    at += align(length);
  }
  return messages;
}

/** Reads an answer in place in what the kernel sent: from `start`, after its header, to `end`. What is sent is nobody else's. */
type VisitAnswer = (datagram: Buffer, start: number, end: number) => void;

/** Reads one datagram of the answers to the question of a number; answers what is no answer: their end, and all after it. */
type ReadDatagram = (datagram: Buffer, sequence: number) => readonly NetlinkMessage[];

/** Reads datagrams by a visit of each answer. */
export function visitWith(visit: VisitAnswer): ReadDatagram {
  return (datagram, sequence) => {
    for (let at = 0; at + headerBytes <= datagram.length;) {
      const length = datagram.readUInt32LE(at);
      if (length < headerBytes || length > datagram.length - at) break;
      const type = datagram.readUInt16LE(at + 4);
      if (type === NLMSG_DONE || type === NLMSG_ERROR) return parseMessages(datagram.subarray(at));
      if (datagram.readUInt32LE(at + 8) === sequence) visit(datagram, at + headerBytes, at + length);
      at += align(length);
    }
    return [];
  };
}

/** The type of a message that ends the answers, with an error or the number 0: linux/netlink.h. */
const NLMSG_ERROR = 2;

/** The type of the message that ends a list: linux/netlink.h. */
const NLMSG_DONE = 3;

/** Attribute type to value, of the attributes that start at `offset`, each whole. A malformed rest is left out. */
export function parseAttributes(message: Buffer, offset: number): Map<number, Buffer> {
  const attributes = new Map<number, Buffer>();
  visitAttributes(message, offset, message.length, (type, start, end) => {
    attributes.set(type, message.subarray(start, end));
  });
  return attributes;
}

/**
 * Visits the attributes from `start` to `end` in place, each whole and in their order; a type can come more than once. A malformed
 * rest is left out. This is quick where there are many messages.
 */
export function visitAttributes(message: Buffer, start: number, end: number, visit: VisitAttribute): void {
  for (let at = start; at + attributeHeaderBytes <= end;) {
    const length = message.readUInt16LE(at);
    if (length < attributeHeaderBytes || length > end - at) return;
    visit(message.readUInt16LE(at + 2) & attributeTypeMask, at + attributeHeaderBytes, at + length);
    at += align(length);
  }
}

/** The value of the first attribute of a type, of those that start at `offset`; undefined where none is whole. Quicker than a map of all. */
export function findAttribute(message: Buffer, offset: number, type: number): Buffer | undefined {
  const at = locateAttribute(message, offset, message.length, type);
  return at === -1 ? undefined : message.subarray(at, findValueEnd(message, at));
}

/** Where that value begins, of the attributes from `start` to `end`; -1 where none is whole. For messages of which there are thousands. */
export function locateAttribute(message: Buffer, start: number, end: number, type: number): number {
  for (let at = start; at + attributeHeaderBytes <= end;) {
    const length = message.readUInt16LE(at);
    if (length < attributeHeaderBytes || length > end - at) return -1;
    if ((message.readUInt16LE(at + 2) & attributeTypeMask) === type) return at + attributeHeaderBytes;
    at += align(length);
  }
  return -1;
}

/** Where a value ends that `locateAttribute` has found. */
export function findValueEnd(message: Buffer, at: number): number {
  return at - attributeHeaderBytes + message.readUInt16LE(at - attributeHeaderBytes);
}

/** An attribute's type, and where its value starts and ends. */
type VisitAttribute = (type: number, start: number, end: number) => void;

/** One message to the kernel, padded to a multiple of four. `flags` are added to NLM_F_REQUEST. */
export function renderMessage(
  { type, payload, flags }: { type: number; payload: Buffer; flags: number },
  sequence: number,
): Buffer {
  const header = Buffer.alloc(headerBytes);
  header.writeUInt32LE(headerBytes + payload.length, 0);
  header.writeUInt16LE(type, 4);
  header.writeUInt16LE(NLM_F_REQUEST | flags, 6);
  header.writeUInt32LE(sequence, 8);
  return Buffer.concat([header, payload, Buffer.alloc(-payload.length & 3)]);
}

// linux/netlink.h
const NLM_F_REQUEST = 0x001;

/** The kernel's numbers of the families: AF_INET and AF_INET6 of linux/socket.h, NFPROTO_IPV4 and NFPROTO_IPV6 of linux/netfilter.h. */
export const familyToNumber: Readonly<Record<Family, number>> = { ipv4: 2, ipv6: 10 };

/** The bytes of a struct nfgenmsg: it begins each of netfilter's messages. */
export const nfgenmsgBytes = 4;

/** One attribute, as a message has it: padded to a multiple of four. `isNested` where its value is made of attributes. */
export function renderAttribute(type: number, value: Buffer, isNested = false): Buffer {
  const attribute = Buffer.alloc(align(attributeHeaderBytes + value.length));
  attribute.writeUInt16LE(attributeHeaderBytes + value.length, 0);
  attribute.writeUInt16LE(isNested ? type | NLA_F_NESTED : type, 2);
  value.copy(attribute, attributeHeaderBytes);
  return attribute;
}

const headerBytes = 16;
const attributeHeaderBytes = 4;

/** The two high bits are NLA_F_NESTED and NLA_F_NET_BYTEORDER. */
const NLA_F_NESTED = 0x8000;
const attributeTypeMask = 0x3fff;

/** Messages and attributes start at multiples of four. */
function align(length: number): number {
  return (length + 3) & ~3;
}

/** Who answers for the kernel: one for what is short, and one for lists, see createNetlinkClient. */
export interface RuleClients {
  readonly short: NetlinkQuestioner;
  readonly long: NetlinkQuestioner;
}

/** Gives both clients, and closes them afterwards. */
export async function withRuleClients<T>(use: (clients: RuleClients) => Promise<T>): Promise<T> {
  return await withNetlinkClient('netfilter', (short) =>
    withNetlinkClient('netfilter', (long) => use({ short, long }), true),
  );
}

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
  const id = message && findAttribute(message.data, nfgenmsgBytes, NFTA_GEN_ID);
  if (id?.length !== 4) throw new VipnatError('NETLINK_FAILED', 'the kernel named no nftables generation');
  return id.readUInt32BE();
}

/** NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN, linux/netfilter/nf_tables.h. */
const NFT_MSG_GETGEN = 0x0a10;
const NFTA_GEN_ID = 1;

/**
 * The handles of the tables of a name in the families ip and ip6: another handle is another table. Null where a family has none.
 * What it costs does not grow with their rules. Takes a client of the protocol netfilter, and rejects with NETLINK_FAILED, without CAP_NET_ADMIN with TOOL_NOT_PERMITTED.
 */
export async function readTableHandles(
  client: NetlinkQuestioner,
  name: string,
): Promise<Readonly<Record<Family, number | null>>> {
  const tables = await dumpList(client, tableList);
  const find = (family: Family) => {
    const handle = tables
      .filter((data) => data.readUInt8(0) === familyToNumber[family])
      .map((data) => parseAttributes(data, nfgenmsgBytes))
      .find((one) => one.get(NFTA_TABLE_NAME)?.toString().replace(/\0$/, '') === name)
      ?.get(NFTA_TABLE_HANDLE);
    return handle?.length === 8 ? Number(handle.readBigUInt64BE()) : null;
  };
  return { ipv4: find('ipv4'), ipv6: find('ipv6') };
}

// linux/netfilter/nf_tables.h
const NFT_MSG_NEWTABLE = 0x0a00;
const NFT_MSG_GETTABLE = 0x0a01;
const NFTA_TABLE_NAME = 1;
const NFTA_TABLE_HANDLE = 4;

const tableList: NetlinkList = {
  question: NFT_MSG_GETTABLE,
  answer: NFT_MSG_NEWTABLE,
  payload: Buffer.alloc(nfgenmsgBytes),
  leastBytes: nfgenmsgBytes,
  subject: 'tables',
};
