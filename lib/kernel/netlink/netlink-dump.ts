import { VipnatError } from '../../text/errors.ts';
import { type NetlinkQuestioner } from './netlink.ts';
import { type NetlinkMessage, type VisitAnswer } from './netlink-messages.ts';

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

/** What follows the header in each answer, in the kernel's order. Rejects with NETLINK_FAILED. */
export async function dumpList(client: NetlinkQuestioner, list: NetlinkList): Promise<Buffer[]> {
  const messages = await dumpWhole(client, list);
  const found = messages.filter(({ type }) => type === list.answer).map(({ data }) => data);
  if (found.every(({ length }) => length >= list.leastBytes)) return found;
  throw new VipnatError('NETLINK_FAILED', `the kernel lists one of its ${list.subject} that is cut short`);
}

/**
 * Visits the same, of a list that is long, or that others change all the time, as nftables with each commit of anybody: it can lack or
 * repeat what came or went meanwhile, or what stood beside it.
 */
export async function visitList(
  client: NetlinkQuestioner,
  { question: type, payload, leastBytes, subject }: Omit<NetlinkList, 'answer'>,
  visit: VisitAnswer,
): Promise<void> {
  const request = { type, payload, isDump: true, subject: `its ${subject}` };
  await client.request({
    ...request,
    visit: (datagram, start, end) => {
      if (end - start >= leastBytes) visit(datagram, start, end);
    },
  });
}

// linux/netlink.h
const NLM_F_DUMP_INTR = 0x10;

/** A list that changed while it was read is marked so, and is wrong; a host that changes it five times in a row is not settled anyway. */
const dumpAttempts = 5;

async function dumpWhole(
  client: NetlinkQuestioner,
  { question: type, payload, subject }: NetlinkList,
): Promise<readonly NetlinkMessage[]> {
  for (let attempt = 0; attempt < dumpAttempts; attempt += 1) {
    const messages = await client.request({ type, payload, isDump: true, subject: `its ${subject}` });
    if (messages.every(({ flags }) => (flags & NLM_F_DUMP_INTR) === 0)) return messages;
  }
  throw new VipnatError('NETLINK_FAILED', `the list of ${subject} kept changing while it was read`);
}
