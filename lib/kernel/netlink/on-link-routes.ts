/** The networks that this host reaches on its links without an address in them: cloud networks and DHCPv6 give a node an address of its own alone. */
import { type Family } from '../../address/address.ts';
import { readAddressBytes } from '../../address/bytes.ts';
import { type LocalAddress } from '../port.ts';
import { dumpLinks } from './addresses.ts';
import { withNetlinkClient } from './netlink.ts';
import { visitList } from './netlink-dump.ts';
import { parseAttributes } from './netlink-messages.ts';

/** A network with the interface that leads to it: `address` is its first one. */
export type OnLinkNetwork = LocalAddress & { readonly prefixLength: number };

/**
 * Networks of more than one address to which the main table has a route that names an interface and no router, both families. No default route. It
 * takes as long as there are routes. Rejects with NETLINK_FAILED.
 */
export async function readOnLinkNetworks(): Promise<OnLinkNetwork[]> {
  return await withNetlinkClient(
    'route',
    async (client) => {
      const indexToName = await dumpLinks(client);
      const networks: OnLinkNetwork[] = [];
      for (const family of [AF_INET, AF_INET6]) {
        const payload = Buffer.from([family, ...Array<number>(rtmsgBytes - 1).fill(0)]);
        const list = { question: RTM_GETROUTE, payload, leastBytes: rtmsgBytes, subject: 'routes' };
        await visitList(client, list, (datagram, start, end) => {
          const network = parseRoute(datagram.subarray(start, end), indexToName);
          if (network !== null) networks.push(network);
        });
      }
      return networks;
    },
    true,
  );
}

// linux/rtnetlink.h
const RTM_GETROUTE = 26;
const RTA_DST = 1;
const RTA_OIF = 4;
const RTA_GATEWAY = 5;
const RTA_VIA = 18;
const RT_TABLE_MAIN = 254;
const RTN_UNICAST = 1;
const AF_INET = 2;
const AF_INET6 = 10;
const rtmsgBytes = 12;
const hostBits = { ipv4: 32, ipv6: 128 } as const;

/** Of struct rtmsg and its attributes. Null for any other route. */
export function parseRoute(data: Buffer, indexToName: ReadonlyMap<number, string>): OnLinkNetwork | null {
  const [prefixLength = 0, table, type] = [1, 4, 7].map((at) => data.readUInt8(at));
  const attributes = parseAttributes(data, rtmsgBytes);
  const hasRouter = [RTA_GATEWAY, RTA_VIA].some((one) => attributes.has(one));
  if (table !== RT_TABLE_MAIN || type !== RTN_UNICAST || hasRouter) return null;
  // A default route has no destination, and one with several next hops no interface.
  const address = readAddressBytes(attributes.get(RTA_DST));
  const device = indexToName.get(attributes.get(RTA_OIF)?.readInt32LE() ?? 0);
  if (address === null || device === undefined) return null;
  const family = familyOf(address);
  return prefixLength < hostBits[family] ? { family, address, device, prefixLength } : null;
}

function familyOf(address: string): Family {
  return address.includes(':') ? 'ipv6' : 'ipv4';
}
