import { type Address } from '../../lib/address/address.ts';
import { classifyAddress } from '../../lib/address/scope.ts';
import { isInSubnet } from '../../lib/address/subnet.ts';
import {
  type HostAddress,
  isUsable,
  isWhole,
  listSubnets,
  wholePrefixes,
} from '../../lib/keepalived/subnets.ts';
import { toBlock, toNumber } from '../../lib/services/ranges.ts';

/** What tells where a host is to have an address. */
export interface HostNetworks {
  /** See listSubnets. */
  readonly subnets: readonly HostAddress[];
  /** Networks that a route reaches on an interface: each by its first address. */
  readonly onLink?: readonly HostAddress[];
  /** See listAlone. */
  readonly alone?: readonly HostAddress[];
}

/** An address with the interface that gets it. */
export interface PlacedAddress {
  readonly address: Address;
  readonly device: string;
}

/**
 * Those of a host's addresses that name no subnet: on interfaces without another address of their family, and not in keepalived's
 * configuration. Cloud networks and DHCPv6 give such ones. Pure.
 */
export function listAlone(
  hostAddresses: readonly HostAddress[],
  configured: ReadonlySet<string>,
): HostAddress[] {
  const subnets = new Set(listSubnets(hostAddresses).map(({ device, family }) => `${device} ${family}`));
  return hostAddresses.filter(
    (one) =>
      isWhole(one) &&
      isUsable(one) &&
      !subnets.has(`${one.device} ${one.family}`) &&
      !configured.has(one.address),
  );
}

/**
 * Where a host is to have an address, see findPlace. A problem, as a clause without a subject, also where keepalived
 * would take a host's own address away. Pure.
 */
export function placeAddress(
  address: Address,
  interface_: string,
  host: HostNetworks,
): PlacedAddress | string {
  if (classifyAddress(address) !== 'unicast') return 'is not an address that one host can have';
  const edge = findEdge(address, [...host.subnets, ...(host.onLink ?? [])]);
  if (edge !== null) return edge;
  const place = findPlace(address, interface_, host);
  // kube-proxy in mode ipvs has Services' addresses alone, too: on an interface of its own.
  const own = [
    ...host.subnets,
    ...(host.alone ?? []).filter(({ device }) => typeof place !== 'string' && device === place.device),
  ];
  return own.some((one) => one.address === address.text) ? 'is an address of this host itself' : place;
}

/**
 * The interface of that name, or for `auto` that whose subnet has an address, or else to which the most specific route to it leads. A problem,
 * as a clause without a subject, where there is no such interface. Pure.
 */
export function findPlace(address: Address, interface_: string, host: HostNetworks): PlacedAddress | string {
  const isAuto = interface_ === 'auto';
  const devices = listDevices(isAuto ? listNetworks(address, host) : listNamed(address, interface_, host));
  const [device, ...others] = devices;
  if (device !== undefined && others.length === 0) return { address, device };
  if (others.length > 0) return `is in the subnets of several interfaces (${devices.join(', ')})`;
  if (!isAuto) {
    return `needs the interface ${interface_}, which has no ${familyNames[address.family]} address here`;
  }
  const known =
    listDevices(host.subnets).join(', ') || 'none: spec.interface of the pool can name an interface';
  return `is in no subnet of this host (it has ${known})`;
}

/** With an own address of its family, by which keepalived sends its adverts. */
function listNamed({ family }: Address, name: string, { subnets, alone = [] }: HostNetworks): HostAddress[] {
  return [...subnets, ...alone].filter((one) => one.device === name && one.family === family);
}

function listNetworks(address: Address, { subnets, onLink = [] }: HostNetworks): HostAddress[] {
  const around = listAround(address, subnets);
  return around.length === 0 ? listClosest(address, onLink) : around;
}

function listAround({ text }: Address, networks: readonly HostAddress[]): HostAddress[] {
  return networks.filter((one) => isInSubnet(text, one));
}

/** The smallest networks that have it: several where interfaces have the same one. */
function listClosest(address: Address, networks: readonly HostAddress[]): HostAddress[] {
  const around = listAround(address, networks);
  const longest = Math.max(...around.map(({ prefixLength }) => prefixLength));
  return around.filter(({ prefixLength }) => prefixLength === longest);
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

const familyNames = { ipv4: 'IPv4', ipv6: 'IPv6' } as const;

function listDevices(addresses: readonly HostAddress[]): string[] {
  return [...new Set(addresses.map(({ device }) => device))].sort();
}
