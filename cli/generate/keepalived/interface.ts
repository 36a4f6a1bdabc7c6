import { type Address } from '../../../lib/address/address.ts';
import { isInSubnet } from '../../../lib/address/subnet.ts';
import { type InterfaceAddress } from '../../../lib/kernel/host/interfaces.ts';

/** What an interface is chosen by. */
export interface InterfaceNeeds {
  /** The addresses of this host, virtual ones left out. */
  readonly addresses: readonly InterfaceAddress[];
  /** The other masters and this one, as far as they are known. */
  readonly masters: readonly string[];
}

/**
 * The interface that carries a virtual IP: that with the VIP's subnet, else the one that leads to the masters. When
 * that is none or several, a problem in words, with the way out. Pure.
 */
export function chooseInterface(
  vip: Address,
  { addresses, masters }: InterfaceNeeds,
): { device: string } | { problem: string } {
  const around = listDevices(addresses.filter((local) => isInSubnet(vip.text, local)));
  const towards = listDevices(
    addresses.filter((local) => masters.some((master) => isInSubnet(master, local))),
  );
  const candidates = around.length > 0 ? around : towards;
  const [device = 'eth0', ...others] = candidates;
  if (candidates.length === 1) return { device };
  if (others.length > 0) {
    const what =
      around.length > 0 ? 'is in the subnets' : 'is in no subnet of this host, and the masters are in those';
    return { problem: `${vip.text} ${what} of ${candidates.join(', ')}. Choose one: --interface ${device}` };
  }
  const all = listDevices(addresses);
  const known = all.length === 0 ? 'no interface here has an address' : `it has ${all.join(', ')}`;
  return {
    problem: `${vip.text} is in no subnet of this host (${known}). Name its interface: --interface ${all[0] ?? 'eth0'}`,
  };
}

function listDevices(addresses: readonly InterfaceAddress[]): string[] {
  return [...new Set(addresses.map(({ device }) => device))].sort();
}
