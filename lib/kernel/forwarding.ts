import {
  type Family,
  readAddressBytes,
  families,
  toAddressBytes,
  familyToBits,
  familyToElsewhere,
} from '../net.ts';
import type { LocalAddress, Forwarding, LocalRoutes, SourceRoute, LocalRoute } from './port.ts';
import { quoteWords } from '../text.ts';
import { writeFile, readdir, readFile } from 'node:fs/promises';
import { VipnatError, describeCause, ignoreMissing } from '../errors.ts';
import { join, basename } from 'node:path';
import { release } from 'node:os';
import { existsSync } from 'node:fs';
import {
  withNetlinkClient,
  visitList,
  parseAttributes,
  type NetlinkQuestioner,
  renderAttribute,
  type NetlinkClient,
  dumpBusyList,
  type NetlinkList,
  isTaken,
  familyToNumber,
} from './netlink.ts';
import {
  dumpTunnels,
  dumpLinks,
  dumpAddresses,
  dumpCables,
  familyOf,
  type PlacedAddress,
} from './addresses.ts';

/** The kernel's switches for passing on packets of other hosts. Source: Documentation/networking/ip-sysctl.rst of Linux. */
const switches: Readonly<Record<Family, string>> = {
  ipv4: 'net.ipv4.ip_forward',
  ipv6: 'net.ipv6.conf.all.forwarding',
};

/** In IPv4 each interface has a switch of its own, which the one for all only sets. */
const interfacesFolder = '/proc/sys/net/ipv4/conf';
const noInterface: readonly string[] = ['all', 'default', 'lo'];

/** The name of a family's switch, or of one interface's own, as sysctl takes it: a dot in an interface's name is a slash there. */
export function forwardingSwitch(family: Family, device?: string): string {
  return device === undefined ? switches[family] : nameSwitch(family, device, 'forwarding');
}

function nameSwitch(family: Family, device: string, name: string): string {
  return `net.${family}.conf.${device.replaceAll('.', '/')}.${name}`;
}

/** The interfaces of these IPv4 addresses whose own switch is off, sorted. The kernel drops what comes by them and is for others. */
export async function listClosedDevices(
  addresses: readonly Pick<LocalAddress, 'family' | 'device'>[],
): Promise<string[]> {
  const devices = new Set(addresses.filter(({ family }) => family === 'ipv4').map(({ device }) => device));
  return (await filterForwarding([...devices], false)).toSorted();
}

/** Those of these interfaces whose own switch for IPv4 is on, or off. */
async function filterForwarding(devices: readonly string[], isOn: boolean): Promise<string[]> {
  const names = devices.filter((name) => !noInterface.includes(name));
  const values = await Promise.all(names.map((name) => readSwitch(forwardingSwitch('ipv4', name))));
  return names.filter((_, at) => values[at] === isOn);
}

/** Whether this network namespace forwards. */
export async function readForwarding(): Promise<Forwarding> {
  const [ipv4 = null, ipv6 = null] = await Promise.all(
    families.map((family) => readSwitch(forwardingSwitch(family))),
  );
  if (ipv4 !== false) return { ipv4, ipv6 };
  return { ipv4: (await filterForwarding(await readdir(interfacesFolder), true)).length > 0, ipv6 };
}

/**
 * How to switch a family's forwarding on by hand: a command. Interfaces that obey router advertisements keep obeying them:
 * the host would lose routes immediately, and addresses when their time ends.
 */
export function forwardingCommand(family: Family, advertised: readonly string[], device?: string): string {
  const kept = family === 'ipv6' ? advertised.map((device) => `${acceptingSwitch(device)}=2`) : [];
  return quoteWords(['sysctl', '-w', ...kept, `${forwardingSwitch(family, device)}=1`]);
}

/**
 * Makes it forward a family, and obey router advertisements as before.
 * @throws VipnatError SYSCTL_NOT_WRITTEN
 */
export async function writeForwarding(family: Family, device?: string): Promise<void> {
  const name = forwardingSwitch(family, device);
  const advertised = family === 'ipv6' ? await listAdvertised() : [];
  try {
    // An interface may go meanwhile.
    for (const one of advertised) await writeFile(toPath(acceptingSwitch(one)), '2').catch(ignoreMissing);
    await writeFile(toPath(name), '1');
  } catch (error) {
    throw new VipnatError(
      'SYSCTL_NOT_WRITTEN',
      `vipnat cannot set ${name} to 1 (${describeCause(error)}). Connections are not balanced until you run: ${forwardingCommand(family, advertised, device)}`,
      { cause: error },
    );
  }
}

/** Null where the kernel lacks it; an interface may go while it is asked. */
async function readSwitch(name: string): Promise<boolean | null> {
  const text = await readFile(toPath(name), 'utf8').catch(ignoreMissing);
  return text === null ? null : text.trim() !== '0';
}

/** Of a switch by its name: a dot in an interface's name (`eth0.5`) is a slash there, as sysctl(8) has it. */
function toPath(name: string): string {
  return `/proc/sys/${name.replaceAll(/[./]/g, (mark) => (mark === '.' ? '/' : '.'))}`;
}

/**
 * What this process knows of the kernel's forwarding switches: what it saw last, or switched on itself since. So its
 * own write counts as no change, and a foreign one does that takes the write back before anybody has looked.
 */
export class KnownForwarding {
  #known: Forwarding | null = null;
  #changes = 0;

  /** To be called after an own write that switched a family on. */
  noteOn(family: Family): void {
    if (this.#known !== null) this.#known = { ...this.#known, [family]: true };
  }

  /** To be called with what is there now. Answers how many times that was not what was known; the first time does not count. */
  see(now: Forwarding): number {
    const { ipv4, ipv6 } = this.#known ?? now;
    if (ipv4 !== now.ipv4 || ipv6 !== now.ipv6) this.#changes += 1;
    this.#known = now;
    return this.#changes;
  }
}

/** Whether the kernel has a module now, can load it, or has none of that name; `unknown` where nothing tells. */
export type ModuleState = 'here' | 'loadable' | 'absent' | 'unknown';

/** Finds modules by name, with underscores: loaded, built in, or in this kernel's folder. Reads only. */
export async function readModules(names: readonly string[]): Promise<ReadonlyMap<string, ModuleState>> {
  const folder = join('/lib/modules', release());
  const [loaded, builtIn, files] = await Promise.all([
    read('/proc/modules'),
    read(join(folder, 'modules.builtin')),
    read(join(folder, 'modules.dep')),
  ]);
  const here = new Set([...listLoaded(loaded ?? ''), ...listFiles(builtIn ?? '')]);
  const loadable = new Set(listFiles(files ?? ''));
  return new Map(
    names.map((name) => {
      if (here.has(name)) return [name, 'here'];
      if (loadable.has(name)) return [name, 'loadable'];
      // Without the folder a module may be anywhere, or in the kernel itself.
      return [name, files === null ? 'unknown' : 'absent'];
    }),
  );
}

/** `ip_vs_rr 16384 0 - Live 0x0000000000000000` */
function listLoaded(text: string): string[] {
  return [...text.matchAll(/^(\w+) /gm)].map(([, name = '']) => name);
}

/** `kernel/net/netfilter/ipvs/ip_vs.ko.xz: kernel/…`, and the same without dependencies. */
function listFiles(text: string): string[] {
  return text
    .split('\n')
    .map((line) => basename(line.replace(/:.*/, '')).replace(/\.ko(?:\.\w+)?$/, ''))
    .map((name) => name.replaceAll('-', '_'));
}

async function read(path: string): Promise<string | null> {
  return await readFile(path, 'utf8').catch(() => null);
}

const folder = '/proc/sys/net/netfilter';

/**
 * Transport protocols that the kernel of this network namespace cannot translate: SCTP where it was built without
 * CONFIG_NF_CT_PROTO_SCTP, and none while its connection table is not loaded, which nobody can tell then.
 */
export function listUntranslatedProtocols(): readonly string[] {
  const hasTable = existsSync(`${folder}/nf_conntrack_max`);
  return hasTable && !existsSync(`${folder}/nf_conntrack_sctp_timeout_established`) ? ['SCTP'] : [];
}

/**
 * The tunnels of this host that drop IPv4 packets whose return path is another interface, sorted. Strict is 1 (RFC 3704), and the
 * greater of the interface's value and that for all counts. Source: Documentation/networking/ip-sysctl.rst of Linux. Rejects with NETLINK_FAILED.
 */
export async function listStrictTunnels(): Promise<string[]> {
  const tunnels = await withNetlinkClient('route', dumpTunnels);
  const values = await readSysctls(['all', ...tunnels].map(nameReversePathFilter));
  const value = (device: string) => Number(values.get(nameReversePathFilter(device)) ?? 0);
  return tunnels.filter((device) => Math.max(value('all'), value(device)) === 1);
}

/** The switch of an interface's reverse path filter, as sysctl(8) takes it: a dot in the interface's name is a slash there. */
export function nameReversePathFilter(device: string): string {
  return nameSwitch('ipv4', device, 'rp_filter');
}

/** The values of these switches, by their names as sysctl takes them, trimmed. One that this kernel lacks is not in it. */
export async function readSysctls(names: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const found = await Promise.all(names.map(async (name) => [name, await readSysctl(name)] as const));
  return new Map(found.flatMap(([name, value]) => (value === null ? [] : [[name, value] as const])));
}

/** The interfaces that have IPv4 switches of their own, `all` and `default` among them. */
export async function listSwitchedInterfaces(): Promise<string[]> {
  return await readdir(interfacesFolder).catch(() => []);
}

async function readSysctl(name: string): Promise<string | null> {
  return (await read(toPath(name)))?.trim() ?? null;
}

/**
 * Networks of more than one address, each by its first one, to which the main table has a route that names an interface and no router, both families. No default route.
 * This host may have no address in them: cloud networks and DHCPv6 give a node an address of its own alone.
 * It takes as long as there are routes. Rejects with NETLINK_FAILED.
 */
export async function readOnLinkNetworks(): Promise<PlacedAddress[]> {
  return await withNetlinkClient(
    'route',
    async (client) => {
      const indexToName = await dumpLinks(client);
      const networks: PlacedAddress[] = [];
      for (const family of families) {
        await visitList(client, listRoutes(family), (datagram, start, end) => {
          const network = parseOnLinkRoute(datagram.subarray(start, end), indexToName);
          if (network !== null) networks.push(network);
        });
      }
      return networks;
    },
    true,
  );
}
const RTA_VIA = 18;
const RT_TABLE_MAIN = 254;
const RTN_UNICAST = 1;

/** Of struct rtmsg and its attributes. Null for any other route. */
function parseOnLinkRoute(data: Buffer, indexToName: ReadonlyMap<number, string>): PlacedAddress | null {
  const [prefixLength = 0, table, type] = [1, 4, 7].map((at) => data.readUInt8(at));
  const attributes = parseAttributes(data, rtmsgBytes);
  const hasRouter = [RTA_GATEWAY, RTA_VIA].some((one) => attributes.has(one));
  if (table !== RT_TABLE_MAIN || type !== RTN_UNICAST || hasRouter) return null;
  // A default route has no destination, and one with several next hops no interface.
  const address = readAddressBytes(attributes.get(RTA_DST));
  const device = indexToName.get(attributes.get(RTA_OIF)?.readInt32LE() ?? 0);
  if (address === null || device === undefined) return null;
  const family = familyOf(address);
  return prefixLength < familyToBits[family] ? { family, address, device, prefixLength } : null;
}

/**
 * Which of these addresses this host reaches by the router that it reaches everywhere else by. Not those on its links, behind a tunnel, or by
 * another host, as network plugins route pods. An address without a route is none of them. Rejects with NETLINK_FAILED.
 */
export async function findRouted(addresses: readonly string[]): Promise<string[]> {
  return await withNetlinkClient('route', async (client) => {
    const routers: Partial<Record<Family, string | null>> = {};
    for (const family of families) routers[family] = await findNextHop(client, familyToElsewhere[family]);
    const routed: string[] = [];
    for (const address of addresses) {
      const router = routers[familyOf(address)] ?? null;
      if (router !== null && (await findNextHop(client, address)) === router) routed.push(address);
    }
    return routed;
  });
}
const RTA_GATEWAY = 5;

/** The router of an address and its interface; null where there is none. */
async function findNextHop(client: NetlinkQuestioner, address: string): Promise<string | null> {
  const route = await findRoute(client, address);
  const gateway = route.get(RTA_GATEWAY);
  return gateway === undefined
    ? null
    : `${gateway.toString('hex')} ${route.get(RTA_OIF)?.toString('hex') ?? ''}`;
}

/** The attributes of the route to an address; none where there is no route. */
async function findRoute(client: NetlinkQuestioner, address: string): Promise<ReadonlyMap<number, Buffer>> {
  const family = familyOf(address);
  const header = Buffer.alloc(rtmsgBytes);
  header.set([familyToNumber[family], familyToBits[family]]);
  const payload = Buffer.concat([header, renderAttribute(RTA_DST, toAddressBytes(address))]);
  const question = { type: RTM_GETROUTE, payload, isDump: false, subject: `the route to ${address}` };
  const [answer] = await client.request(question).catch(() => []);
  return answer === undefined ? new Map() : parseAttributes(answer.data, rtmsgBytes);
}

/** All that a source is chosen from (docs/adr/0020), and every route to an IPv4 address of this host. Rejects with NETLINK_FAILED. */
export async function readLocalRoutes(): Promise<LocalRoutes> {
  return await withNetlinkClient('route', dumpLocalRoutes);
}

/** The same, by a client of the protocol route. */
export async function dumpLocalRoutes(client: NetlinkClient): Promise<LocalRoutes> {
  const addresses = await dumpAddresses(client);
  const routes = await dumpBusyList(client, listRoutes('ipv4'));
  const defaultRoute = await findRoute(client, familyToElsewhere.ipv4);
  const indexToName = await dumpLinks(client);
  return {
    addresses: addresses.flatMap(({ deviceIndex, ...address }) => {
      const device = indexToName.get(deviceIndex);
      return device === undefined ? [] : [{ ...address, device }];
    }),
    routes: routes.flatMap((data) => parseRoute(data, indexToName)),
    usualSource: readAddressBytes(defaultRoute.get(RTA_PREFSRC)),
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
const rtmsgBytes = 12;

function listRoutes(family: Family): NetlinkList {
  const payload = Buffer.alloc(rtmsgBytes);
  payload.writeUInt8(familyToNumber[family]);
  const [question, answer, subject] = [RTM_GETROUTE, RTM_NEWROUTE, 'routes'];
  return { question, answer, payload, leastBytes: rtmsgBytes, subject };
}

function parseRoute(data: Buffer, indexToName: ReadonlyMap<number, string>): LocalRoute[] {
  const isHere = data.readUInt8(4) === RT_TABLE_LOCAL && data.readUInt8(7) === RTN_LOCAL;
  if (!isHere || data.readUInt8(1) !== familyToBits.ipv4) return [];
  const attributes = parseAttributes(data, rtmsgBytes);
  const address = readAddressBytes(attributes.get(RTA_DST));
  const index = attributes.get(RTA_OIF);
  const device = index?.length === 4 ? indexToName.get(index.readInt32LE()) : undefined;
  if (address === null || device === undefined) return [];
  const source = readAddressBytes(attributes.get(RTA_PREFSRC));
  return [{ address, device, source, isOwn: data.readUInt8(5) === ownProtocol }];
}

async function order(route: SourceRoute, type: number, harmless: string): Promise<void> {
  const subject = `a local route of ${route.address} with the source ${route.source}`;
  await withNetlinkClient('route', async (client) => {
    const [index] = [...(await dumpLinks(client))].find(([, name]) => name === route.device) ?? [0];
    const payload = renderRoute(route, index);
    await isTaken(client, { type, payload, isOrder: true, subject }, harmless);
  });
}

/** struct rtmsg and its attributes. */
function renderRoute({ address, source }: SourceRoute, index: number): Buffer {
  const header = Buffer.alloc(rtmsgBytes);
  const [number, bits] = [familyToNumber.ipv4, familyToBits.ipv4];
  header.set([number, bits, 0, 0, RT_TABLE_LOCAL, ownProtocol, RT_SCOPE_HOST, RTN_LOCAL]);
  const device = Buffer.alloc(4);
  device.writeInt32LE(index);
  return Buffer.concat([
    header,
    renderAttribute(RTA_DST, toAddressBytes(address)),
    renderAttribute(RTA_PREFSRC, toAddressBytes(source)),
    renderAttribute(RTA_OIF, device),
  ]);
}

/**
 * The routing protocol that marks vipnat's routes: none that iproute2 6.14, BIRD, FRR, Cilium, kube-vip
 * or keepalived uses.
 */
const ownProtocol = 118;

/** What does to a route what `change` names, as a command for a shell. */
export function sourceRouteCommand(
  change: 'add' | 'remove',
  { address, device, source }: SourceRoute,
): string {
  const verb = change === 'add' ? 'prepend' : 'del';
  return `ip route ${verb} local ${address} dev ${device} table local proto ${ownProtocol} scope host src ${source}`;
}

/**
 * Which interfaces obey router advertisements, and would no more if the host forwarded.
 *
 * Goal: a host that begins to forward IPv6 loses no address and no route, neither now nor when their lifetime ends.
 * Tension: with forwarding, the kernel obeys advertisements only of interfaces whose `accept_ra` is 2, and immediately forgets their default
 * routes (net/ipv6/ndisc.c, rt6_purge_dflt_routers). What a host has now says little: the first advertisement may come later, and may give
 * an address without a default route. But a sender that is obeyed can become a host's router, and pods are at links of it, too.
 * Compromise: every interface that obeys them now continues, except a pod's end: a cable into another network namespace without an address.
 */

/** Of include/uapi/linux/ipv6_route.h: a default router that was found by an advertisement, or whatever else came by one. */
const isDefaultFlag = 0x00010000;
const isAdvertisedFlag = 0x00040000;

/** The interfaces that would turn deaf to router advertisements, sorted. Rejects with NETLINK_FAILED. */
export async function listAdvertised(): Promise<string[]> {
  const names = (await readdir('/proc/sys/net/ipv6/conf').catch(() => [])).filter(
    (name) => !noInterface.includes(name),
  );
  const values = await Promise.all(names.map((name) => readSysctl(acceptingSwitch(name))));
  // 0 is how a network manager says that it handles them itself; 2 is what is wanted.
  const heeding = names.filter((_, at) => values[at] === '1');
  if (heeding.length === 0) return [];
  const pods = await listPodsEnds();
  return heeding.filter((name) => !pods.has(name)).toSorted();
}

async function listPodsEnds(): Promise<ReadonlySet<string>> {
  const advertised = readAdvertised(await readFile('/proc/net/ipv6_route', 'utf8').catch(() => ''));
  return await withNetlinkClient('route', async (client) => {
    const indexToName = await dumpLinks(client);
    const placed = new Set(
      (await dumpAddresses(client)).filter(({ isSource }) => isSource).map((one) => one.deviceIndex),
    );
    const bare = [...(await dumpCables(client))].filter((index) => !placed.has(index));
    const names = bare.flatMap((index) => indexToName.get(index) ?? []);
    return new Set(names.filter((name) => !advertised.includes(name)));
  });
}

/** The interfaces with a route by an advertisement, of /proc/net/ipv6_route. Its flags are the last but one of its columns. Pure and total. */
export function readAdvertised(text: string): string[] {
  const devices = text.split('\n').flatMap((line) => {
    const [, , , , , , , , flags = '0', device] = line.trim().split(/\s+/);
    const isAdvertised = (parseInt(flags, 16) & (isDefaultFlag | isAdvertisedFlag)) !== 0;
    return isAdvertised && device !== undefined ? [device] : [];
  });
  return [...new Set(devices)];
}

/** The switch that has an interface obey advertisements although the host forwards. */
function acceptingSwitch(device: string): string {
  return nameSwitch('ipv6', device, 'accept_ra');
}
