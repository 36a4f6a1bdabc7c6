/**
 * The routes by which this host reaches IPv4 addresses of its own (table local), and one in front of them that names
 * another source: docs/adr/0020.
 */
import { toAddressBytes } from '../../address/bytes.ts';
import { type LocalRoute, type LocalRoutes, type SourceRoute } from '../port.ts';
import { dumpAddresses, dumpLinks } from './addresses.ts';
import { type NetlinkClient, withNetlinkClient } from './netlink.ts';
import { dumpBusyList, type NetlinkList } from './netlink-dump.ts';
import { parseAttributes, renderAttribute } from './netlink-messages.ts';
import { ownProtocol } from '../tools/source-route.ts';

/** All that a source is chosen from, and every route to an address of this host. Rejects with NETLINK_FAILED. */
export async function readLocalRoutes(): Promise<LocalRoutes> {
  return await withNetlinkClient('route', dumpLocalRoutes);
}

/** The same, by a client of the protocol route. */
export async function dumpLocalRoutes(client: NetlinkClient): Promise<LocalRoutes> {
  const addresses = await dumpAddresses(client);
  const routes = await dumpBusyList(client, routeList);
  const usualSource = await findUsualSource(client);
  const indexToName = await dumpLinks(client);
  return {
    addresses: addresses.flatMap(({ deviceIndex, ...address }) => {
      const device = indexToName.get(deviceIndex);
      return device === undefined ? [] : [{ ...address, device }];
    }),
    routes: routes.flatMap((data) => parseRoute(data, indexToName)),
    usualSource,
  };
}

/** Puts a route in front of the kernel's own; one that is there already stays. Rejects with NETLINK_FAILED or TOOL_NOT_PERMITTED. */
export async function addSourceRoute(route: SourceRoute): Promise<void> {
  await order(route, RTM_NEWROUTE, 'EEXIST');
}

/** Takes it away; one that is gone already is no failure. Rejects like addSourceRoute. */
export async function removeSourceRoute(route: SourceRoute): Promise<void> {
  await order(route, RTM_DELROUTE, 'ESRCH');
}

// linux/rtnetlink.h
const RTM_NEWROUTE = 24;
const RTM_DELROUTE = 25;
const RTM_GETROUTE = 26;
const RTA_DST = 1;
const RTA_OIF = 4;
const RTA_PREFSRC = 7;
const RT_TABLE_LOCAL = 255;
const RT_SCOPE_HOST = 254;
const RTN_LOCAL = 2;
const AF_INET = 2;
const rtmsgBytes = 12;
const hostBits = 32;

const routeList: NetlinkList = {
  question: RTM_GETROUTE,
  answer: RTM_NEWROUTE,
  payload: Buffer.from([AF_INET, ...Array<number>(rtmsgBytes - 1).fill(0)]),
  leastBytes: rtmsgBytes,
  subject: 'routes',
};

/** Nobody's (RFC 5737): the way there is the way to everywhere. */
const elsewhere = '192.0.2.1';

/** Null on a host that has no default route. */
async function findUsualSource(client: NetlinkClient): Promise<string | null> {
  const header = Buffer.alloc(rtmsgBytes);
  header.writeUInt8(AF_INET, 0);
  header.writeUInt8(hostBits, 1);
  const payload = Buffer.concat([header, renderAddress(RTA_DST, elsewhere)]);
  const question = { type: RTM_GETROUTE, payload, isDump: false, subject: 'its default route' };
  const [answer] = await client.request(question).catch(() => []);
  return answer === undefined ? null : readAddress(parseAttributes(answer.data, rtmsgBytes).get(RTA_PREFSRC));
}

function parseRoute(data: Buffer, indexToName: ReadonlyMap<number, string>): LocalRoute[] {
  const isHere = data.readUInt8(4) === RT_TABLE_LOCAL && data.readUInt8(7) === RTN_LOCAL;
  if (!isHere || data.readUInt8(1) !== hostBits) return [];
  const attributes = parseAttributes(data, rtmsgBytes);
  const address = readAddress(attributes.get(RTA_DST));
  const index = attributes.get(RTA_OIF);
  const device = index?.length === 4 ? indexToName.get(index.readInt32LE()) : undefined;
  if (address === null || device === undefined) return [];
  const source = readAddress(attributes.get(RTA_PREFSRC));
  return [{ address, device, source, isOurs: data.readUInt8(5) === ownProtocol }];
}

async function order(route: SourceRoute, type: number, harmless: string): Promise<void> {
  const subject = `a local route of ${route.address} with the source ${route.source}`;
  await withNetlinkClient('route', async (client) => {
    const [index] = [...(await dumpLinks(client))].find(([, name]) => name === route.device) ?? [0];
    const payload = renderRoute(route, index);
    await client.request({ type, payload, isDump: false, isOrder: true, subject }).catch((error: unknown) => {
      const { cause } = error as Error;
      if ((cause as NodeJS.ErrnoException | undefined)?.code !== harmless) throw error;
    });
  });
}

/** struct rtmsg and its attributes. */
function renderRoute({ address, source }: SourceRoute, index: number): Buffer {
  const header = Buffer.alloc(rtmsgBytes);
  header.set([AF_INET, hostBits, 0, 0, RT_TABLE_LOCAL, ownProtocol, RT_SCOPE_HOST, RTN_LOCAL]);
  const device = Buffer.alloc(4);
  device.writeInt32LE(index);
  return Buffer.concat([
    header,
    renderAddress(RTA_DST, address),
    renderAddress(RTA_PREFSRC, source),
    renderAttribute(RTA_OIF, device),
  ]);
}

function renderAddress(type: number, address: string): Buffer {
  return renderAttribute(type, toAddressBytes(address));
}

function readAddress(bytes: Buffer | undefined): string | null {
  return bytes?.length === 4 ? bytes.join('.') : null;
}
