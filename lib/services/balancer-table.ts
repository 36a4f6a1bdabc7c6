import { type Family } from '../address/address.ts';
import { familyToNft } from '../kernel/netlink/nft-chains.ts';

/** The name of the balancer's table. Whatever it holds is ours: nobody else writes there. */
export const tableName = 'vipnat-lb';

/** `ip vipnat-lb` or `ip6 vipnat-lb`. */
export function nameTable(family: Family): string {
  return `${familyToNft[family]} ${tableName}`;
}

/** For how long packets are balanced after the balancer has last said that it lives. */
export const aliveSeconds = 30;
