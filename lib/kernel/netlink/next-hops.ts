import { type Family, families } from '../../address/address.ts';
import { toAddressBytes } from '../../address/bytes.ts';
import { type NetlinkQuestioner, withNetlinkClient } from './netlink.ts';
import { parseAttributes, renderAttribute } from './netlink-messages.ts';

/**
 * Which of these addresses this host reaches by the router that it reaches everywhere else by. Not those on its links, behind a tunnel, or by
 * another host, as network plugins route pods. An address without a route is none of them. Rejects with NETLINK_FAILED.
 */
export async function findRouted(addresses: readonly string[]): Promise<string[]> {
  return await withNetlinkClient('route', (client) => askRouted(client, addresses));
}

/** The same, by a client of the protocol route. */
export async function askRouted(client: NetlinkQuestioner, addresses: readonly string[]): Promise<string[]> {
  const routers: Partial<Record<Family, string | null>> = {};
  for (const family of families) routers[family] = await findNextHop(client, elsewhere[family]);
  const routed: string[] = [];
  for (const address of addresses) {
    const router = routers[familyOf(address)] ?? null;
    if (router !== null && (await findNextHop(client, address)) === router) routed.push(address);
  }
  return routed;
}

// linux/rtnetlink.h
const RTM_GETROUTE = 26;
const RTA_DST = 1;
const RTA_OIF = 4;
const RTA_GATEWAY = 5;
const rtmsgBytes = 12;
const familyToNumber = { ipv4: 2, ipv6: 10 } as const;
const hostBits = { ipv4: 32, ipv6: 128 } as const;

/** Nobody's (RFC 5737, RFC 3849): the way there is the way to everywhere. */
const elsewhere: Readonly<Record<Family, string>> = { ipv4: '192.0.2.1', ipv6: '2001:db8::1' };

function familyOf(address: string): Family {
  return address.includes(':') ? 'ipv6' : 'ipv4';
}

/** The router of an address and its interface; null where there is none. */
async function findNextHop(client: NetlinkQuestioner, address: string): Promise<string | null> {
  const family = familyOf(address);
  const header = Buffer.alloc(rtmsgBytes);
  header.writeUInt8(familyToNumber[family], 0);
  header.writeUInt8(hostBits[family], 1);
  const payload = Buffer.concat([header, renderAttribute(RTA_DST, toAddressBytes(address))]);
  const question = { type: RTM_GETROUTE, payload, isDump: false, subject: `the route to ${address}` };
  const [answer] = await client.request(question).catch(() => []);
  if (answer === undefined) return null;
  const attributes = parseAttributes(answer.data, rtmsgBytes);
  const gateway = attributes.get(RTA_GATEWAY);
  return gateway === undefined
    ? null
    : `${gateway.toString('hex')} ${attributes.get(RTA_OIF)?.toString('hex') ?? ''}`;
}
