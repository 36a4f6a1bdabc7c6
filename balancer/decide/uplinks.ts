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

/**
 * The rule that takes packets to a Service's address out that are not from outside: those of pods and programs of this node, and all on a
 * node that does not hold the address. With `findUplinks` it is looser: other nodes take themselves for the one that holds the address. Pure.
 */
export function acceptInside(uplinks: readonly string[] | null): string[] {
  if (uplinks === null) return ['fib daddr . iif type != 2 accept'];
  return [`${uplinks.map((name) => `iifname != "${name}"`).join(' ')} accept`];
}
