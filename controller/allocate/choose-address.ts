import {
  type Address,
  type Family,
  contains,
  toObjectName,
  countOfFamily,
  parseAddress,
  parseObjectName,
  type AddressRange,
  getNth,
} from '../../lib/net.ts';
import type { VirtualIp, AddressUser } from '../../lib/api/vipnat.ts';
import { type Service, type ServiceRequests, readRequests } from '../../lib/api/service.ts';
import type { ClusterView } from '../cache/cache.ts';
import type { JudgedPool } from '../cache/known.ts';
import {
  readReleasedMs,
  listUsers,
  isInUse,
  isDeleted,
  isUsed,
  getShared,
  listCommonPorts,
  nameFamily,
} from '../cache/parts.ts';
import { isForService } from '../../lib/api/endpoints.ts';
import { listUnresponsiveOwners } from '../cache/leases.ts';
import { quoteTenant } from '../../lib/text.ts';
import { createHash } from 'node:crypto';

/** Why a Service gets no address, or not the one that is asked for. Reasons are published, as those of its condition. */
export interface AllocationProblem {
  readonly reason:
    | 'AddressesMalformed'
    | 'AddressOutsidePools'
    | 'AddressTaken'
    | 'AddressInUse'
    | 'AddressLost'
    | 'NoPool'
    | 'PoolExhausted';
  readonly message: string;
}

/** An address that a Service can have. */
export interface Choice {
  readonly address: Address;
  readonly pool: string;
  /** Its VirtualIP, where there is one: to be shared, or to be taken again. */
  readonly existing: VirtualIp | null;
}

/** A Service, what it asks for, and of which family an address is to be chosen. */
export interface Request {
  readonly service: Service;
  readonly requests: ServiceRequests;
  readonly family: Family;
}

/** An address that is named: by the Service's owner, or by its own status. It may wait to be given again. */
export function chooseNamed(
  request: Request,
  address: Address,
  view: ClusterView,
): Choice | AllocationProblem {
  const pool = listPools(request, view, true).find(({ ranges }) =>
    ranges.some((range) => contains(range, address)),
  );
  if (pool === undefined) return refuse('AddressOutsidePools', describeNoPoolWith(address, request));
  const problem = findObstacle(request.service, address, pool, view);
  if (problem !== null) return problem;
  const existing = view.virtualIps.get(toObjectName(address)) ?? null;
  const kept = existing === null ? null : findFormer(request.service, existing, pool, view);
  if (kept !== null) return refuse('AddressTaken', `${address.text} is taken: ${kept}.`);
  return { address, pool: pool.pool.metadata.name, existing };
}

/** Who may still name an address that was given back, where others may not yet: DNS and clients may know it as theirs. */
function findFormer(
  { metadata: { namespace } }: Service,
  virtualIp: VirtualIp,
  pool: JudgedPool,
  view: ClusterView,
): string | null {
  const { services, formerNamespaces } = virtualIp.spec;
  if (services.length > 0 || formerNamespaces.length === 0 || formerNamespaces.includes(namespace))
    return null;
  const untilMs = (readReleasedMs(virtualIp, view) ?? view.nowMs) + pool.reuseAfterMs;
  if (untilMs <= view.nowMs) return null;
  const names = formerNamespaces.length === 1 ? 'the namespace' : 'the namespaces';
  return `it was given back a moment ago, and is kept for Services of ${names} ${formerNamespaces.slice(0, 3).join(', ')}`;
}

/**
 * Any address: one that Services with the same share key have, else of the pools in their order, those that wait to be given
 * again last, and of them the one that waits longest. Thousands of Services may wait for the same: what one of them has searched
 * without success, no other searches before an address may be free again.
 */
export function chooseAny(request: Request, view: ClusterView): Choice | AllocationProblem {
  const pools = listPools(request, view, false).filter(
    ({ ranges }) => countOfFamily(ranges, request.family) > 0n,
  );
  if (pools.length === 0) return refuse('NoPool', describeNoPool(request));
  const shared = chooseShared(request, pools, view);
  if (shared !== null) return shared;
  const waiting: Choice[] = [];
  for (const pool of pools) {
    const found = searchPool(request, pool, view);
    const [first] = found;
    if (first?.existing === null) return first;
    waiting.push(...found);
  }
  const [longest] = waiting.sort((one, other) => (toReleaseText(one) < toReleaseText(other) ? -1 : 1));
  const names = pools.map(({ pool }) => pool.metadata.name).join(', ');
  return longest ?? refuse('PoolExhausted', `No ${request.family} address is free in: ${names}.`);
}

/** The pools that give addresses to a Service: the higher priority first, then by name. */
function listPools({ service, requests }: Request, view: ClusterView, isNamed: boolean): JudgedPool[] {
  const { namespace, labels } = service.metadata;
  const ofNamespace = view.namespaces.get(namespace)?.metadata;
  const usable = [...view.judgedPools.values()].filter(({ refusal, pool: { metadata, spec } }) => {
    if (refusal !== null) return false;
    if (requests.pool === null ? !spec.autoAssign && !isNamed : requests.pool !== metadata.name) return false;
    return isForService(spec, labels, ofNamespace);
  });
  return usable.sort(
    ({ pool: one }, { pool: other }) =>
      other.spec.priority - one.spec.priority || (one.metadata.name < other.metadata.name ? -1 : 1),
  );
}

function chooseShared(
  { service, requests, family }: Request,
  pools: readonly JudgedPool[],
  view: ClusterView,
): Choice | null {
  const names = view.shareKeyToVirtualIps.get(requests.shareKey);
  const question = toShareText({ service, requests, family }, pools);
  if (names === undefined || view.exhausted.has(question)) return null;
  for (const name of [...names].sort()) {
    const existing = view.virtualIps.get(name);
    const address = parseObjectName(name);
    if (existing === undefined || address?.family !== family || existing.spec.services.length === 0) continue;
    const pool = pools.find(({ ranges }) => ranges.some((range) => contains(range, address)));
    if (pool !== undefined && findObstacle(service, address, pool, view) === null)
      return { address, pool: pool.pool.metadata.name, existing };
  }
  view.exhausted.add(question);
  return null;
}

/** All that the answer rests on, of a Service that has none of these addresses. */
function toShareText({ service, requests, family }: Request, pools: readonly JudgedPool[]): string {
  const names = pools.map(({ pool }) => pool.metadata.name);
  const { namespace } = service.metadata;
  return JSON.stringify([family, requests.shareKey, namespace, getShared(service), names]);
}

/** The first free address of a pool, alone; else all that wait to be given again. */
function searchPool({ service, family }: Request, judged: JudgedPool, view: ClusterView): readonly Choice[] {
  const { pool, ranges } = judged;
  const question = nameFamily(pool.metadata.name, family);
  if (view.exhausted.has(question)) return [];
  const waiting: Choice[] = [];
  for (const address of walkAddresses(ranges, family, service.metadata.uid)) {
    const existing = view.virtualIps.get(toObjectName(address)) ?? null;
    if (existing !== null && existing.spec.services.length > 0) continue;
    if (findObstacle(service, address, judged, view) !== null) continue;
    const choice = { address, pool: pool.metadata.name, existing };
    if (existing === null) return [choice];
    waiting.push(choice);
  }
  if (waiting.length === 0) view.exhausted.add(question);
  return waiting;
}

/** Why a Service cannot have an address of a pool now; null when it can. */
function findObstacle(
  service: Service,
  address: Address,
  pool: JudgedPool,
  view: ClusterView,
): AllocationProblem | null {
  const { namespace, name } = service.metadata;
  const own = `${namespace}/${name}`;
  const existing = view.virtualIps.get(toObjectName(address));
  const lost = view.lostVirtualIps.get(toObjectName(address));
  const others = [...(view.addressToPublishers.get(address.text) ?? [])].filter(
    (key) => key !== own && !isUser(existing ?? lost, key),
  );
  const taken = (why: string) => refuse('AddressTaken', `${address.text} is taken: ${why}.`);
  if (others.length > 0) return taken(`${others.join(', ')} has it in its status`);
  const requester = view.exclusions.find(pool.pool.metadata.name, address, own);
  if (requester !== null) return taken(`${requester} names it in its specification`);
  if (lost !== undefined && !listUsers(lost).includes(own))
    return taken('its VirtualIP was deleted, and is made again');
  return existing === undefined ? null : findObstacleOf(existing, service, pool, view);
}

/** The same of its VirtualIP. */
function findObstacleOf(
  existing: VirtualIp,
  service: Service,
  pool: JudgedPool,
  view: ClusterView,
): AllocationProblem | null {
  const text = parseObjectName(existing.metadata.name)?.text ?? existing.metadata.name;
  const taken = (why: string) => refuse('AddressTaken', `${text} is taken: ${why}.`);
  if (isInUse(existing)) return refuse('AddressInUse', `Another host answers for ${text}.`);
  // The API adds no finalizer to it: nobody could be kept from what deletes it.
  if (isDeleted(existing) && !isUsed(existing)) return taken('its VirtualIP is being deleted');
  const formerUser = existing.spec.leaving.find((each) => each.uid !== service.metadata.uid);
  if (formerUser !== undefined)
    return taken(describeFormerUser(formerUser, listUnresponsiveOwners(existing, view)));
  const problem = findShareProblem(service, existing, pool, view);
  return problem === null ? null : taken(problem);
}

function describeFormerUser({ namespace, name }: AddressUser, unresponsive: readonly string[]): string {
  const [node] = unresponsive;
  const why = node === undefined ? '' : `, and the node ${node} may still serve it`;
  return `${namespace}/${name} is giving it back${why}`;
}

function isUser(virtualIp: VirtualIp | undefined, key: string): boolean {
  return (virtualIp?.spec.services ?? []).some(({ namespace, name }) => `${namespace}/${name}` === key);
}

/** Since when nobody has it. What has not been said yet is youngest. */
function toReleaseText({ existing }: Choice): string {
  return existing?.status?.releasedAt ?? '9';
}

function refuse(reason: AllocationProblem['reason'], message: string): AllocationProblem {
  return { reason, message };
}

function describeNoPoolWith({ text }: Address, { requests }: Request): string {
  return requests.pool === null
    ? `No AddressPool has ${text} and gives addresses to this Service.`
    : `The AddressPool ${quoteTenant(requests.pool)} does not have ${text}, or gives no addresses to this Service.`;
}

function describeNoPool({ requests, family }: Request): string {
  return requests.pool === null
    ? `No AddressPool gives ${family} addresses to this Service.`
    : `The AddressPool ${quoteTenant(requests.pool)} gives no ${family} addresses to this Service, or does not exist.`;
}

/**
 * Why a Service cannot have an address together with those that have it; null when it can. All have the same key and ports
 * of their own. A key is a namespace's own, unless the pool lets namespaces share: whoever guesses one gets no port of another's
 * address. Either all have the traffic policy Cluster, or all have the same pods: only then is every node that has pods of the
 * one a node that has pods of the other.
 */
function findShareProblem(
  service: Service,
  { spec }: VirtualIp,
  { pool }: JudgedPool,
  view: ClusterView,
): string | null {
  const { shareKey } = readRequests(service);
  for (const { namespace, name } of spec.services) {
    const key = `${namespace}/${name}`;
    const other = view.services.get(key);
    if (spec.shareKey === '' || spec.shareKey !== shareKey || other === undefined) return `${key} has it`;
    if (namespace !== service.metadata.namespace && !pool.spec.shareAcrossNamespaces)
      return `${key} of another namespace has it, and the AddressPool ${pool.metadata.name} lets no namespaces share`;
    const [port] = listCommonPorts(service, other);
    if (port !== undefined) return `${key}, which shares it, has the port ${port}, too`;
    if (!haveSamePolicy(service, other))
      return `${key}, which shares it, has other pods, and externalTrafficPolicy is not Cluster for both`;
  }
  return null;
}

/** Equal selectors are of the same pods in one namespace only. */
function haveSamePolicy(one: Service, other: Service): boolean {
  const areCluster = [one, other].every(({ spec }) => spec.externalTrafficPolicy === 'Cluster');
  const [selector, theirs] = [toSelectorText(one), toSelectorText(other)];
  const haveSamePods = one.metadata.namespace === other.metadata.namespace && selector === theirs;
  return areCluster || (haveSamePods && selector !== '[]');
}

function toSelectorText({ spec }: Service): string {
  return JSON.stringify(Object.entries(spec.selector ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/**
 * All addresses of a family, each once, in an order that a seed chooses: so Services begin at different ones, and the same Service
 * at the same one whoever decides. Only the addresses that are asked for are computed: a /64 costs no more than a /24.
 */
export function* walkAddresses(
  ranges: readonly AddressRange[],
  family: Family,
  seed: string,
): Generator<Address> {
  const count = countOfFamily(ranges, family);
  if (count === 0n) return;
  const digest = createHash('sha256').update(`${family} ${seed}`).digest('hex');
  const start = BigInt(`0x${digest.slice(0, 32)}`) % count;
  const stride = findStride(BigInt(`0x${digest.slice(32)}`) % count, count);
  for (let step = 0n; step < count; step += 1n) yield getNth(ranges, family, (start + step * stride) % count);
}

/** Steps of a number without a common divisor come to every index. */
function findStride(from: bigint, count: bigint): bigint {
  let stride = from === 0n ? 1n : from;
  while (findCommonDivisor(stride, count) !== 1n) stride += 1n;
  return stride;
}

function findCommonDivisor(one: bigint, other: bigint): bigint {
  return other === 0n ? one : findCommonDivisor(other, one % other);
}

type Known = Pick<ClusterView, 'virtualIps' | 'exclusions'>;

type Pool = Pick<JudgedPool, 'pool' | 'ranges'>;

/** No more addresses of a pool than these can be taken. */
export function countKnown({ pool }: Pool, { virtualIps, exclusions }: Known): number {
  return virtualIps.size + exclusions.listAddresses(pool.metadata.name).length;
}

/**
 * How many addresses of a pool no Service can get now: Services have them, whichever pool gave them, or give them back, or name them
 * for themselves; or another host answers. What only waits to be given again counts as free. It costs the addresses or the VirtualIPs,
 * whichever are fewer.
 */
export function countTaken(pool: Pool, family: Family, view: Known): number {
  const count = countOfFamily(pool.ranges, family);
  const isSmall = count <= BigInt(countKnown(pool, view));
  const addresses = isSmall
    ? Array.from({ length: Number(count) }, (_, index) => getNth(pool.ranges, family, BigInt(index)))
    : listKnown(pool, view);
  const taken = addresses.filter((address) => {
    const isHere = address.family === family && pool.ranges.some((range) => contains(range, address));
    return isHere && isTaken(pool, address, view);
  });
  return new Set(taken.map(({ text }) => text)).size;
}

function listKnown({ pool }: Pool, { virtualIps, exclusions }: Known): Address[] {
  const given = [...virtualIps.keys()].map(parseObjectName);
  const excluded = exclusions.listAddresses(pool.metadata.name).map(parseAddress);
  return [...given, ...excluded].filter((address) => address !== null);
}

function isTaken({ pool }: Pool, address: Address, { virtualIps, exclusions }: Known): boolean {
  const virtualIp = virtualIps.get(toObjectName(address));
  if (virtualIp !== undefined && (isUsed(virtualIp) || isInUse(virtualIp))) return true;
  return exclusions.find(pool.metadata.name, address, '') !== null;
}
