import { type SubnetAddress } from '../address/subnet.ts';
import { type LocalAddress } from '../kernel/port.ts';
import { safeInterface } from './words.ts';

/** An address of this host with its subnet; one that keepalived holds is among them. */
export type HostAddress = LocalAddress & SubnetAddress;

/** A host's addresses without those that keepalived holds: what its subnets are told by. Pure. */
export function listSubnets(hostAddresses: readonly HostAddress[]): HostAddress[] {
  return hostAddresses.filter((one) => !isWhole(one) && isUsable(one));
}

/** Whether keepalived can have an instance on an interface. Pure. */
export function isUsable({ device }: Pick<HostAddress, 'device'>): boolean {
  return safeInterface.test(device) && device !== 'lo';
}

/** Whether keepalived may have put an address there: it does so with a whole prefix. */
export function isWhole({ family, prefixLength }: HostAddress): boolean {
  return prefixLength === wholePrefixes[family];
}

/** Bits of an address. */
export const wholePrefixes = { ipv4: 32, ipv6: 128 } as const;
