/**
 * Questions to the kernel over netlink, one at a time.
 *
 * Goal: poll twenty times a second for less than 1 % of a core.
 * Tension: the package's own `request` asks for an acknowledgement, and its promises and timers cost twice what the
 * kernel takes; its subscriptions would be cheaper still, but an overflowing one aborts the process (0.3.0).
 * Compromise: the package's raw socket, request and reply only, with the little framing that needs.
 */
import { getSystemErrorName } from 'node:util';
import type { RawNetlinkSocket } from 'netlink/dist/raw.js';
import { VipnatError } from '../../text/errors.ts';
import { scheduleLimit, systemClock } from '../../control/clock.ts';
import {
  type NetlinkMessage,
  NLMSG_DONE,
  NLMSG_ERROR,
  parseMessages,
  type ReadDatagram,
  renderMessage,
  type VisitAnswer,
  visitWith,
} from './netlink-messages.ts';
import { toolNotPermitted } from '../tools/tool-errors.ts';

/** Which part of the kernel is asked. */
export type NetlinkProtocol = 'netfilter' | 'route' | 'sock-diag';

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
export interface NetlinkTransaction {
  /** The part of netfilter that all types belong to: the high byte of each. */
  readonly subsystem: number;
  /** At least one; altogether less than the kernel takes at once, which is 200 kB. */
  readonly orders: readonly NetlinkOrder[];
  /** What is asked for, in words for a message. */
  readonly subject: string;
}

/** Opens its socket at the first request, and again after a failure. */
export interface NetlinkClient {
  /** The kernel's messages. Rejects with NETLINK_FAILED or TOOL_NOT_PERMITTED, a second after the kernel's last word, also when another request is pending. */
  request(request: NetlinkRequest): Promise<readonly NetlinkMessage[]>;
  /** Has a transaction done. Rejects as `request` does: the kernel has done nothing then, unless it did not answer. */
  commit(transaction: NetlinkTransaction): Promise<void>;
  /** Closes the socket. A later request would open a new one. */
  close(): void;
}

/** A client, as far as it answers questions one by one. */
export type NetlinkQuestioner = Pick<NetlinkClient, 'request'>;

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
 * A client with no socket yet; close it when done. One for lists reads long ones quicker: the kernel makes the parts of a list as large as it
 * was last asked for, and walks over all that it has told before at each part. 36,000 chains take 35 ms instead of 130 (Linux 6.18). But
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

  async function ask(
    { subject, isDump, visit, read }: Pick<NetlinkRequest, 'subject' | 'isDump' | 'visit' | 'read'>,
    render: (sequence: number) => Buffer,
  ) {
    if (isBusy) throw toNetlinkError(subject, new Error('another request is pending'));
    isBusy = true;
    try {
      socket ??= await openSocket(protocol, isForLists);
      // A socket has one question at a time, and ends with one that failed: no answer comes late.
      const number = read === undefined ? (sequence += 1) : 0;
      return await exchange(socket, { bytes: render(number), isDump, visit, read }, number);
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

interface Exchange {
  readonly bytes: Buffer;
  readonly isDump: boolean;
  readonly visit: VisitAnswer | undefined;
  readonly read: ReadDatagram | undefined;
}

async function exchange(
  socket: RawNetlinkSocket,
  { bytes, isDump, visit, read = visit === undefined ? parseMessages : visitWith(visit) }: Exchange,
  sequence: number,
): Promise<readonly NetlinkMessage[]> {
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
  // struct nfgenmsg: the subsystem stands in its last two bytes.
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
