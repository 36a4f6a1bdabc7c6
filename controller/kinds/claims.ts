/** What a Service has of ours: addresses, finalizers, and VirtualIPs that somebody deleted. */
import { type Address, parseAddress } from '../../lib/address/address.ts';
import { parseObjectName, toObjectName } from '../../lib/services/address-name.ts';
import { addressReady, cleanupFinalizer, finalizer } from '../../lib/services/names.ts';
import { type AddressUser, type VirtualIp } from '../../lib/services/objects.ts';
import { contains } from '../../lib/services/ranges.ts';
import { type Service } from '../../lib/services/services.ts';
import { chooseSeat } from '../allocate/seats.ts';
import { findCondition, getIngress } from '../cache/object-parts.ts';
import { type World } from '../cache/world.ts';
import { type Write } from '../engine/step.ts';
import { createVirtualIp } from './writes.ts';

/** An address that a Service has, or gives back. */
export interface Claim {
  readonly address: Address;
  readonly virtualIp: VirtualIp;
}

/** The addresses of one Service, in the order of their names. */
export interface Claims {
  readonly held: readonly Claim[];
  readonly leaving: readonly Claim[];
}

/** Those of the Service itself, not of another one that had its name. */
export function findClaims({ metadata: { namespace, name, uid } }: Service, world: World): Claims {
  const names = [...(world.serviceToVirtualIps.get(`${namespace}/${name}`) ?? [])].sort();
  const claims = names.flatMap((each): Claim[] => {
    const [address, virtualIp] = [parseObjectName(each), world.virtualIps.get(each)];
    return address === null || virtualIp === undefined ? [] : [{ address, virtualIp }];
  });
  const has = (users: readonly AddressUser[]) => users.some((user) => user.uid === uid);
  return {
    held: claims.filter(({ virtualIp }) => has(virtualIp.spec.services)),
    leaving: claims.filter(({ virtualIp }) => has(virtualIp.spec.leaving)),
  };
}

/** What stands in a VirtualIP for a Service. */
export function toUser({ metadata: { namespace, name, uid } }: Service): AddressUser {
  return { namespace, name, uid };
}

/** The Service of a user, if it is the same one. */
export function findService(
  { namespace, name, uid }: AddressUser,
  world: World,
): ReturnType<World['services']['get']> {
  const service = world.services.get(`${namespace}/${name}`);
  return service?.metadata.uid === uid ? service : undefined;
}

/** The fields with which Services begin to give an address back: nodes are to forget it for them. */
export function startLeaving(
  { spec }: VirtualIp,
  uids: ReadonlySet<string>,
): Pick<VirtualIp['spec'], 'services' | 'leaving'> {
  const isGoing = ({ uid }: AddressUser) => uids.has(uid);
  return {
    services: spec.services.filter((user) => !isGoing(user)),
    leaving: [...spec.leaving.filter((user) => !isGoing(user)), ...spec.services.filter(isGoing)],
  };
}

/**
 * The finalizers of a Service that vipnat is about to serve; null when it has vipnat's. A Service without a class also gets the one that
 * Kubernetes names for every load balancer, so that tools which ask for it find it. It stands behind vipnat's: one that stands before is of
 * another load balancer, which has not cleaned up yet, and stays.
 */
export function addFinalizers({ metadata, spec }: Service): readonly string[] | null {
  const known = metadata.finalizers ?? [];
  if (known.includes(finalizer)) return null;
  const hasClass = typeof spec.loadBalancerClass === 'string';
  return [...known, finalizer, ...(hasClass || known.includes(cleanupFinalizer) ? [] : [cleanupFinalizer])];
}

/** The finalizers of a Service that vipnat is done with; null when it does not have vipnat's. */
export function dropFinalizers({ metadata }: Service): readonly string[] | null {
  const known = metadata.finalizers ?? [];
  const at = known.indexOf(finalizer);
  if (at < 0) return null;
  return [...known.slice(0, at), ...known.slice(at + 1).filter((each) => each !== cleanupFinalizer)];
}

/**
 * Makes a VirtualIP again as it was, which somebody deleted while Services had it: nodes may serve it for each of them. Its pool and its seat are
 * what they should be, whatever was written there by hand.
 */
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
