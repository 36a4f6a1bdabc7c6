import { type Family } from '../../address/address.ts';
import { readAddressBytes } from '../../address/bytes.ts';
import { createNetlinkClient, type NetlinkClient, type NetlinkQuestioner } from './netlink.ts';
import { dumpBusyList, type NetlinkList } from './netlink-dump.ts';
import { parseAttributes } from './netlink-messages.ts';
import { type LocalAddress } from '../port.ts';

/** An address as the kernel lists it, before its interface has a name. */
export interface IndexedAddress {
  readonly family: Family;
  /** Canonical text, without prefix length. */
  readonly address: string;
  /** The interface's index in this network namespace. */
  readonly deviceIndex: number;
  /** How many bits of the address name its subnet. */
  readonly prefixLength: number;
  /** Whether connections to everywhere may come from it: of global scope, and not deprecated. */
  readonly isSource: boolean;
}

/** The addresses that can be used here, with their interfaces' names. Rejects with NETLINK_FAILED. */
export async function readAddresses(): Promise<LocalAddress[]> {
  return (await readPlacedAddresses()).map(({ family, address, device }) => ({ family, address, device }));
}

/** An address of this host, with how many of its bits name its subnet. */
export type PlacedAddress = LocalAddress & Pick<IndexedAddress, 'prefixLength'>;

/** The same with their subnets. An interface without a link has its addresses all the same. Rejects with NETLINK_FAILED. */
export async function readPlacedAddresses(): Promise<PlacedAddress[]> {
  const client = createNetlinkClient('route');
  try {
    const addresses = await dumpAddresses(client);
    const indexToName = await dumpLinks(client);
    return addresses.flatMap(({ family, address, deviceIndex, prefixLength }) => {
      const device = indexToName.get(deviceIndex);
      // An interface that went between the two lists took its addresses along.
      return device === undefined ? [] : [{ family, address, device, prefixLength }];
    });
  } finally {
    client.close();
  }
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
  const links = await dumpBusyList(client, linkList);
  return new Map(
    links.map((data) => [
      data.readInt32LE(4),
      readName(parseAttributes(data, ifinfomsgBytes).get(IFLA_IFNAME)),
    ]),
  );
}

/** An interface, as other hosts of its link see it. */
export interface LinkAddress {
  readonly device: string;
  /** As `02:42:0a:4d:00:0c`. */
  readonly mac: string;
  /** The interface of this host that it is on top of, as a VLAN or a macvlan is; null for none. */
  readonly base: string | null;
}

/** The interfaces that have a link address: also those without an IP address. Takes a client of the protocol route. */
export async function dumpLinkAddresses(client: NetlinkClient): Promise<LinkAddress[]> {
  const links = (await dumpBusyList(client, linkList)).map((data) => ({
    index: data.readInt32LE(4),
    attributes: parseAttributes(data, ifinfomsgBytes),
  }));
  const indexToName = new Map(
    links.map(({ index, attributes }) => [index, readName(attributes.get(IFLA_IFNAME))] as const),
  );
  return links.flatMap(({ index, attributes }) => {
    const [device, mac, below] = [
      indexToName.get(index),
      attributes.get(IFLA_ADDRESS),
      attributes.get(IFLA_LINK),
    ];
    if (device === undefined || mac === undefined) return [];
    // The number is another namespace's where the interface below is there.
    const isHere = below?.length === 4 && !attributes.has(IFLA_LINK_NETNSID);
    return [
      { device, mac: formatMac(mac), base: isHere ? (indexToName.get(below.readInt32LE()) ?? null) : null },
    ];
  });
}

/** The indexes of the interfaces whose other end is in another network namespace. Takes a client of the protocol route. */
export async function dumpCables(client: NetlinkClient): Promise<Set<number>> {
  const links = await dumpBusyList(client, linkList);
  const cables = links.filter((data) => parseAttributes(data, ifinfomsgBytes).has(IFLA_LINK_NETNSID));
  return new Set(cables.map((data) => data.readInt32LE(4)));
}

/** The kinds by which network plugins bring packets to other nodes, as the kernel calls them. */
const tunnelKinds: readonly string[] = [
  'vxlan',
  'geneve',
  'ipip',
  'sit',
  'ip6tnl',
  'gre',
  'gretap',
  'wireguard',
];

/** The names of the interfaces that are tunnels, sorted. Takes a client of the protocol route. */
export async function dumpTunnels(client: NetlinkClient): Promise<string[]> {
  const links = (await dumpBusyList(client, linkList)).map((data) => parseAttributes(data, ifinfomsgBytes));
  const tunnels = links.filter((attributes) => {
    const info = parseAttributes(attributes.get(IFLA_LINKINFO) ?? Buffer.alloc(0), 0);
    return tunnelKinds.includes(readName(info.get(IFLA_INFO_KIND)));
  });
  return tunnels.map((attributes) => readName(attributes.get(IFLA_IFNAME))).sort();
}

function readName(bytes: Buffer | undefined): string {
  return bytes?.toString('utf8').replace('\0', '') ?? '';
}

/** A link address as text, two digits for each byte. */
export function formatMac(bytes: Buffer): string {
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
      family: address.includes(':') ? 'ipv6' : 'ipv4',
      address,
      deviceIndex: message.readUInt32LE(4),
      prefixLength: message.readUInt8(1),
      isSource: message.readUInt8(3) === RT_SCOPE_UNIVERSE && (flags & IFA_F_DEPRECATED) === 0,
    },
  ];
}
