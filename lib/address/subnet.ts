import ipaddr from 'ipaddr.js';

/** An address of an interface, in canonical text, with its subnet. */
export interface SubnetAddress {
  readonly address: string;
  /** How many bits of the address name its subnet. */
  readonly prefixLength: number;
}

/** Whether an address is in the subnet of one of this host's. An address of another family is not. Pure. */
export function isInSubnet(text: string, local: SubnetAddress): boolean {
  const address = ipaddr.parse(text);
  const subnet = ipaddr.parse(local.address);
  return address.kind() === subnet.kind() && address.match(subnet, local.prefixLength);
}
