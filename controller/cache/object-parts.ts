/** What of an object others depend on. */
import { type Address, type Family, parseAddress } from '../../lib/address/address.ts';
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { finalizer } from '../../lib/services/names.ts';
import { type NodeReport } from '../../lib/services/node-report.ts';
import { type AddressPool, type VirtualIp } from '../../lib/services/objects.ts';
import { type Ingress, type Service } from '../../lib/services/services.ts';
import { isInUse } from './conditions.ts';
import { type Known, type World } from './world.ts';

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
export function readReleasedMs({ status }: VirtualIp, { nowMs }: Pick<World, 'nowMs'>): number | null {
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
