import { type Family, type Address, parseObjectName, parseAddress, toObjectName } from '../../lib/net.ts';
import {
  type Choice,
  type AllocationProblem,
  type Request,
  chooseNamed,
  chooseAny,
} from '../allocate/choose-address.ts';
import { type Service, type ServiceRequests, readRequests } from '../../lib/api/service.ts';
import { type ClusterView, findService } from '../cache/cache.ts';
import { findPoolsOf } from '../cache/pools.ts';
import { listPublished, findReadiness, isJudged, isInUse, getIngress } from '../cache/parts.ts';
import { type VirtualIp, type AddressUser, finalizer, cleanupFinalizer } from '../../lib/api/vipnat.ts';
import { type Write, createVirtualIp, patchVirtualIp, type Confirmation } from '../step.ts';
import { chooseSeat } from '../allocate/seats.ts';

/** The state of a Service for one family. */
export interface Target {
  readonly family: Family;
  /** What its status has of this family, if it is still its own. */
  readonly published: Allocation | null;
  /** What it has, and is to publish. */
  readonly held: Allocation | null;
  readonly choice: Choice | null;
  readonly problem: AllocationProblem | null;
}

/** A Service, with what follows from it. */
export interface Situation {
  readonly service: Service;
  readonly requests: ServiceRequests;
  readonly allocations: Allocations;
  /** In the order of the Service's own families. */
  readonly targets: readonly Target[];
}

/** What a Service is to have: the address that is asked for, else the one it has, else any. */
export function findTargets(service: Service, view: ClusterView): Situation {
  const requests = readRequests(service);
  const allocations = findAllocations(service, view);
  const targets = requests.families.map((family) =>
    findTarget({ service, requests, family }, allocations, view),
  );
  return { service, requests, allocations, targets };
}

function findTarget(request: Request, allocations: Allocations, view: ClusterView): Target {
  const { service, requests, family } = request;
  const held = allocations.held.filter(({ address }) => address.family === family);
  const named = listPublished(service).find((address) => address.family === family);
  const published = held.find(({ address }) => address.text === named?.text) ?? null;
  const requested = requests.addresses[family];
  const own = held.find(({ address }) => address.text === (requested ?? named)?.text) ?? null;
  const base = { family, published, held: own, choice: null, problem: null };
  if (requests.problem !== null && (requested === undefined || own === null))
    return { ...base, problem: { reason: 'AddressesMalformed', message: `${requests.problem}.` } };
  if (own !== null) return base;
  if (requested !== undefined) return { ...base, ...toOutcome(chooseNamed(request, requested, view)) };
  if (named === undefined) return { ...base, ...findAny(request, allocations, view) };
  // Its status has an address that is not its own: of another load balancer, or its VirtualIP was deleted by hand.
  const choice = chooseNamed(request, named, view);
  if (!('reason' in choice)) return { ...base, choice };
  const message = `The Service no longer has ${named.text}. ${choice.message}`;
  return { ...base, problem: { reason: 'AddressLost', message } };
}

function toOutcome(choice: Choice | AllocationProblem): Partial<Target> {
  return 'reason' in choice ? { problem: choice } : { choice };
}

/** Whether an address was taken out of a Service's status, because another host answers for it. It is to come back. */
export function wasWithdrawn(service: Service): boolean {
  return findReadiness(service)?.reason === 'AddressWithdrawn';
}

/** One that it has, then one that it gives back, before any other. */
function findAny(request: Request, allocations: Allocations, view: ClusterView): Partial<Target> {
  const isOfFamily = ({ address }: Allocation) => address.family === request.family;
  const held = allocations.held.filter(isOfFamily);
  const [first] = wasWithdrawn(request.service) ? held : [];
  const kept = held.find((allocation) => isGood(allocation, view)) ?? first;
  if (kept !== undefined) return { held: kept };
  for (const allocation of allocations.leaving.filter(isOfFamily)) {
    const again = isGood(allocation, view) ? chooseNamed(request, allocation.address, view) : null;
    if (again !== null && !('reason' in again)) return { choice: again };
  }
  return toOutcome(chooseAny(request, view));
}

function isGood({ virtualIp }: Pick<Allocation, 'virtualIp'>, view: ClusterView): boolean {
  return !isInUse(virtualIp) && view.pools.has(virtualIp.spec.pool);
}

/** What a Service has of vipnat: addresses, finalizers, and VirtualIPs that somebody deleted. */

/** An address that a Service has, or gives back. */
export interface Allocation {
  readonly address: Address;
  readonly virtualIp: VirtualIp;
}

/** The addresses of one Service, in the order of their names. */
interface Allocations {
  readonly held: readonly Allocation[];
  readonly leaving: readonly Allocation[];
}

/** Those of the Service itself, not of another one that had its name. */
export function findAllocations({ metadata }: Service, view: ClusterView): Allocations {
  const { namespace, name, uid } = metadata;
  const names = [...(view.serviceToVirtualIps.get(`${namespace}/${name}`) ?? [])].sort();
  const allocations = names.flatMap((each): Allocation[] => {
    const [address, virtualIp] = [parseObjectName(each), view.virtualIps.get(each)];
    return address === null || virtualIp === undefined ? [] : [{ address, virtualIp }];
  });
  const has = (users: readonly AddressUser[]) => users.some((user) => user.uid === uid);
  return {
    held: allocations.filter(({ virtualIp }) => has(virtualIp.spec.services)),
    leaving: allocations.filter(({ virtualIp }) => has(virtualIp.spec.leaving)),
  };
}

/** What a VirtualIP has for a Service. */
export function toUser({ metadata: { namespace, name, uid } }: Service): AddressUser {
  return { namespace, name, uid };
}

/** Services begin to give an address back: nodes are to forget it for them. */
export function startLeaving(
  virtualIp: VirtualIp,
  users: readonly AddressUser[],
  confirm?: readonly Confirmation[],
): Write {
  const { services, leaving } = virtualIp.spec;
  const uids = new Set(users.map(({ uid }) => uid));
  const listOthers = (all: readonly AddressUser[]) => all.filter(({ uid }) => !uids.has(uid));
  const spec = {
    services: listOthers(services),
    leaving: [...listOthers(leaving), ...services.filter(({ uid }) => uids.has(uid))],
  };
  return patchVirtualIp(virtualIp, spec, confirm);
}

/**
 * The finalizers of a Service that vipnat is about to serve; null when it has vipnat's. A Service without a class also gets the one that
 * Kubernetes names for every load balancer, so that tools which ask for it find it. It comes after vipnat's: one that comes before is of
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
export function restoreVirtualIp(name: string, { spec }: VirtualIp, view: ClusterView): Write {
  const address = parseObjectName(name);
  const pool = findPool(address, view) ?? spec.pool;
  const gone = spec.services.filter((user) => findService(user, view) === undefined);
  return createVirtualIp(name, {
    ...spec,
    pool,
    seat: address === null ? spec.seat : chooseSeat(address, view.pools.get(pool)),
    services: spec.services.filter((user) => !gone.includes(user)),
    leaving: [...spec.leaving, ...gone],
  });
}

/**
 * Makes one that a Service's status stands for, if no object does: so that what it gives back goes to nobody before nodes have forgotten it.
 * Null where there is none to be made. No leader remembers what was deleted before its time: here it is not known which nodes learned of it.
 */
export function restoreLost(service: Service, view: ClusterView): Write | null {
  if (!isJudged(service)) return null;
  for (const { ip, ipMode } of getIngress(service)) {
    const address = ipMode === 'VIP' ? parseAddress(ip ?? '') : null;
    const pool = findPool(address, view);
    if (address === null || pool === null || view.virtualIps.has(toObjectName(address))) continue;
    const seat = chooseSeat(address, view.pools.get(pool));
    const leaving = [toUser(service)];
    const spec = { pool, seat, shareKey: '', services: [], leaving, formerNamespaces: [], absent: [] };
    return createVirtualIp(toObjectName(address), spec);
  }
  return null;
}

/** The pool that has an address; null for none. */
function findPool(address: Address | null, { judgedPools }: ClusterView): string | null {
  return findPoolsOf(judgedPools, address === null ? [] : [address.text])[0] ?? null;
}
