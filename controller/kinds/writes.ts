/** The requests that steps are made of. */
import { apiGroup, apiVersion } from '../../lib/services/names.ts';
import { addressPools, type AddressPool, type VirtualIp, virtualIps } from '../../lib/services/objects.ts';
import { type Service } from '../../lib/services/services.ts';
import { type Confirmation, type Json, type Write } from '../engine/step.ts';

/** Of a Service: its metadata, with `metadata` as a merge patch. */
export function patchServiceMetadata(service: Service, metadata: { readonly [key: string]: Json }): Write {
  const { namespace, name, resourceVersion } = service.metadata;
  return {
    method: 'PATCH',
    path: toServicePath(namespace, name),
    body: { metadata: { ...metadata, resourceVersion } },
    kind: 'Service',
    key: `${namespace}/${name}`,
    confirm: [],
  };
}

/** Of a Service: its status. */
export function patchServiceStatus(
  service: Service,
  status: { readonly [key: string]: Json },
  confirm: readonly Confirmation[] = [],
): Write {
  const { namespace, name, resourceVersion } = service.metadata;
  return {
    method: 'PATCH',
    path: `${toServicePath(namespace, name)}/status`,
    body: { metadata: { resourceVersion }, status },
    kind: 'Service',
    key: `${namespace}/${name}`,
    confirm,
  };
}

/** Creates it, unless one of its name exists. */
export function createVirtualIp(name: string, spec: VirtualIp['spec']): Write {
  return {
    method: 'POST',
    path: virtualIps.path,
    body: { apiVersion: `${apiGroup}/${apiVersion}`, kind: 'VirtualIP', metadata: { name }, spec },
    kind: 'VirtualIP',
    key: name,
    confirm: [],
    givesOf: spec.pool,
  };
}

/** What others see of it. */
export function patchVirtualIp(
  { metadata: { name, resourceVersion } }: VirtualIp,
  spec: Partial<VirtualIp['spec']>,
  confirm: readonly Confirmation[] = [],
): Write {
  const body = { metadata: { resourceVersion }, spec };
  const gives = spec.pool === undefined ? {} : { givesOf: spec.pool };
  return {
    method: 'PATCH',
    path: toVirtualIpPath(name),
    body,
    kind: 'VirtualIP',
    key: name,
    confirm,
    ...gives,
  };
}

/** What is known of it. */
export function patchVirtualIpStatus(
  { metadata: { name, resourceVersion } }: VirtualIp,
  status: { readonly [key: string]: Json },
): Write {
  const path = `${toVirtualIpPath(name)}/status`;
  const body = { metadata: { resourceVersion }, status };
  return { method: 'PATCH', path, body, kind: 'VirtualIP', key: name, confirm: [] };
}

/** Deletes it as it was read. */
export function deleteVirtualIp({ metadata: { name, uid, resourceVersion } }: VirtualIp): Write {
  const path = toVirtualIpPath(name);
  const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid, resourceVersion } };
  return { method: 'DELETE', path, body, kind: 'VirtualIP', key: name, confirm: [] };
}

/** Of a pool: its finalizers. */
export function patchPoolFinalizers(
  { metadata: { name, resourceVersion } }: AddressPool,
  finalizers: readonly string[],
): Write {
  const body = { metadata: { resourceVersion, finalizers } };
  return {
    method: 'PATCH',
    path: `${addressPools.path}/${name}`,
    body,
    kind: 'AddressPool',
    key: name,
    confirm: [],
  };
}

/** Of a pool: its seats and conditions. */
export function patchPoolStatus(
  { metadata: { name, resourceVersion } }: AddressPool,
  status: { readonly [key: string]: Json },
): Write {
  const path = `${addressPools.path}/${name}/status`;
  const body = { metadata: { resourceVersion }, status };
  return { method: 'PATCH', path, body, kind: 'AddressPool', key: name, confirm: [] };
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

function toVirtualIpPath(name: string): string {
  return `${virtualIps.path}/${name}`;
}

function toServicePath(namespace: string, name: string): string {
  return `/api/v1/namespaces/${namespace}/services/${name}`;
}
