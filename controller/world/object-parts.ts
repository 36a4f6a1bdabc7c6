/** What of an object others depend on. */
import { type Node } from '../../lib/services/cluster.ts';
import { toLeaseName } from '../../lib/services/node-report.ts';
import { type AddressPool, type VirtualIp } from '../../lib/services/objects.ts';
import { isInUse } from './conditions.ts';
import { type StepKey } from './keys.ts';

/** Keys of the Services that a VirtualIP names. */
export function listUsers(virtualIp: VirtualIp | null): string[] {
  return [...(virtualIp?.spec.services ?? []), ...(virtualIp?.spec.leaving ?? [])].map(
    ({ namespace, name }) => `${namespace}/${name}`,
  );
}

/** The key under which a VirtualIP is shared; none where it is not. */
export function listShareKeys(virtualIp: VirtualIp | null): string[] {
  return [virtualIp?.spec.shareKey ?? ''].filter((key) => key !== '');
}

/** The pool of a VirtualIP. */
export function listPools(virtualIp: VirtualIp | null): string[] {
  return virtualIp === null ? [] : [virtualIp.spec.pool];
}

/** What Services and VirtualIPs depend on: what is said of a pool in conditions is nothing to them. */
export function hasSamePoolParts(before: AddressPool | null, after: AddressPool | null): boolean {
  const [a, b] = [before, after].map((pool) =>
    JSON.stringify([pool?.spec, pool?.metadata.deletionTimestamp, pool?.status?.seats]),
  );
  return a === b;
}

/** What others than its own Services depend on. */
export function toUseText(virtualIp: VirtualIp | null): string {
  return virtualIp === null ? '' : JSON.stringify([virtualIp.spec, isInUse(virtualIp)]);
}

/** What candidates depend on. */
export function toNodeText(node: Node | null): string {
  return JSON.stringify(node === null ? null : [node.metadata.labels]);
}

/** Source: core/v1, LabelTopologyZone. */
const zoneLabel = 'topology.kubernetes.io/zone';

/** The zone of a node; null for one that has none, or is not there. */
export function readZone(node: Node | null | undefined): string | null {
  return node?.metadata.labels?.[zoneLabel] ?? null;
}

/** Of `NAMESPACE/NAME`. */
export function toServiceKey(key: string): StepKey {
  const [namespace = '', name = ''] = key.split('/');
  return { kind: 'Service', namespace, name };
}

/** Of its name. */
export function toVirtualIpKey(name: string): StepKey {
  return { kind: 'VirtualIP', name };
}

/** Of its name. */
export function toPoolKey(name: string): StepKey {
  return { kind: 'AddressPool', name };
}

/** Of the name of its node. */
export function toLeaseKey(node: string): StepKey {
  return { kind: 'Lease', name: toLeaseName(node) };
}
