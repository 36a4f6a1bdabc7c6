import { readSysctls } from '../host/sysctls.ts';
import { dumpTunnels } from '../netlink/addresses.ts';
import { withNetlinkClient } from '../netlink/netlink.ts';

/**
 * The tunnels of this host that drop IPv4 packets of which the way back is another interface, sorted. Strict is 1 (RFC 3704), and the
 * greater of the interface's value and that for all counts. Source: Documentation/networking/ip-sysctl.rst of Linux. Rejects with NETLINK_FAILED.
 */
export async function listStrictTunnels(): Promise<string[]> {
  const tunnels = await withNetlinkClient('route', dumpTunnels);
  const values = await readSysctls(['all', ...tunnels].map(nameTunnelFilter));
  const value = (device: string) => Number(values.get(nameTunnelFilter(device)) ?? 0);
  return tunnels.filter((device) => Math.max(value('all'), value(device)) === 1);
}

/** The switch of an interface, as sysctl(8) takes it: a dot in the interface's name is a slash there. */
export function nameTunnelFilter(device: string): string {
  return `net.ipv4.conf.${device.replaceAll('.', '/')}.rp_filter`;
}
