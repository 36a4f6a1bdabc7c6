/**
 * Who answers for an address on this host's own links: ARP for IPv4, neighbour discovery for IPv6. No firewall for IP
 * keeps an answer back, so a host that drops or rejects every connection is seen all the same.
 */
import { type Family } from '../../address/address.ts';
import { readAddressBytes, toAddressBytes } from '../../address/bytes.ts';
import { dumpLinkAddresses, dumpLinks, formatMac } from '../netlink/addresses.ts';
import { type NetlinkClient, type NetlinkRequest, withNetlinkClient } from '../netlink/netlink.ts';
import { parseAttributes, renderAttribute } from '../netlink/netlink-messages.ts';

/** An entry of the kernel's neighbour table. */
export interface Neighbour {
  readonly family: Family;
  /** Canonical text. */
  readonly address: string;
  readonly device: string;
  /** The link address, as `02:42:0a:4d:00:0c`; null for one that has not answered. */
  readonly mac: string | null;
  /**
   * Whether a person has set it, it has answered within the last 45 s, is being asked, or did not answer. An old entry
   * proves nothing.
   */
  readonly state: 'static' | 'answered' | 'asked' | 'silent' | 'old';
}

/** What is asked of the kernel about an address on a link. */
export interface NeighbourQuestion {
  readonly family: Family;
  readonly address: string;
  readonly device: string;
}

/** The kernel's neighbour table. Rejects with NETLINK_FAILED. */
export async function readNeighbours(): Promise<Neighbour[]> {
  return await withNetlinkClient('route', async (client) => dumpNeighbours(client, await dumpLinks(client)));
}

/**
 * Has the kernel ask the links who has addresses, and forget first what it knew. For IPv4 that may be an address of this
 * host, whose other holder it never asks for by itself. Makes entries of the neighbour table, as every connection does;
 * not for one that a person has set. Takes root. Rejects with TOOL_NOT_PERMITTED or NETLINK_FAILED.
 */
export async function askNeighbours(questions: readonly NeighbourQuestion[]): Promise<void> {
  await withNetlinkClient('route', async (client) => {
    const links = await dumpLinks(client);
    const keyToState = new Map(
      (await dumpNeighbours(client, links)).map((one) => [toKey(one), one.state] as const),
    );
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
export async function forgetNeighbours(questions: readonly NeighbourQuestion[]): Promise<void> {
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
   * Where the holders of a device's addresses are asked for. An interface of VRRP (keepalived's `use_vmac`) has the same link address on
   * each router. So the interface below it asks: the kernel carries nothing from there to its own upper interface, and whoever answers is
   * another host.
   */
  readonly toAsked: (device: string) => string;
}

/** Rejects with NETLINK_FAILED. */
export async function readOwnLinks(): Promise<OwnLinks> {
  const links = await withNetlinkClient('route', dumpLinkAddresses);
  const shared = links.filter(({ mac, base }) => base !== null && isVirtualRouterMac(mac));
  const deviceToBase = new Map(shared.map(({ device, base }) => [device, base ?? device]));
  return {
    macs: new Set(links.filter((link) => !shared.includes(link)).map(({ mac }) => mac)),
    toAsked: (device) => deviceToBase.get(device) ?? device,
  };
}

/** RFC 5798, 7.3: the last byte is the VRID. IPv4 has 01 before it, IPv6 02. */
function isVirtualRouterMac(mac: string): boolean {
  return /^00:00:5e:00:0[12]:/.test(mac);
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
const familyToNumber: Readonly<Record<Family, number>> = { ipv4: 2, ipv6: 10 };

async function dumpNeighbours(
  client: NetlinkClient,
  indexToName: ReadonlyMap<number, string>,
): Promise<Neighbour[]> {
  const payload = Buffer.alloc(ndmsgBytes);
  const messages = await client.request({
    type: RTM_GETNEIGH,
    payload,
    isDump: true,
    subject: 'its neighbours',
  });
  return messages
    .filter(({ type, data }) => type === RTM_NEWNEIGH && data.length >= ndmsgBytes)
    .flatMap(({ data }) => parseNeighbour(data, indexToName));
}

function toKey({ address, device }: Pick<NeighbourQuestion, 'address' | 'device'>): string {
  return `${address} ${device}`;
}

function toOrder(
  { family, address, device }: NeighbourQuestion,
  indexToName: ReadonlyMap<number, string>,
): Omit<NetlinkRequest, 'type'> {
  const [index] = [...indexToName].find(([, name]) => name === device) ?? [0];
  const payload = Buffer.concat([
    renderHeader(family, index),
    renderAttribute(NDA_DST, toAddressBytes(address)),
  ]);
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
  const family = address.includes(':') ? 'ipv6' : 'ipv4';
  return [{ family, address, device, mac, state: nameState(state) }];
}

function nameState(state: number): Neighbour['state'] {
  if ((state & NUD_PERMANENT) !== 0) return 'static';
  if ((state & NUD_REACHABLE) !== 0) return 'answered';
  if ((state & NUD_FAILED) !== 0) return 'silent';
  return (state & NUD_INCOMPLETE) === 0 ? 'old' : 'asked';
}
