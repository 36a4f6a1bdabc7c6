/** The requests that steps of Services, their addresses and pools are made of. */
import { apiGroup, apiVersion, finalizer } from '../../lib/services/names.ts';
import { devices, type LoadBalancerDevice } from '../../lib/services/devices.ts';
import { addressPools, type AddressPool, type VirtualIp, virtualIps } from '../../lib/services/objects.ts';
import { type Service } from '../../lib/services/services.ts';
import { findFinalizers, isDeleted, isUsed } from '../cache/object-parts.ts';
import { type Confirmation, type Json, type Write } from '../engine/step.ts';

interface Fields {
  readonly [key: string]: Json;
}

/** Of a Service: its metadata, with `metadata` as a merge patch. */
export function patchServiceMetadata(service: Service, metadata: Fields): Write {
  const { resourceVersion } = service.metadata;
  return { ...targetService(service), method: 'PATCH', body: { metadata: { ...metadata, resourceVersion } } };
}

/** Of a Service: its status. */
export function patchServiceStatus(
  service: Service,
  status: Fields,
  confirm: readonly Confirmation[] = [],
): Write {
  return { ...patchStatus(service, targetService(service), status), confirm };
}

/** Creates it, unless one of its name exists: with the finalizer. */
export function createVirtualIp(name: string, spec: VirtualIp['spec']): Write {
  const metadata = { name, finalizers: [finalizer] };
  const body = { apiVersion: `${apiGroup}/${apiVersion}`, kind: 'VirtualIP', metadata, spec };
  return { ...targetVirtualIp(name), method: 'POST', path: virtualIps.path, body, givesOf: spec.pool };
}

/**
 * What others see of it, and the finalizer that belongs to it then: the last one who leaves takes the finalizer along, in one write. Of one that is
 * deleted, the next write does: the API shows what is gone as it was before that write, and so without those who have left.
 */
export function patchVirtualIp(
  virtualIp: VirtualIp,
  spec: Partial<VirtualIp['spec']>,
  confirm: readonly Confirmation[] = [],
): Write {
  const { name, resourceVersion } = virtualIp.metadata;
  const gives = spec.pool === undefined ? {} : { givesOf: spec.pool };
  const isLeft = isDeleted(virtualIp) && isUsed(virtualIp);
  const finalizers = isLeft ? null : findFinalizers({ ...virtualIp, spec: { ...virtualIp.spec, ...spec } });
  const metadata = { resourceVersion, ...(finalizers === null ? {} : { finalizers }) };
  const body = { metadata, spec };
  return { ...targetVirtualIp(name), method: 'PATCH', body, confirm, ...gives };
}

/** What is known of it. */
export function patchVirtualIpStatus(virtualIp: VirtualIp, status: Fields): Write {
  return patchStatus(virtualIp, targetVirtualIp(virtualIp.metadata.name), status);
}

/** Deletes it as it was read. */
export function deleteVirtualIp({ metadata: { name, uid, resourceVersion } }: VirtualIp): Write {
  const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid, resourceVersion } };
  return { ...targetVirtualIp(name), method: 'DELETE', body };
}

/** Of a pool: its finalizers. */
export function patchPoolFinalizers(pool: AddressPool, finalizers: readonly string[]): Write {
  const { resourceVersion } = pool.metadata;
  return { ...targetPool(pool), method: 'PATCH', body: { metadata: { resourceVersion, finalizers } } };
}

/** Of a pool: its seats and conditions. */
export function patchPoolStatus(pool: AddressPool, status: Fields): Write {
  return patchStatus(pool, targetPool(pool), status);
}

/** Of a device: its finalizers. */
export function patchDeviceFinalizers(device: LoadBalancerDevice, finalizers: readonly string[]): Write {
  const { resourceVersion } = device.metadata;
  return { ...targetDevice(device), method: 'PATCH', body: { metadata: { resourceVersion, finalizers } } };
}

/** Of a device: how it does. */
export function patchDeviceStatus(device: LoadBalancerDevice, status: Fields): Write {
  return patchStatus(device, targetDevice(device), status);
}

/** That a Service is as it was read; or not there, when `service` is undefined. */
export function confirmService(namespace: string, name: string, service: Service | undefined): Confirmation {
  return { path: toServicePath(namespace, name), version: service?.metadata.resourceVersion ?? null };
}

/** That a VirtualIP is as it was read. */
export function confirmVirtualIp({ metadata: { name, resourceVersion } }: VirtualIp): Confirmation {
  return { path: toVirtualIpPath(name), version: resourceVersion };
}

/** Where a VirtualIP is read that a write makes or changes. */
export function findVirtualIpPath({ kind, key }: Write): string | null {
  return kind === 'VirtualIP' ? toVirtualIpPath(key) : null;
}

type Target = Pick<Write, 'path' | 'kind' | 'key' | 'confirm'>;

function targetService({ metadata: { namespace, name } }: Service): Target {
  const path = toServicePath(namespace, name);
  return { path, kind: 'Service', key: `${namespace}/${name}`, confirm: [] };
}

function targetVirtualIp(name: string): Target {
  return { path: toVirtualIpPath(name), kind: 'VirtualIP', key: name, confirm: [] };
}

function targetPool({ metadata: { name } }: AddressPool): Target {
  return { path: `${addressPools.path}/${name}`, kind: 'AddressPool', key: name, confirm: [] };
}

function targetDevice({ metadata: { name } }: LoadBalancerDevice): Target {
  return { path: `${devices.path}/${name}`, kind: 'LoadBalancerDevice', key: name, confirm: [] };
}

function patchStatus(
  { metadata: { resourceVersion } }: Service | VirtualIp | AddressPool | LoadBalancerDevice,
  of: Target,
  status: Fields,
): Write {
  const body = { metadata: { resourceVersion }, status };
  return { ...of, method: 'PATCH', path: `${of.path}/status`, body };
}

function toVirtualIpPath(name: string): string {
  return `${virtualIps.path}/${name}`;
}

function toServicePath(namespace: string, name: string): string {
  return `/api/v1/namespaces/${namespace}/services/${name}`;
}
