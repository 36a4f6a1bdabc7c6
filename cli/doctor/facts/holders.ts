import { type Endpoint } from '../../../lib/address/endpoint.ts';
import { type Clock } from '../../../lib/control/clock.ts';
import { type InterfaceAddress } from '../../../lib/kernel/host/interfaces.ts';
import {
  askNeighbours,
  type Neighbour,
  type NeighbourQuestion,
  type OwnLinks,
  readNeighbours,
  readOwnLinks,
} from '../../../lib/kernel/host/neighbours.ts';
import { type LocalAddress } from '../../../lib/kernel/port.ts';
import { isInSubnet } from '../../../lib/address/subnet.ts';

/** Another host that answers for an address on a link of this one. */
export interface LinkHolder {
  readonly mac: string;
  /** Other addresses that it answers for, as far as this host has asked lately. */
  readonly addresses: readonly string[];
}

/** What is asked of the links. */
export interface LinkNeeds {
  readonly vips: readonly Endpoint[];
  readonly addresses: readonly LocalAddress[];
  readonly interfaces: readonly InterfaceAddress[];
  readonly clock: Clock;
}

interface Question extends NeighbourQuestion {
  /** An own address is answered for in milliseconds or not at all: nobody waits for its being given up. */
  readonly limitMs: number;
}

/**
 * Who else has each virtual IP, by its address; null when nobody answers. One that no interface is in the network of
 * cannot be asked for, nor an IPv6 address of this host, whose other holder the kernel does not hear: they are not in it.
 */
export async function findLinkHolders(needs: LinkNeeds): Promise<ReadonlyMap<string, LinkHolder | null>> {
  const own = await readOwnLinks();
  const questions = needs.vips
    .flatMap((vip) => toQuestion(vip, needs))
    .map((question) => ({ ...question, device: own.toAsked(question.device) }));
  const found = await Promise.all(questions.map((question) => ask(question, own, needs.clock)));
  return new Map(found.flatMap((one) => one));
}

/** Where the address is, or whose network it is in. */
function toQuestion({ family, address }: Endpoint, needs: LinkNeeds): Question[] {
  const local = needs.addresses.find((one) => one.address === address);
  if (local !== undefined) {
    if (family === 'ipv6' || local.device === 'kube-ipvs0') return [];
    return [{ family, address, device: local.device, limitMs: ownLimitMs }];
  }
  const around = needs.interfaces.find((one) => one.family === family && isInSubnet(address, one));
  return around === undefined ? [] : [{ family, address, device: around.device, limitMs: answerLimitMs }];
}

/** The kernel asks a second time after a second (retrans_time_ms). */
const ownLimitMs = 1300;

/** The kernel gives up after 3 s. */
const answerLimitMs = 4000;
const pollMs = 100;

/** A little less than the kernel takes to give up what it was not asked for before. */
const fullTimeMs = 2700;

async function ask(question: Question, own: OwnLinks, clock: Clock): Promise<[string, LinkHolder | null][]> {
  const { address, device } = question;
  const start = clock.now();
  await askNeighbours([question]);
  for (;;) {
    const table = await readNeighbours();
    const entry = table.find((one) => one.address === address && one.device === device);
    const state = entry?.state ?? 'silent';
    const end = conclude(state, clock.now() - start, question);
    if (end === 'answered' && entry !== undefined) return [[address, toHolder(entry, table, own)]];
    if (end === 'unknown') return [];
    if (end === 'silent') return [[address, null]];
    // Another doctor may have had it forgotten meanwhile.
    if (state === 'silent') await askNeighbours([question]);
    await new Promise<void>((resolve) => clock.schedule(pollMs, resolve));
  }
}

/** What is known after so many milliseconds; null while more may come. */
function conclude(
  state: Neighbour['state'],
  elapsedMs: number,
  { limitMs }: Question,
): 'answered' | 'silent' | 'unknown' | null {
  if (state === 'answered' || state === 'static') return 'answered';
  if (state === 'silent' && elapsedMs > fullTimeMs) return 'silent';
  if (elapsedMs < limitMs) return null;
  return limitMs === ownLimitMs ? 'silent' : 'unknown';
}

/** An interface of this host may answer for an address of another one. */
function toHolder(
  { address, mac }: Neighbour,
  table: readonly Neighbour[],
  own: OwnLinks,
): LinkHolder | null {
  if (mac === null || own.macs.has(mac)) return null;
  const others = table.filter((one) => one.mac === mac && one.address !== address);
  return { mac, addresses: others.map((one) => one.address) };
}
