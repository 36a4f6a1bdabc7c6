import { readFile } from 'node:fs/promises';

/** Of include/uapi/linux/ipv6_route.h: a default router that was found by an advertisement, or whatever else came by one. */
const isDefaultFlag = 0x00010000;
const isAdvertisedFlag = 0x00040000;

/**
 * The interfaces whose default route the kernel has from a router advertisement and would forget when forwarding is
 * switched on: it forgets those of interfaces whose `accept_ra` is not 2 (net/ipv6/route.c, rt6_purge_dflt_routers), and
 * heeds no further advertisement there.
 */
export async function listAdvertised(): Promise<string[]> {
  const devices = readAdvertised(await readFile('/proc/net/ipv6_route', 'utf8').catch(() => ''));
  const found = await Promise.all(
    devices.map(async (device) => {
      const value = await readFile(toAcceptPath(device), 'utf8').catch(() => '');
      return ['', '2'].includes(value.trim()) ? [] : [device];
    }),
  );
  return found.flat();
}

/** Of /proc/net/ipv6_route, as Documentation/networking/ip-sysctl.rst does not tell: the flags are the last but one of its columns. Pure and total. */
export function readAdvertised(text: string): string[] {
  const devices = text.split('\n').flatMap((line) => {
    const [target = '', length, , , , , , , flags = '0', device] = line.trim().split(/\s+/);
    const isDefault = /^0+$/.test(target) && length === '00';
    const isAdvertised = (parseInt(flags, 16) & (isDefaultFlag | isAdvertisedFlag)) !== 0;
    return isDefault && isAdvertised && device !== undefined ? [device] : [];
  });
  return [...new Set(devices)];
}

/** The switch that has an interface heed advertisements although the host forwards, as a path. */
export function toAcceptPath(device: string): string {
  return `/proc/sys/net/ipv6/conf/${device}/accept_ra`;
}

/** The same with its value, as sysctl takes it: a dot in an interface's name is a slash there. */
export function describeAccepting(device: string): string {
  return `net.ipv6.conf.${device.replaceAll('.', '/')}.accept_ra=2`;
}
