import { type Address } from '../../../lib/address/address.ts';
import { type InterfaceAddress } from '../../../lib/kernel/host/interfaces.ts';
import { isInSubnet } from '../../../lib/address/subnet.ts';

/** What this node's own address is told by. */
export interface OwnAddressNeeds {
  /** The addresses of this host of the VIP's family, virtual ones left out. */
  readonly addresses: readonly InterfaceAddress[];
  readonly masters: readonly string[];
  /** The interface that carries the VIP. */
  readonly device: string;
}

/**
 * The address from which this node sends adverts, by which its peers know it: that which is among the masters, else
 * the one on the interface, the VIP's subnet first. When that is none or several, a problem in words. Pure.
 */
export function findOwnAddress(
  vip: Address,
  { addresses, masters, device }: OwnAddressNeeds,
): { address: string } | { problem: string } {
  const onDevice = addresses.filter((local) => local.device === device);
  const choices = [
    addresses.filter(({ address }) => masters.includes(address)),
    onDevice.filter(({ address }) => masters.includes(address)),
    onDevice.filter((local) => isInSubnet(vip.text, local)),
    onDevice,
  ];
  const [only] = choices.find((choice) => choice.length === 1) ?? [];
  if (only !== undefined) return { address: only.address };
  const family = vip.family === 'ipv4' ? 'IPv4' : 'IPv6';
  const several = onDevice.map(({ address }) => address).join(', ');
  const what = onDevice.length === 0 ? `${device} has no ${family} address` : `${device} has ${several}`;
  return {
    problem: `vipnat cannot tell by which address the peers know this node: ${what}. Add the address to --peers`,
  };
}
