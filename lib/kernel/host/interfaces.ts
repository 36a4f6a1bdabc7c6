import { networkInterfaces } from 'node:os';
import { parseAddress } from '../../address/address.ts';
import { type LocalAddress } from '../port.ts';

/** An address of this host with its subnet. */
export interface InterfaceAddress extends LocalAddress {
  /** How many bits of the address name its subnet. */
  readonly prefixLength: number;
}

/** The addresses of this network namespace's interfaces that are up, without loopback and link-local ones. */
export function readInterfaces(): InterfaceAddress[] {
  return Object.entries(networkInterfaces()).flatMap(([label, addresses = []]) =>
    addresses.flatMap(({ address, cidr, internal }) => {
      const parsed = parseAddress(address);
      const isLinkLocal = /^(169\.254\.|fe[89ab])/.test(address);
      if (parsed === null || cidr === null || internal || isLinkLocal) return [];
      const prefixLength = Number(cidr.slice(cidr.indexOf('/') + 1));
      return [{ family: parsed.family, address: parsed.text, device: toDevice(label), prefixLength }];
    }),
  );
}

/** glibc's getifaddrs gives an address's label for its interface: `eth0:1` is on eth0. */
function toDevice(label: string): string {
  return label.split(':')[0] ?? label;
}
