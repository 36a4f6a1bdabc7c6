import { type Address, type Family, parseAddress } from '../../lib/address/address.ts';
import { parseObjectName, toObjectName } from '../../lib/services/address-name.ts';
import { type AddressRange, contains, countOfFamily, getNth } from '../../lib/services/ranges.ts';
import { isInUse } from './conditions.ts';
import { type World } from './world.ts';

type Known = Pick<World, 'virtualIps' | 'addressToClaimers'>;

/**
 * How many addresses of some ranges no Service can get now: Services have them, whichever pool gave them, or give them back, or name them
 * for themselves; or another host answers. What only waits to be given again counts as free. It costs the addresses or the VirtualIPs,
 * whichever are fewer.
 */
export function countTaken(ranges: readonly AddressRange[], family: Family, world: Known): number {
  const count = countOfFamily(ranges, family);
  const known = world.virtualIps.size + world.addressToClaimers.size;
  return count <= BigInt(known) ? countOfAll(ranges, family, world) : countOfKnown(ranges, family, world);
}

function countOfAll(ranges: readonly AddressRange[], family: Family, world: Known): number {
  let taken = 0;
  for (let index = 0n; index < countOfFamily(ranges, family); index += 1n)
    if (isTaken(getNth(ranges, family, index), world)) taken += 1;
  return taken;
}

function countOfKnown(ranges: readonly AddressRange[], family: Family, world: Known): number {
  const { virtualIps, addressToClaimers } = world;
  const addresses = [
    ...[...virtualIps.keys()].map(parseObjectName),
    ...[...addressToClaimers.keys()].map(parseAddress),
  ];
  const taken = addresses.flatMap((address) => {
    const isHere = address?.family === family && ranges.some((range) => contains(range, address));
    return isHere && isTaken(address, world) ? [address.text] : [];
  });
  return new Set(taken).size;
}

function isTaken(address: Address, { virtualIps, addressToClaimers }: Known): boolean {
  const virtualIp = virtualIps.get(toObjectName(address));
  const users = (virtualIp?.spec.services.length ?? 0) + (virtualIp?.spec.leaving.length ?? 0);
  return users > 0 || addressToClaimers.has(address.text) || (virtualIp !== undefined && isInUse(virtualIp));
}
