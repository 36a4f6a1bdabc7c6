/** What of an object others depend on. */
import { type Address, type Family, parseAddress } from '../../lib/address/address.ts';
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { addressReady, finalizer } from '../../lib/services/names.ts';
import { type NodeReport } from '../../lib/services/node-report.ts';
import { type AddressPool, type VirtualIp } from '../../lib/services/objects.ts';
import { type Ingress, type Service } from '../../lib/services/services.ts';
import { type Condition } from '../../lib/services/metadata.ts';
import { isForUs, readWishes } from '../../lib/services/wishes.ts';
import { type Known, type Settings } from './known.ts';

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

/** Whether somebody has deleted it. While a Service has it, or gives it back, its finalizer keeps it. */
export function isDeleted({ metadata }: VirtualIp): boolean {
  return typeof metadata.deletionTimestamp === 'string';
}

/**
 * The finalizers that a VirtualIP is to have; null when it has them. It has vipnat's as long as somebody uses it. The API adds none to what is
 * deleted.
 */
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

/** The seats and addresses of which a node says something else than before: that it cannot hold them, and why. Pure. */
export function listChangedUnheld({ before, after }: Change<NodeReport>): string[] {
  const [old, now] = [before?.unheld ?? {}, after?.unheld ?? {}];
  const names = [...Object.keys(old), ...Object.keys(now)];
  return [...new Set(names.filter((name) => old[name] !== now[name]))];
}

/** What others than its own Services depend on. */
export function getUse(virtualIp: VirtualIp): unknown {
  return [virtualIp.spec, isInUse(virtualIp)];
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
  return getIngress(service)
    .map(({ ip }) => (typeof ip === 'string' ? parseAddress(ip) : null))
    .filter((address) => address !== null);
}

/** The same as canonical text; none of a Service that is not there. */
export function listPublishedTexts(service: Service | null): string[] {
  return service === null ? [] : listPublished(service).map(({ text }) => text);
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
  if (before !== null && saysSame(before, wanted)) return conditions;
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

/** What is said of how a Service stands. */
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

function saysSame(
  before: Condition,
  { status, reason, message, observedGeneration }: WantedCondition,
): boolean {
  return (
    before.status === status &&
    before.reason === reason &&
    before.message === message &&
    (before.observedGeneration ?? undefined) === observedGeneration
  );
}

/** The first three of some names, and how many more there are. */
export function shorten(names: readonly string[]): string {
  const rest = names.length - 3;
  return `${names.slice(0, 3).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
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
  const wishes = readWishes(service);
  if (!wishes.families.includes(family)) return false;
  const requested = wishes.addresses[family];
  if (requested !== undefined) return requested.text === text;
  const published = listPublished(service).find((address) => address.family === family);
  return published === undefined ? wishes.problem === null : published.text === text;
}

/** Whether a Service is to have addresses: it is for us, and is not being deleted. */
export function isServed(service: Service, isDefaultClass: boolean): boolean {
  return isForUs(service, isDefaultClass) && typeof service.metadata.deletionTimestamp !== 'string';
}

/** Whether the status has an address. */
export function isPublished(service: Service, { text }: Address): boolean {
  return listPublished(service).some((address) => address.text === text);
}
