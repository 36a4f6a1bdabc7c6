/** By which interfaces packets from outside come, where the kernel cannot tell by the address alone. */
import { isInSubnet } from '../../lib/address/subnet.ts';
import { safeInterface } from '../../lib/keepalived/words.ts';
import { type PlacedAddress } from '../../lib/kernel/netlink/addresses.ts';

/** kube-proxy in ipvs mode gives it the addresses of all Services, on every node. Source: pkg/proxy/ipvs, defaultDummyDevice. */
const proxyInterface = 'kube-ipvs0';

const wholePrefixes = { ipv4: 32, ipv6: 128 } as const;

/**
 * This host's addresses with a subnet, if kube-proxy has an interface with Services' addresses here; null otherwise. The kernel then
 * takes an address for one of whichever interface had it first (fib_lookup of Linux 6.1), which is kube-proxy's after a move. Pure.
 */
export function listUplinks(addresses: readonly PlacedAddress[]): readonly PlacedAddress[] | null {
  if (!addresses.some(({ device }) => device === proxyInterface)) return null;
  return addresses.filter(
    ({ device, family, prefixLength }) =>
      ![proxyInterface, 'lo'].includes(device) &&
      prefixLength < wholePrefixes[family] &&
      safeInterface.test(device),
  );
}

/** The interfaces in whose subnets one of a Service's addresses is, sorted; null where none is, or the kernel can tell. Pure. */
export function findUplinks(
  addresses: readonly string[],
  uplinks: readonly PlacedAddress[] | null,
): readonly string[] | null {
  const near = (uplinks ?? []).filter((uplink) => addresses.some((address) => isInSubnet(address, uplink)));
  return near.length === 0 ? null : [...new Set(near.map(({ device }) => device))].sort();
}
