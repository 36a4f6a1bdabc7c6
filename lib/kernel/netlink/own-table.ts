import { familyToNft } from './nft-chains.ts';
import { type Family } from '../../address/address.ts';

/** The name of our nftables table, in each family that has one. Whatever it holds is ours: nobody else writes there. */
export const ownTable = 'vipnat';

/** `ip vipnat` or `ip6 vipnat`. */
export function nameOwnTable(family: Family): string {
  return `${familyToNft[family]} ${ownTable}`;
}
