/** VirtualIPs that somebody deleted while Services had them, or gave them back: nodes may serve them for each of them. */
import { type Address, parseAddress } from '../../lib/address/address.ts';
import { parseObjectName, toObjectName } from '../../lib/services/address-name.ts';
import { addressReady } from '../../lib/services/names.ts';
import { type VirtualIp } from '../../lib/services/objects.ts';
import { contains } from '../../lib/services/ranges.ts';
import { type Service } from '../../lib/services/services.ts';
import { chooseSeat } from '../allocate/seat-of-address.ts';
import { findCondition } from '../cache/conditions.ts';
import { getIngress } from '../cache/object-parts.ts';
import { type World } from '../cache/world.ts';
import { toUser } from './claims.ts';
import { type Write } from '../engine/step.ts';
import { findService } from './virtual-ip-status.ts';
import { createVirtualIp } from './writes.ts';

/** Makes one again as it was. Its pool and its seat are what they should be, whatever was written there by hand. */
export function restoreVirtualIp(name: string, { spec }: VirtualIp, world: World): Write {
  const address = parseObjectName(name);
  const pool = findPool(address, world) ?? spec.pool;
  const gone = spec.services.filter((user) => findService(user, world) === undefined);
  return createVirtualIp(name, {
    ...spec,
    pool,
    seat: address === null ? spec.seat : chooseSeat(address, world.pools.get(pool)),
    services: spec.services.filter((user) => !gone.includes(user)),
    leaving: [...spec.leaving, ...gone],
  });
}

/**
 * Makes one that a Service's status stands for, if no object does: so that what it gives back goes to nobody before nodes have forgotten it.
 * Null where there is none to be made. No leader remembers what was deleted before its time: here it is not known which nodes heard of it.
 */
export function restoreLost(service: Service, world: World): Write | null {
  if (findCondition(service.status?.conditions ?? [], addressReady) === null) return null;
  for (const { ip, ipMode } of getIngress(service)) {
    const address = ipMode === 'VIP' ? parseAddress(ip ?? '') : null;
    const pool = findPool(address, world);
    if (address === null || pool === null || world.virtualIps.has(toObjectName(address))) continue;
    const seat = chooseSeat(address, world.pools.get(pool));
    const leaving = [toUser(service)];
    const spec = { pool, seat, shareKey: '', services: [], leaving, formerNamespaces: [], absent: [] };
    return createVirtualIp(toObjectName(address), spec);
  }
  return null;
}

/** The pool that has an address; null for none. */
function findPool(address: Address | null, { judgedPools }: World): string | null {
  const has =
    address === null
      ? null
      : [...judgedPools].find(([, { ranges }]) => ranges.some((range) => contains(range, address)));
  return has?.[0] ?? null;
}
