/**
 * Which interfaces heed router advertisements, and would no more if the host forwarded.
 *
 * Goal: a host that begins to forward IPv6 loses no address and no route, neither now nor when their lifetime ends.
 * Tension: with forwarding, the kernel heeds advertisements only of interfaces whose `accept_ra` is 2, and forgets their default routes at once
 * (net/ipv6/ndisc.c, rt6_purge_dflt_routers). What a host has now says little: the first advertisement may come later, and may give an address
 * without a default route. But whoever is heeded can become a host's router, and pods are at links of it, too.
 * Compromise: every interface that heeds them now goes on so, but for a pod's end: a cable into another network namespace without an address.
 */
import { readdir, readFile } from 'node:fs/promises';
import { dumpAddresses, dumpCables, dumpLinks } from '../netlink/addresses.ts';
import { withNetlinkClient } from '../netlink/netlink.ts';

/** Of include/uapi/linux/ipv6_route.h: a default router that was found by an advertisement, or whatever else came by one. */
const isDefaultFlag = 0x00010000;
const isAdvertisedFlag = 0x00040000;

const switchesFolder = '/proc/sys/net/ipv6/conf';

/** `default` is of interfaces that come later: nearly all of these are pods' ends. */
const noInterface: readonly string[] = ['all', 'default', 'lo'];

/** The interfaces that would turn deaf to router advertisements, sorted. Rejects with NETLINK_FAILED. */
export async function listAdvertised(): Promise<string[]> {
  const names = (await readdir(switchesFolder).catch(() => [])).filter((name) => !noInterface.includes(name));
  const values = await Promise.all(names.map((name) => readFile(toAcceptPath(name), 'utf8').catch(() => '')));
  // 0 is how a network manager says that it heeds them itself; 2 is what is wanted.
  const heeding = names.filter((_, at) => values[at]?.trim() === '1');
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

/** The switch that has an interface heed advertisements although the host forwards, as a path. */
export function toAcceptPath(device: string): string {
  return `${switchesFolder}/${device}/accept_ra`;
}

/** The same with its value, as sysctl takes it: a dot in an interface's name is a slash there. */
export function describeAccepting(device: string): string {
  return `net.ipv6.conf.${device.replaceAll('.', '/')}.accept_ra=2`;
}
