import { type Address } from '../../lib/address/address.ts';
import { classifyAddress } from '../../lib/address/scope.ts';
import { isInSubnet, type SubnetAddress } from '../../lib/address/subnet.ts';
import { toBlock, toNumber } from '../../lib/services/ranges.ts';
import { safeInterface } from '../../lib/keepalived/words.ts';
import { type LocalAddress } from '../../lib/kernel/port.ts';

/** An address of this host with its subnet; one that keepalived holds is among them. */
export type HostAddress = LocalAddress & SubnetAddress;

/** An address with the interface that gets it. */
export interface PlacedAddress {
  readonly address: Address;
  readonly device: string;
}

/** A host's addresses without those that keepalived holds: what its subnets are told by. Pure. */
export function listSubnets(hostAddresses: readonly HostAddress[]): HostAddress[] {
  return hostAddresses.filter(
    (one) => !isWhole(one) && safeInterface.test(one.device) && one.device !== 'lo',
  );
}

/**
 * Where a host with these subnets is to have an address, see findPlace. A problem, as a clause without a subject, also where keepalived
 * would take a host's own address away. Pure.
 */
export function placeAddress(
  address: Address,
  interface_: string,
  subnets: readonly HostAddress[],
): PlacedAddress | string {
  if (classifyAddress(address) !== 'unicast') return 'is not an address that one host can have';
  const edge = findEdge(address, subnets);
  if (edge !== null) return edge;
  if (subnets.some((one) => one.address === address.text)) return 'is an address of this host itself';
  return findPlace(address, interface_, subnets);
}

/**
 * The interface of that name, or for `auto` that whose subnet has an address. A problem, as a clause without a subject, where there is no
 * such interface. Pure.
 */
export function findPlace(
  address: Address,
  interface_: string,
  subnets: readonly HostAddress[],
): PlacedAddress | string {
  const isAuto = interface_ === 'auto';
  const devices = listDevices(
    subnets.filter((one) =>
      isAuto ? isInSubnet(address.text, one) : one.device === interface_ && one.family === address.family,
    ),
  );
  const [device, ...others] = devices;
  if (device !== undefined && others.length === 0) return { address, device };
  if (others.length > 0) return `is in the subnets of several interfaces (${devices.join(', ')})`;
  if (!isAuto) {
    return `needs the interface ${interface_}, which has no ${familyNames[address.family]} address here`;
  }
  return `is in no subnet of this host (it has ${listDevices(subnets).join(', ')})`;
}

/** Neighbours send to nobody there, or to each router: RFC 919 and 922, and RFC 4291, 2.6.1. Links of two hosts have no such addresses (RFC 3021, 6164). */
function findEdge(address: Address, subnets: readonly HostAddress[]): string | null {
  const bits = wholePrefixes[address.family];
  const subnet = subnets.find((one) => isInSubnet(address.text, one) && bits - one.prefixLength > 1);
  if (subnet === undefined) return null;
  const block = toBlock(address, subnet.prefixLength);
  const number = toNumber(address);
  const name = `the subnet of ${subnet.device}`;
  if (number === block?.first) return `is the address of ${name} itself`;
  return address.family === 'ipv4' && number === block?.last ? `is the broadcast address of ${name}` : null;
}

/** Whether keepalived may have put an address there: it does so with a whole prefix. */
export function isWhole({ family, prefixLength }: HostAddress): boolean {
  return prefixLength === wholePrefixes[family];
}

/** Bits of an address. */
export const wholePrefixes = { ipv4: 32, ipv6: 128 } as const;

const familyNames = { ipv4: 'IPv4', ipv6: 'IPv6' } as const;

function listDevices(addresses: readonly HostAddress[]): string[] {
  return [...new Set(addresses.map(({ device }) => device))].sort();
}
