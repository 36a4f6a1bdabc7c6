import { type Family, parseAddress } from '../../address/address.ts';
import { VipnatError } from '../../text/errors.ts';
import { createNetlinkClient, type NetlinkClient } from './netlink.ts';
import { type NetlinkMessage, parseAttributes } from './netlink-messages.ts';
import { type LocalAddress } from '../port.ts';

/** An address as the kernel lists it, before its interface has a name. */
export interface IndexedAddress {
  readonly family: Family;
  /** Canonical text, without prefix length. */
  readonly address: string;
  /** The interface's index in this network namespace. */
  readonly deviceIndex: number;
}

/** The addresses that can be used here, with their interfaces' names. Rejects with NETLINK_FAILED. */
export async function readAddresses(): Promise<LocalAddress[]> {
  const client = createNetlinkClient('route');
  try {
    const addresses = await dumpAddresses(client);
    const indexToName = await dumpLinks(client);
    return addresses.flatMap(({ family, address, deviceIndex }) => {
      const device = indexToName.get(deviceIndex);
      // An interface that went between the two lists took its addresses along.
      return device === undefined ? [] : [{ family, address, device }];
    });
  } finally {
    client.close();
  }
}

/**
 * The addresses that can be used here, in the kernel's order: not tentative, not failed duplicate address
 * detection. Takes a client of the protocol route; costs 30 µs for a few addresses.
 */
export async function dumpAddresses(client: NetlinkClient): Promise<IndexedAddress[]> {
  const messages = await dump(client, RTM_GETADDR, Buffer.alloc(ifaddrmsgBytes));
  return listData(messages, RTM_NEWADDR, ifaddrmsgBytes).flatMap(parseAddressMessage);
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
const IFA_F_TENTATIVE = 0x40;
const IFLA_ADDRESS = 1;
const IFLA_IFNAME = 3;
const NLM_F_DUMP_INTR = 0x10;
const ifaddrmsgBytes = 8;
const ifinfomsgBytes = 16;

/** A list that changed while it was read is marked so, and is wrong; a host that changes it five times in a row is not settled anyway. */
const dumpAttempts = 5;

async function dump(
  client: NetlinkClient,
  type: number,
  payload: Buffer,
): Promise<readonly NetlinkMessage[]> {
  for (let attempt = 0; attempt < dumpAttempts; attempt += 1) {
    const messages = await client.request({ type, payload, isDump: true, subject: 'its addresses' });
    if (messages.every(({ flags }) => (flags & NLM_F_DUMP_INTR) === 0)) return messages;
  }
  throw new VipnatError('NETLINK_FAILED', 'the list of addresses kept changing while it was read');
}

/** The interfaces' names by their index. Takes a client of the protocol route. */
export async function dumpLinks(client: NetlinkClient): Promise<Map<number, string>> {
  const messages = await dump(client, RTM_GETLINK, Buffer.alloc(ifinfomsgBytes));
  return new Map(
    listData(messages, RTM_NEWLINK, ifinfomsgBytes).map((data) => [
      data.readInt32LE(4),
      parseAttributes(data, ifinfomsgBytes).get(IFLA_IFNAME)?.toString('utf8').replace('\0', '') ?? '',
    ]),
  );
}

/** The interfaces' own link addresses, as `02:42:0a:4d:00:0c`: also of those without an IP address. Takes a client of the protocol route. */
export async function dumpMacs(client: NetlinkClient): Promise<Set<string>> {
  const messages = await dump(client, RTM_GETLINK, Buffer.alloc(ifinfomsgBytes));
  return new Set(
    listData(messages, RTM_NEWLINK, ifinfomsgBytes).flatMap((data) => {
      const mac = parseAttributes(data, ifinfomsgBytes).get(IFLA_ADDRESS);
      return mac === undefined ? [] : [formatMac(mac)];
    }),
  );
}

/** A link address as text, two digits for each byte. */
export function formatMac(bytes: Buffer): string {
  return bytes.toString('hex').match(/../g)?.join(':') ?? '';
}

/** What follows the header in the messages of a type, which begins with a struct of so many bytes. */
function listData(messages: readonly NetlinkMessage[], type: number, leastBytes: number): Buffer[] {
  const found = messages.filter((message) => message.type === type).map(({ data }) => data);
  if (found.every(({ length }) => length >= leastBytes)) return found;
  throw new VipnatError('NETLINK_FAILED', 'the kernel lists an address or an interface that is cut short');
}

function parseAddressMessage(message: Buffer): IndexedAddress[] {
  const attributes = parseAttributes(message, ifaddrmsgBytes);
  const wide = attributes.get(IFA_FLAGS);
  const flags = wide?.length === 4 ? wide.readUInt32LE() : message.readUInt8(2);
  if ((flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) !== 0) return [];
  // On a point-to-point link IFA_ADDRESS is the other end's.
  const address = parseAddress(toText(attributes.get(IFA_LOCAL) ?? attributes.get(IFA_ADDRESS)));
  if (address === null) return [];
  return [{ family: address.family, address: address.text, deviceIndex: message.readUInt32LE(4) }];
}

function toText(bytes: Buffer | undefined): string {
  if (bytes?.length === 4) return bytes.join('.');
  return bytes?.toString('hex').match(/.{4}/g)?.join(':') ?? '';
}
