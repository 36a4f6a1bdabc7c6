import { type Address, type Family, parseAddress } from '../../lib/address/address.ts';
import { parseObjectName, toObjectName } from '../../lib/services/address-name.ts';
import { contains, countOfFamily, getNth } from '../../lib/services/ranges.ts';
import { type JudgedPool } from './judge-pools.ts';
import { type World } from './world.ts';
import { isInUse } from './object-parts.ts';

type Known = Pick<World, 'virtualIps' | 'keptBack'>;

type Pool = Pick<JudgedPool, 'pool' | 'ranges'>;

/** No more addresses of a pool than these can be taken. */
export function countKnown({ pool }: Pool, { virtualIps, keptBack }: Known): number {
  return virtualIps.size + keptBack.listAddresses(pool.metadata.name).length;
}

/**
 * How many addresses of a pool no Service can get now: Services have them, whichever pool gave them, or give them back, or name them
 * for themselves; or another host answers. What only waits to be given again counts as free. It costs the addresses or the VirtualIPs,
 * whichever are fewer.
 */
export function countTaken(pool: Pool, family: Family, world: Known): number {
  const isSmall = countOfFamily(pool.ranges, family) <= BigInt(countKnown(pool, world));
  return isSmall ? countOfAll(pool, family, world) : countOfKnown(pool, family, world);
}

function countOfAll(pool: Pool, family: Family, world: Known): number {
  let taken = 0;
  for (let index = 0n; index < countOfFamily(pool.ranges, family); index += 1n)
    if (isTaken(pool, getNth(pool.ranges, family, index), world)) taken += 1;
  return taken;
}

function countOfKnown(pool: Pool, family: Family, world: Known): number {
  const { virtualIps, keptBack } = world;
  const addresses = [
    ...[...virtualIps.keys()].map(parseObjectName),
    ...keptBack.listAddresses(pool.pool.metadata.name).map(parseAddress),
  ];
  const taken = addresses.flatMap((address) => {
    const isHere = address?.family === family && pool.ranges.some((range) => contains(range, address));
    return isHere && isTaken(pool, address, world) ? [address.text] : [];
  });
  return new Set(taken).size;
}

function isTaken({ pool }: Pool, address: Address, { virtualIps, keptBack }: Known): boolean {
  const virtualIp = virtualIps.get(toObjectName(address));
  const users = (virtualIp?.spec.services.length ?? 0) + (virtualIp?.spec.leaving.length ?? 0);
  if (users > 0 || (virtualIp !== undefined && isInUse(virtualIp))) return true;
  return keptBack.find(pool.metadata.name, address, '') !== null;
}
