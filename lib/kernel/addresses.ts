import { type Clock, sleep } from '../clock.ts';
import { type Family, toAddressBytes, readAddressBytes } from '../net.ts';
import {
  withNetlinkClient,
  type NetlinkClient,
  renderAttribute,
  parseAttributes,
  type NetlinkQuestioner,
  dumpBusyList,
  type NetlinkList,
  familyToNumber,
} from './netlink.ts';
import type { LocalAddress, LocalRoutes } from './port.ts';
import { readFile } from 'node:fs/promises';

/**
 * Whether another host has an address already that this one is about to take.
 *
 * Goal: an address that somebody else uses is not given a second time.
 * Tension: a network that does not answer cannot be distinguished from a free address, and each address that is asked for waits.
 * Compromise: one question for each, ARP or neighbour discovery, many in parallel, and half a second for the answers: a link answers
 * within milliseconds. Whoever answers for an address of this host, too, answers for all (proxy ARP), and counts as nobody.
 */

/** When the neighbour table is looked at, in milliseconds after the last question. */
const useAsksMs = [20, 80, 200, 500];

/**
 * Who else has addresses that this host does not have: by address, the MAC of the host that answered within half a second.
 * `own` are addresses of this host, one for each device at least. Leaves nothing in the neighbour table, whose size limits how
 * many may be asked in parallel (gc_thresh3, 1024). Takes root. Rejects with TOOL_NOT_PERMITTED or NETLINK_FAILED.
 */
export async function findAddressUsers(
  questions: readonly NeighbourQuestion[],
  own: readonly NeighbourQuestion[],
  clock: Clock,
): Promise<Map<string, string>> {
  const { macs: ownMacs } = await readOwnLinks();
  const devices = new Set(questions.map(({ device }) => device));
  // For an IPv6 address of its own the kernel receives no answer.
  const probes = own.filter(({ family, device }) => family === 'ipv4' && devices.has(device));
  const users = await waitForAnswers(questions, probes, useAsksMs, clock);
  const everybody = new Set(probes.map(({ address }) => users.get(address)));
  return new Map(
    questions.flatMap(({ address }) => {
      const mac = users.get(address);
      return mac === undefined || ownMacs.has(mac) || everybody.has(mac) ? [] : [[address, mac] as const];
    }),
  );
}

/** Asks all, and ends early when every question is answered: nobody waits for the probes. Forgets all afterwards. */
async function waitForAnswers(
  questions: readonly NeighbourQuestion[],
  probes: readonly NeighbourQuestion[],
  pollsMs: readonly number[],
  clock: Clock,
): Promise<ReadonlyMap<string, string>> {
  const all = [...questions, ...probes];
  try {
    await askNeighbours(all);
    const askedAt = clock.now();
    let users = new Map<string, string>();
    for (const pollMs of pollsMs) {
      await sleep(clock, askedAt + pollMs - clock.now());
      users = await readAnswers(all);
      if (questions.every(({ address }) => users.has(address))) break;
    }
    return users;
  } finally {
    await forgetNeighbours(all);
  }
}

/** One that a person has set is no answer. */
async function readAnswers(questions: readonly NeighbourQuestion[]): Promise<Map<string, string>> {
  const keys = new Set(questions.map(toKey));
  const found = (await readNeighbours()).filter((one) => one.state === 'answered' && keys.has(toKey(one)));
  return new Map(found.flatMap(({ address, mac }) => (mac === null ? [] : [[address, mac] as const])));
}

/** When the neighbour table is looked at, in milliseconds after the question. The kernel asks again after a second, which is not waited for. */
const ownerAsksMs = [30, 200, 900];

/** Another host that answers for an address. */
export interface DuplicateOwner {
  readonly mac: string;
  /** The interface that received it. It is not the address's own where that one is keepalived's (`OwnLinks.toAsked`). */
  readonly device: string;
}

/**
 * Asks an Ethernet once, by one ARP request, which other host has an IPv4 address. An IPv6 address it asks for by neighbour
 * discovery, and never receives an answer for one of this host. Answers null when none answers within 0.9 s. Leaves nothing in
 * the neighbour table. Takes root. Rejects with TOOL_NOT_PERMITTED or NETLINK_FAILED.
 */
export async function askDuplicateOwner(
  { family, address, device: ownDevice }: NeighbourQuestion,
  clock: Clock,
): Promise<DuplicateOwner | null> {
  const own = await readOwnLinks();
  const device = own.toAsked(ownDevice);
  const questions = [{ family, address, device }];
  const mac = (await waitForAnswers(questions, [], ownerAsksMs, clock)).get(address);
  return mac === undefined || own.macs.has(mac) ? null : { mac, device };
}

/**
 * Who answers for an address on this host's own links: ARP for IPv4, neighbour discovery for IPv6. No firewall for IP
 * keeps an answer back, so a host that drops or rejects every connection is seen all the same.
 */

/** An entry of the kernel's neighbour table. */
export interface Neighbour extends NeighbourQuestion {
  /** The link address, as `02:42:0a:4d:00:0c`; null for one that has not answered. */
  readonly mac: string | null;
  /**
   * Whether a person has set it, it has answered within the last 45 s, is being asked, or did not answer. An old entry
   * proves nothing.
   */
  readonly state: 'static' | 'answered' | 'asked' | 'silent' | 'old';
}

/** What is asked of the kernel about an address on a link. */
export type NeighbourQuestion = LocalAddress;

/** The kernel's neighbour table. Rejects with NETLINK_FAILED. */
export async function readNeighbours(): Promise<Neighbour[]> {
  return await withNetlinkClient('route', async (client) => dumpNeighbours(client, await dumpLinks(client)));
}

/**
 * Has the kernel ask the links who has addresses, and forget first what it knew. For IPv4 that may be an address of this
 * host: the kernel never asks by itself which other host has it. Makes entries of the neighbour table, as every connection does;
 * not for one that a person has set. Takes root. Rejects with TOOL_NOT_PERMITTED or NETLINK_FAILED.
 */
export async function askNeighbours(questions: readonly NeighbourQuestion[]): Promise<void> {
  await withNetlinkClient('route', async (client) => {
    const links = await dumpLinks(client);
    const known = await dumpNeighbours(client, links);
    const keyToState = new Map(known.map((one) => [toKey(one), one.state]));
    for (const question of questions) {
      const state = keyToState.get(toKey(question));
      if (state === 'static') continue;
      const order = toOrder(question, links);
      // Somebody else may have removed it meanwhile.
      if (state !== undefined) await client.request({ ...order, type: RTM_DELNEIGH }).catch(() => undefined);
      await client.request({ ...order, type: RTM_NEWNEIGH });
    }
  });
}

/** Takes entries of the neighbour table away that `askNeighbours` has made, so that the kernel asks no more. Never rejects. */
async function forgetNeighbours(questions: readonly NeighbourQuestion[]): Promise<void> {
  await withNetlinkClient('route', async (client) => {
    const links = await dumpLinks(client);
    for (const question of questions)
      await client.request({ ...toOrder(question, links), type: RTM_DELNEIGH }).catch(() => undefined);
  }).catch(() => undefined);
}

/** What this host knows of its own links when it asks them. */
export interface OwnLinks {
  /** The link addresses of its interfaces, but for those that other hosts may have, too. */
  readonly macs: ReadonlySet<string>;
  /**
   * The interface that asks which other hosts have a device's addresses. An interface of VRRP (keepalived's `use_vmac`) has the same link
   * address on each router. So the interface below it asks: the kernel carries nothing from there to its own upper interface, and whoever
   * answers is another host.
   */
  readonly toAsked: (device: string) => string;
}

/** Rejects with NETLINK_FAILED. */
export async function readOwnLinks(): Promise<OwnLinks> {
  const links = await withNetlinkClient('route', dumpLinkAddresses);
  // RFC 5798, 7.3: the last byte is the VRID. IPv4 has 01 before it, IPv6 02.
  const shared = links.filter(({ mac, base }) => base !== null && /^00:00:5e:00:0[12]:/.test(mac));
  const deviceToBase = new Map(shared.map(({ device, base }) => [device, base ?? device]));
  return {
    macs: new Set(links.filter((link) => !shared.includes(link)).map(({ mac }) => mac)),
    toAsked: (device) => deviceToBase.get(device) ?? device,
  };
}

// linux/rtnetlink.h, linux/neighbour.h
const RTM_NEWNEIGH = 28;
const RTM_DELNEIGH = 29;
const RTM_GETNEIGH = 30;
const NDA_DST = 1;
const NDA_LLADDR = 2;
const NTF_USE = 0x01;
const NUD_INCOMPLETE = 0x01;
const NUD_REACHABLE = 0x02;
const NUD_FAILED = 0x20;
const NUD_PERMANENT = 0x80;
const ndmsgBytes = 12;

async function dumpNeighbours(client: NetlinkClient, indexToName: ReadonlyMap<number, string>) {
  const payload = Buffer.alloc(ndmsgBytes);
  const request = { type: RTM_GETNEIGH, payload, isDump: true, subject: 'its neighbours' };
  return (await client.request(request))
    .filter(({ type, data }) => type === RTM_NEWNEIGH && data.length >= ndmsgBytes)
    .flatMap(({ data }) => parseNeighbour(data, indexToName));
}

function toKey({ address, device }: Pick<NeighbourQuestion, 'address' | 'device'>): string {
  return `${address} ${device}`;
}

function toOrder({ family, address, device }: NeighbourQuestion, indexToName: ReadonlyMap<number, string>) {
  const [index] = [...indexToName].find(([, name]) => name === device) ?? [0];
  const destination = renderAttribute(NDA_DST, toAddressBytes(address));
  const payload = Buffer.concat([renderHeader(family, index), destination]);
  return { payload, isDump: false, isOrder: true, subject: `who has ${address}` };
}

/** struct ndmsg */
function renderHeader(family: Family, index: number): Buffer {
  const header = Buffer.alloc(ndmsgBytes);
  header.writeUInt8(familyToNumber[family], 0);
  header.writeInt32LE(index, 4);
  header.writeUInt8(NTF_USE, 10);
  return header;
}

function parseNeighbour(data: Buffer, indexToName: ReadonlyMap<number, string>): Neighbour[] {
  const attributes = parseAttributes(data, ndmsgBytes);
  const state = data.readUInt16LE(8);
  const address = readAddressBytes(attributes.get(NDA_DST));
  const device = indexToName.get(data.readInt32LE(4));
  if (address === null || device === undefined) return [];
  const link = (state & (NUD_INCOMPLETE | NUD_FAILED)) === 0 ? attributes.get(NDA_LLADDR) : undefined;
  const mac = link === undefined ? null : formatMac(link);
  return [{ family: familyOf(address), address, device, mac, state: nameState(state) }];
}

function nameState(state: number): Neighbour['state'] {
  if ((state & NUD_PERMANENT) !== 0) return 'static';
  if ((state & NUD_REACHABLE) !== 0) return 'answered';
  if ((state & NUD_FAILED) !== 0) return 'silent';
  return (state & NUD_INCOMPLETE) === 0 ? 'old' : 'asked';
}

/** An address as the kernel lists it, before its interface has a name. */
interface IndexedAddress extends Omit<LocalRoutes['addresses'][number], 'device'> {
  /** The interface's index in this network namespace. */
  readonly deviceIndex: number;
}

/** The addresses that can be used here, with their interfaces' names. Rejects with NETLINK_FAILED. */
export async function readAddresses(): Promise<LocalAddress[]> {
  return (await readPlacedAddresses()).map(({ family, address, device }) => ({ family, address, device }));
}

/** For how many milliseconds this host has had each of them, as the kernel tells. Rejects with NETLINK_FAILED. */
export async function readAddressAges(): Promise<ReadonlyMap<string, number>> {
  const messages = await withNetlinkClient('route', (client) => dumpBusyList(client, addressList));
  const upMs = Number((await readFile('/proc/uptime', 'utf8')).split(' ')[0]) * 1000;
  const ages = messages.flatMap((message) => {
    // struct ifa_cacheinfo: when it was set is the third number, in hundredths of a second since the machine started.
    const info = parseAttributes(message, ifaddrmsgBytes).get(IFA_CACHEINFO);
    const sinceMs = info?.length === 16 ? info.readUInt32LE(8) * 10 : 0;
    return parseAddressMessage(message).map(({ address }) => [address, upMs - sinceMs] as const);
  });
  return new Map(ages);
}

/** An address of this host, with how many of its bits name its subnet. */
export type PlacedAddress = LocalAddress & Pick<IndexedAddress, 'prefixLength'>;

/** The same with their subnets. An interface without a link has its addresses all the same. Rejects with NETLINK_FAILED. */
export async function readPlacedAddresses(): Promise<PlacedAddress[]> {
  return await withNetlinkClient('route', async (client) => {
    const addresses = await dumpAddresses(client);
    const indexToName = await dumpLinks(client);
    return addresses.flatMap(({ family, address, deviceIndex, prefixLength }) => {
      const device = indexToName.get(deviceIndex);
      // An interface that went between the two lists took its addresses along.
      return device === undefined ? [] : [{ family, address, device, prefixLength }];
    });
  });
}

/**
 * The addresses that can be used here, in the kernel's order: not tentative, not failed duplicate address
 * detection. Takes a client of the protocol route; costs 30 µs for a few addresses. Where others add thousands meanwhile, some of
 * those can be lacking (`dumpBusyList`).
 */
export async function dumpAddresses(client: NetlinkQuestioner): Promise<IndexedAddress[]> {
  return (await dumpBusyList(client, addressList)).flatMap(parseAddressMessage);
}

// linux/rtnetlink.h, linux/if_addr.h, linux/if_link.h, linux/netlink.h
const RTM_NEWLINK = 16;
const RTM_GETLINK = 18;
const RTM_NEWADDR = 20;
const RTM_GETADDR = 22;
const IFA_ADDRESS = 1;
const IFA_LOCAL = 2;
const IFA_CACHEINFO = 6;
const IFA_FLAGS = 8;
const IFA_F_DADFAILED = 0x08;
const IFA_F_DEPRECATED = 0x20;
const IFA_F_TENTATIVE = 0x40;
const IFLA_ADDRESS = 1;
const IFLA_IFNAME = 3;
const IFLA_LINK = 5;
const IFLA_LINKINFO = 18;
const IFLA_INFO_KIND = 1;
const IFLA_LINK_NETNSID = 37;
const RT_SCOPE_UNIVERSE = 0;
const ifaddrmsgBytes = 8;
const ifinfomsgBytes = 16;

/** The question for all of both families. */
export const addressList: NetlinkList = {
  question: RTM_GETADDR,
  answer: RTM_NEWADDR,
  payload: Buffer.alloc(ifaddrmsgBytes),
  leastBytes: ifaddrmsgBytes,
  subject: 'addresses',
};

const linkList: NetlinkList = {
  question: RTM_GETLINK,
  answer: RTM_NEWLINK,
  payload: Buffer.alloc(ifinfomsgBytes),
  leastBytes: ifinfomsgBytes,
  subject: 'interfaces',
};

/** The interfaces' names by their index. Takes a client of the protocol route. */
export async function dumpLinks(client: NetlinkClient): Promise<Map<number, string>> {
  return new Map((await readLinks(client)).map(({ index, name }) => [index, name]));
}

/** The interfaces, each with all that its message has. */
async function readLinks(client: NetlinkClient) {
  return (await dumpBusyList(client, linkList)).map((data) => {
    const attributes = parseAttributes(data, ifinfomsgBytes);
    return { index: data.readInt32LE(4), name: readName(attributes.get(IFLA_IFNAME)), attributes };
  });
}

/**
 * The interfaces that have a link address: also those without an IP address. `base` is the interface of this host that one is on top
 * of, as a VLAN or a macvlan is; null for none. Takes a client of the protocol route.
 */
async function dumpLinkAddresses(client: NetlinkClient) {
  const links = await readLinks(client);
  return links.flatMap(({ name: device, attributes }) => {
    const [mac, below] = [attributes.get(IFLA_ADDRESS), attributes.get(IFLA_LINK)];
    if (mac === undefined) return [];
    // The number is another namespace's where the interface below is there.
    const isHere = below?.length === 4 && !attributes.has(IFLA_LINK_NETNSID);
    const base = isHere ? links.find(({ index }) => index === below.readInt32LE())?.name : null;
    return [{ device, mac: formatMac(mac), base: base ?? null }];
  });
}

/** The indexes of the interfaces whose other end is in another network namespace. Takes a client of the protocol route. */
export async function dumpCables(client: NetlinkClient): Promise<Set<number>> {
  const cables = (await readLinks(client)).filter(({ attributes }) => attributes.has(IFLA_LINK_NETNSID));
  return new Set(cables.map(({ index }) => index));
}

/** The kinds by which network plugins bring packets to other nodes, as the kernel calls them. */
const tunnelKinds = 'vxlan geneve ipip sit ip6tnl gre gretap wireguard'.split(' ');

/** The names of the interfaces that are tunnels, sorted. Takes a client of the protocol route. */
export async function dumpTunnels(client: NetlinkClient): Promise<string[]> {
  const tunnels = (await readLinks(client)).filter(({ attributes }) => {
    const info = parseAttributes(attributes.get(IFLA_LINKINFO) ?? Buffer.alloc(0), 0);
    return tunnelKinds.includes(readName(info.get(IFLA_INFO_KIND)));
  });
  return tunnels.map(({ name }) => name).sort();
}

/** Of an address in canonical text. */
export function familyOf(address: string): Family {
  return address.includes(':') ? 'ipv6' : 'ipv4';
}

function readName(bytes: Buffer | undefined): string {
  return bytes?.toString('utf8').replace('\0', '') ?? '';
}

/** A link address as text, two digits for each byte. */
function formatMac(bytes: Buffer): string {
  return bytes.toString('hex').match(/../g)?.join(':') ?? '';
}

function parseAddressMessage(message: Buffer): IndexedAddress[] {
  const attributes = parseAttributes(message, ifaddrmsgBytes);
  const wide = attributes.get(IFA_FLAGS);
  const flags = wide?.length === 4 ? wide.readUInt32LE() : message.readUInt8(2);
  if ((flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) !== 0) return [];
  // On a point-to-point link IFA_ADDRESS is the other end's.
  const address = readAddressBytes(attributes.get(IFA_LOCAL) ?? attributes.get(IFA_ADDRESS));
  if (address === null) return [];
  return [
    {
      family: familyOf(address),
      address,
      deviceIndex: message.readUInt32LE(4),
      prefixLength: message.readUInt8(1),
      isSource: message.readUInt8(3) === RT_SCOPE_UNIVERSE && (flags & IFA_F_DEPRECATED) === 0,
    },
  ];
}
