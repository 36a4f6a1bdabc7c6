/** What a world knows of the objects that steps write. */
import { fieldManager } from '../../lib/kubernetes/request.ts';
import { type ApiObject } from '../../lib/kubernetes/api-object.ts';
import { type StepKey, type WrittenKind } from '../world/keys.ts';
import { type World } from '../world/world.ts';
import { formatKey } from './key-text.ts';

/** Of `KIND/KEY`. */
export function getKind(object: string): string {
  return object.split('/', 1)[0] ?? '';
}

/** The version of `KIND/KEY`; null for what is not known. */
export function findVersion(
  object: string,
  { services, virtualIps, pools, leases, gates }: World,
): string | null {
  const kind = getKind(object);
  if (kind === 'Lease') return leases.get(object.slice(kind.length + 1))?.resourceVersion ?? null;
  const kindToObjects: Readonly<Record<Exclude<WrittenKind, 'Lease'>, ReadonlyMap<string, ApiObject>>> = {
    Service: services,
    VirtualIP: virtualIps,
    AddressPool: pools,
    Pod: gates.pods,
    EndpointSlice: gates.slices,
  };
  return (
    kindToObjects[kind as Exclude<WrittenKind, 'Lease'>].get(object.slice(kind.length + 1))?.metadata
      .resourceVersion ?? null
  );
}

/** A key, and which object of that name it is: a new one begins anew. */
export function toLife(key: StepKey, { services, virtualIps, pools }: World): string {
  const kindToObjects: Readonly<Record<string, World['services'] | World['virtualIps'] | World['pools']>> = {
    ...{ Service: services, VirtualIP: virtualIps, AddressPool: pools },
  };
  return `${formatKey(key)} ${kindToObjects[key.kind]?.get(toObjectKey(key))?.metadata.uid ?? ''}`;
}

/** As informers have it. */
export function toObjectKey(key: StepKey): string {
  return 'namespace' in key ? `${key.namespace}/${key.name}` : key.name;
}

/** Whether a key is about pods: what they do may be the same again, at any pace. */
export function isOfGates({ kind }: StepKey): boolean {
  return kind === 'Pod' || kind === 'EarlySlices';
}

/** Who else has written the status of a Service; none for other objects. */
export function listManagers(key: StepKey, { services }: World): readonly string[] {
  const managers = key.kind === 'Service' ? services.get(toObjectKey(key))?.metadata.managedFields : [];
  return (managers ?? []).filter((each) => each !== fieldManager && each !== '');
}
