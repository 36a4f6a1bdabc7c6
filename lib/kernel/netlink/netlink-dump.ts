import { VipnatError } from '../../text/errors.ts';
import { type NetlinkQuestioner } from './netlink.ts';
import { type VisitAnswer } from './netlink-messages.ts';

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
