import { type Family } from '../../address/address.ts';
import { type NftSet } from './ruleset.ts';

/** How nft calls the addresses of a family. */
export function toAddressType(family: Family): 'ipv4_addr' | 'ipv6_addr' {
  return family === 'ipv6' ? 'ipv6_addr' : 'ipv4_addr';
}

/** How many keys one memory can have. One more is not remembered. */
const maxRemembered = 65_535;

/** A set that rules put keys of a type into, such as clients whose place is kept: each for so many seconds after its last packet. */
export function declareMemory(type: string, seconds: number): NftSet {
  const declaration = `type ${type}; size ${maxRemembered}; flags dynamic,timeout; timeout ${seconds}s`;
  return { kind: 'set', declaration, elements: new Map() };
}

/** Before kube-proxy's and iptables' nat chains at -100 (dstnat) and 100 (srcnat). Numbers: nft refuses `dstnat` in output chains. */
export const natPriority = { translate: -105, masquerade: 95 } as const;

/** What a chain is declared as that packets pass at a hook; what no rule of it decides about goes on. */
export function declareHook(type: 'filter' | 'nat', hook: string, priority: number): string {
  return `type ${type} hook ${hook} priority ${priority}; policy accept;`;
}
