import { shorten } from '../../lib/text.ts';
import {
  type Service,
  readRequests,
  type ServiceSlice,
  serviceNameLabel,
  type Ingress,
  isForUs,
} from '../../lib/api/service.ts';
import type { Settings, Known } from './known.ts';
import { chooseDevice, listCurrentOwners, type LoadBalancerDevice } from '../../lib/api/device.ts';
import {
  parseRange,
  type Family,
  type Address,
  parseAddress,
  type AddressRange,
  getNth,
  contains,
  toObjectName,
  toNumber,
  parseObjectName,
  mergeRanges,
  families,
  countOfFamily,
  findIndex,
} from '../../lib/net.ts';
import {
  type VirtualIp,
  finalizer,
  type AddressPool,
  type Condition,
  addressReady,
} from '../../lib/api/vipnat.ts';

/** What of Services, slices and devices the cache finds others by. */

/** The devices that a Service chooses, or that may have something of it. */
export function listDevicesOf(service: Service, { defaultDevice }: Settings): string[] {
  const chosen = chooseDevice(service, defaultDevice);
  return [...new Set([...(chosen === null ? [] : [chosen]), ...listCurrentOwners(service)])];
}

/** The addresses that a Service asks a device for, in canonical text. */
export function listAsked(service: Service, { defaultDevice }: Settings): string[] {
  if (chooseDevice(service, defaultDevice) === null) return [];
  return Object.values(readRequests(service).addresses).map(({ text }) => text);
}

/** The key of the Service of an EndpointSlice. */
export function listOwners({ metadata: { namespace, labels } }: ServiceSlice): string[] {
  const owner = labels?.[serviceNameLabel];
  return owner === undefined ? [] : [`${namespace}/${owner}`];
}

/** What a device has of a Service, as it was said last; undefined where nothing was. */
export function findBalancer(
  { deviceBalancers }: Pick<Known, 'deviceBalancers'>,
  device: string,
  { metadata: { uid } }: Service,
): ReturnType<Known['deviceBalancers']['get']> {
  return deviceBalancers.get(`${device} ${uid}`);
}

/** Keys of the Services that a VirtualIP names. */
export function listUsers(virtualIp: VirtualIp | null): string[] {
  return [...(virtualIp?.spec.services ?? []), ...(virtualIp?.spec.leaving ?? [])].map(
    ({ namespace, name }) => `${namespace}/${name}`,
  );
}

/** Whether Services have an address, or give it back: a node may serve it. */
export function isUsed({ spec }: VirtualIp): boolean {
  return spec.services.length + spec.leaving.length > 0;
}

interface Deletable {
  readonly metadata: { readonly deletionTimestamp?: string | null | undefined };
}

/** Whether somebody has deleted an object. While a Service has a VirtualIP, or gives it back, its finalizer keeps it. */
export function isDeleted({ metadata }: Deletable): boolean {
  return typeof metadata.deletionTimestamp === 'string';
}

/** The finalizers that a VirtualIP is to have: vipnat's while somebody uses it. Null when it has them. The API adds none to what is deleted. */
export function findFinalizers(virtualIp: VirtualIp): readonly string[] | null {
  const known = virtualIp.metadata.finalizers ?? [];
  const has = known.includes(finalizer);
  if (has) return isUsed(virtualIp) ? null : known.filter((each) => each !== finalizer);
  return isUsed(virtualIp) && !isDeleted(virtualIp) ? [...known, finalizer] : null;
}

/** A family of a pool's addresses, as an index has it. */
export function nameFamily(pool: string, family: Family): string {
  return `${pool} ${family}`;
}

/** The names of the VirtualIPs of a seat, `POOL/INDEX`. */
export function listSeated(seat: string, { poolToVirtualIps, virtualIps }: Known): string[] {
  const at = seat.lastIndexOf('/');
  const index = Number(seat.slice(at + 1));
  const names = [...(poolToVirtualIps.get(seat.slice(0, at)) ?? [])];
  return names.filter((name) => virtualIps.get(name)?.spec.seat === index);
}

/** What of a pool Services and VirtualIPs depend on: what is said of it in conditions is nothing to them. */
export function getPoolParts({ spec, metadata, status }: AddressPool): unknown {
  return [spec, metadata.deletionTimestamp, status?.seats];
}

/** What others than its own Services depend on. */
export function getUse(virtualIp: VirtualIp): unknown {
  return [virtualIp.spec, isInUse(virtualIp)];
}

/** What of a Service those that share its address depend on. */
export function getShared({ spec: { ports, selector, externalTrafficPolicy } }: Service): unknown {
  return [ports, selector, externalTrafficPolicy];
}

/** The date of the controller before this one may have been ahead by so much. */
const toleratedSkewMs = 2000;

/** Since when nobody has an address; null when that is not known, or lies ahead, as after a date that was wrong. */
export function readReleasedMs({ status }: VirtualIp, { nowMs }: { readonly nowMs: number }): number | null {
  const ms = Date.parse(status?.releasedAt ?? '');
  return Number.isNaN(ms) || ms > nowMs + toleratedSkewMs ? null : ms;
}

/** What a Service's status says of load balancers. */
export function getIngress({ status }: Service): readonly Ingress[] {
  return status?.loadBalancer?.ingress ?? [];
}

/** The addresses that a Service's status has. */
export function listPublished(service: Service): Address[] {
  return getIngress(service).flatMap(({ ip }) => parseAddress(ip ?? '') ?? []);
}

/** The same as canonical text; none of a Service that is not there. */
export function listPublishedTexts(service: Service | null): string[] {
  return service === null ? [] : listPublished(service).map(({ text }) => text);
}

/** Ports that two Services have in common, as `TCP/80`. */
export function listCommonPorts(one: Service, other: Service): string[] {
  const theirs = new Set(listPorts(other));
  return listPorts(one).filter((port) => theirs.has(port));
}

function listPorts({ spec }: Service): string[] {
  return (spec.ports ?? []).map(({ protocol, port }) => `${protocol}/${port}`);
}

/** What a condition is to say. `lastTransitionTime` follows from what it said before. */
export interface WantedCondition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration?: number;
}

/** What the API takes of a message. Source: meta/v1, Condition. */
const maxMessage = 32_768;

/** The conditions with one that is as wanted, or without it; the same array when it is so already. */
export function setCondition(
  conditions: readonly Condition[],
  { message, ...others }: WantedCondition,
  nowMs: number,
): readonly Condition[] {
  const wanted = { ...others, message: message.slice(0, maxMessage) };
  const before = findCondition(conditions, wanted.type);
  const isSame = (['status', 'reason', 'message'] as const).every((part) => before?.[part] === wanted[part]);
  if (isSame && (before?.observedGeneration ?? undefined) === wanted.observedGeneration) return conditions;
  const isSameStatus = before?.status === wanted.status && typeof before.lastTransitionTime === 'string';
  const lastTransitionTime = isSameStatus ? before.lastTransitionTime : toTime(nowMs);
  const after: Condition = { ...wanted, lastTransitionTime };
  return before === null
    ? [...conditions, after]
    : conditions.map((each) => (each === before ? after : each));
}

/** The condition of a type. */
export function findCondition(conditions: readonly Condition[], type: string): Condition | null {
  return conditions.find((each) => each.type === type) ?? null;
}

/** As the API writes moments: RFC 3339, whole seconds. */
export function toTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** What is said of a Service's readiness. */
export function findReadiness({ status }: Pick<Service, 'status'>): Condition | null {
  return findCondition(status?.conditions ?? [], addressReady);
}

/** Whether something is: a Service that has just been made may get an address within the second. */
export function isJudged(service: Pick<Service, 'status'>): boolean {
  return findReadiness(service) !== null;
}

/** Whether another host answers for an address. */
export function isInUse({ status }: Pick<VirtualIp, 'status'>): boolean {
  return findCondition(status?.conditions ?? [], 'AddressInUse')?.status === 'True';
}

/** Whether every living candidate had an address as it is now: its Services, its seat. */
export function isProgrammed({ metadata, status }: VirtualIp): boolean {
  const programmed = findCondition(status?.conditions ?? [], 'Programmed');
  return programmed?.status === 'True' && programmed.observedGeneration === metadata.generation;
}

/** That what vipnat writes does not stay, for people: who else writes, by the names of field managers, if any is known. */
export function describeContest(managers: readonly string[]): string {
  const who = managers.length === 0 ? 'Another program' : `Another program (${shorten(managers)})`;
  return `${who} undoes what vipnat writes into this object. vipnat writes it once a minute.`;
}

/**
 * Which addresses a Service's status may come to have, judged by the Service alone. Two controllers rest on this, when both believe
 * that they lead: one gives an address back for good only if the Service, as the API has it then, excludes it. The other
 * publishes only what the Service, as it is written, does not exclude, and only with a VirtualIP that has just been confirmed. So
 * no status gets an address that was given back, whatever either of them knew.
 */
/** Whether the status may get this address, or keep it. */
export function mayPublish(
  service: Service,
  { family, text }: Address,
  { isDefaultClass }: Settings,
): boolean {
  if (!isServed(service, isDefaultClass)) return false;
  const requests = readRequests(service);
  if (!requests.families.includes(family)) return false;
  const requested = requests.addresses[family];
  if (requested !== undefined) return requested.text === text;
  const published = listPublished(service).find((address) => address.family === family);
  return published === undefined ? requests.problem === null : published.text === text;
}

/** Whether a Service is to have addresses: it is for us, and is not being deleted. */
export function isServed(service: Service, isDefaultClass: boolean): boolean {
  return isForUs(service, isDefaultClass) && !isDeleted(service);
}

/** Whether the status has an address. */
export function isPublished(service: Service, { text }: Address): boolean {
  return listPublished(service).some((address) => address.text === text);
}

type Owners = Pick<
  Known,
  'addressToPublishers' | 'addressToAskers' | 'addressToBalancers' | 'deviceBalancers' | 'virtualIps'
>;

/** The namespace of the Service that had an address last, and since when it has it no longer. */
interface FormerUse {
  readonly namespace: string;
  sinceMs: number;
}

/** A family of a device's addresses. */
interface Stock {
  readonly ranges: readonly AddressRange[];
  readonly family: Family;
  readonly count: bigint;
  taken: bigint;
  /** All before it are taken. */
  next: bigint;
}

/**
 * Which addresses of devices nobody has, and nobody asks for. It is kept with each change: a device may have 65,536 addresses, and a Service that waits for one asks every 10 seconds. Where all are taken, a
 * count says so. Else the search begins where the last one ended, or at an earlier address that was given back since.
 */
export class DeviceAddresses {
  readonly #owners: Owners;
  readonly #taken = new Set<string>();
  readonly #deviceToStocks = new Map<string, readonly Stock[]>();
  /** Addresses that a Service has. */
  readonly #held = new Set<string>();
  /** Addresses that were given back, to whose they were. Only this process knows. */
  readonly #textToFormer = new Map<string, FormerUse>();
  /** Those of them that were given back since the last date. */
  readonly #fresh = new Set<FormerUse>();

  /** It reads the maps as they are at each call. */
  constructor(owners: Owners) {
    this.#owners = owners;
  }

  /** A device came, changed, or went (null). Who has no device pays nothing. */
  changeDevice(name: string, device: LoadBalancerDevice | null): void {
    const isFirst = this.#deviceToStocks.size === 0;
    this.#deviceToStocks.delete(name);
    if (device !== null) this.#deviceToStocks.set(name, toStocks(device));
    if (this.#deviceToStocks.size === 0) this.#taken.clear();
    else if (isFirst) this.touch(this.#listKnown());
    else for (const text of this.#taken) count(this.#deviceToStocks.get(name) ?? [], text, 1n);
  }

  /** What was given back since the last date was so now. */
  noteDate(nowMs: number): void {
    for (const former of this.#fresh) former.sinceMs = nowMs;
    this.#fresh.clear();
  }

  /** The namespace for whose Services an address is still kept, if that is another one; null for none. */
  findKeeper(
    text: string,
    { namespace, reuseMs, nowMs }: Readonly<{ namespace: string; reuseMs: number; nowMs: number }>,
  ): string | null {
    const former = this.#textToFormer.get(text);
    if (former === undefined || former.namespace === namespace) return null;
    // Somebody has set the date back.
    former.sinceMs = Math.min(former.sinceMs, nowMs);
    return nowMs - former.sinceMs < reuseMs ? former.namespace : null;
  }

  /** Who has these addresses, in canonical text, may have changed: a Service of this namespace, or a VirtualIP (empty). */
  touch(texts: Iterable<string>, namespace = ''): void {
    if (this.#deviceToStocks.size === 0) return;
    for (const text of texts) {
      this.#noteUse(text, namespace);
      const isTaken = this.#isTaken(text);
      if (isTaken === this.#taken.has(text)) continue;
      if (isTaken) this.#taken.add(text);
      else this.#taken.delete(text);
      for (const stocks of this.#deviceToStocks.values()) count(stocks, text, isTaken ? 1n : -1n);
    }
  }

  /** The first one of a device and a family in none of the other ranges; null for none. One that is kept for somebody else comes last. */
  findFree(
    device: string,
    family: Family,
    others: readonly AddressRange[] = [],
    isKept: (text: string) => boolean = () => false,
  ): Address | null {
    const stock = this.#deviceToStocks.get(device)?.find((each) => each.family === family);
    if (stock === undefined || stock.taken >= stock.count) return null;
    return this.#search(stock, others, isKept) ?? this.#search(stock, others, () => false);
  }

  #search(stock: Stock, others: readonly AddressRange[], isKept: (text: string) => boolean): Address | null {
    let isAllTaken = true;
    for (let index = stock.next; index < stock.count; index += 1n) {
      const address = getNth(stock.ranges, stock.family, index);
      const other = others.find((range) => contains(range, address));
      const isTaken = this.#taken.has(address.text);
      if (other !== undefined) index += countAfter(address, other, stock.ranges);
      else if (!isTaken && !isKept(address.text)) return address;
      isAllTaken &&= isTaken && other === undefined;
      if (isAllTaken) stock.next = index + 1n;
    }
    return null;
  }

  #noteUse(text: string, namespace: string): void {
    if (this.#isHeld(text)) {
      this.#held.add(text);
      this.#textToFormer.delete(text);
    } else if (this.#held.delete(text)) {
      const former = { namespace, sinceMs: Infinity };
      this.#textToFormer.set(text, former);
      this.#fresh.add(former);
    }
  }

  #listKnown(): string[] {
    const { addressToPublishers, addressToAskers, addressToBalancers, virtualIps } = this.#owners;
    const maps = [addressToPublishers, addressToAskers, addressToBalancers];
    const ofVirtualIps = [...virtualIps.keys()].flatMap((name) => parseObjectName(name)?.text ?? []);
    return [...maps.flatMap((map) => [...map.keys()]), ...ofVirtualIps];
  }

  #isTaken(text: string): boolean {
    const { addressToAskers, virtualIps } = this.#owners;
    if (addressToAskers.has(text) || this.#isHeld(text)) return true;
    const address = parseAddress(text);
    const virtualIp = address === null ? undefined : virtualIps.get(toObjectName(address));
    return virtualIp !== undefined && isUsed(virtualIp);
  }

  #isHeld(text: string): boolean {
    const { addressToPublishers, addressToBalancers, deviceBalancers } = this.#owners;
    const keys = [...(addressToBalancers.get(text) ?? [])];
    const isThere = (key: string) => deviceBalancers.get(key)?.deviceStatus !== 'absent';
    return addressToPublishers.has(text) || keys.some(isThere);
  }
}

/** How many addresses come right after this one in both the other range and its own: what follows has other numbers. */
function countAfter(address: Address, other: AddressRange, ranges: readonly AddressRange[]): bigint {
  const number = toNumber(address);
  const own = ranges.find((range) => contains(range, address))?.last ?? number;
  return (own < other.last ? own : other.last) - number;
}

/** The ranges of a device or a pool, merged, in order. Those that cannot be read are left out. */
export function listRanges({ spec }: Pick<LoadBalancerDevice | AddressPool, 'spec'>): AddressRange[] {
  return mergeRanges(spec.addresses.flatMap((text) => parseRange(text) ?? []));
}

function toStocks(device: LoadBalancerDevice): Stock[] {
  const ranges = listRanges(device);
  return families.map((family) => ({
    ...{ ranges, family, taken: 0n, next: 0n },
    count: countOfFamily(ranges, family),
  }));
}

/** An address is taken (1), or free again (-1). */
function count(stocks: readonly Stock[], text: string, change: bigint): void {
  const address = parseAddress(text);
  const stock = stocks.find(({ family }) => family === address?.family);
  const index = address === null || stock === undefined ? null : findIndex(stock.ranges, address);
  if (stock === undefined || index === null) return;
  stock.taken += change;
  if (change < 0n && index < stock.next) stock.next = index;
}
