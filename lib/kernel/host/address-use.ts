/**
 * Whether another host has an address already that this one is about to take.
 *
 * Goal: an address that somebody else uses is not given a second time.
 * Tension: a silent network cannot be told from a free address, and each address that is asked for waits.
 * Compromise: one question for each, ARP or neighbour discovery, many at once, and half a second for the answers: a link answers
 * within milliseconds. Whoever answers for an address of this host, too, answers for all (proxy ARP), and counts as nobody.
 */
import { type Clock, sleep } from '../../control/clock.ts';
import {
  askNeighbours,
  forgetNeighbours,
  type NeighbourQuestion,
  readNeighbours,
  readOwnLinks,
} from './neighbours.ts';

/** When the neighbour table is looked at, in milliseconds after the last question. */
const looksMs = [20, 80, 200, 500];

/**
 * Who else has addresses that this host does not have: by address, the MAC of the host that answered within half a second.
 * `own` are addresses of this host, one for each device at least. Leaves nothing in the neighbour table, whose size limits how
 * many may be asked at once (gc_thresh3, 1024). Takes root. Rejects with TOOL_NOT_PERMITTED or NETLINK_FAILED.
 */
export async function findAddressUsers(
  questions: readonly NeighbourQuestion[],
  own: readonly NeighbourQuestion[],
  clock: Clock,
): Promise<Map<string, string>> {
  const { macs: ownMacs } = await readOwnLinks();
  const devices = new Set(questions.map(({ device }) => device));
  // For an IPv6 address of its own the kernel hears no answer.
  const probes = own.filter(({ family, device }) => family === 'ipv4' && devices.has(device));
  const all = [...questions, ...probes];
  try {
    await askNeighbours(all);
    const users = await waitForAnswers(questions, all, clock);
    const everybody = new Set(probes.map(({ address }) => users.get(address)));
    return new Map(
      questions.flatMap(({ address }) => {
        const mac = users.get(address);
        return mac === undefined || ownMacs.has(mac) || everybody.has(mac) ? [] : [[address, mac] as const];
      }),
    );
  } finally {
    await forgetNeighbours(all);
  }
}

/** Ends early when every question is answered. */
async function waitForAnswers(
  questions: readonly NeighbourQuestion[],
  all: readonly NeighbourQuestion[],
  clock: Clock,
): Promise<ReadonlyMap<string, string>> {
  const askedAt = clock.now();
  let users = new Map<string, string>();
  for (const lookMs of looksMs) {
    await sleep(clock, askedAt + lookMs - clock.now());
    users = await readAnswers(all);
    if (questions.every(({ address }) => users.has(address))) break;
  }
  return users;
}

/** One that a person has set is no answer. */
async function readAnswers(questions: readonly NeighbourQuestion[]): Promise<Map<string, string>> {
  const keys = new Set(questions.map(({ address, device }) => `${address} ${device}`));
  return new Map(
    (await readNeighbours()).flatMap(({ address, device, state, mac }) =>
      state === 'answered' && mac !== null && keys.has(`${address} ${device}`)
        ? [[address, mac] as const]
        : [],
    ),
  );
}
