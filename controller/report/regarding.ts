import { apiGroup, apiVersion } from '../../lib/services/names.ts';
import { type Regarding } from '../../lib/telemetry/regarding.ts';
import { type StepKey } from '../world/keys.ts';
import { type World } from '../world/world.ts';

/** The object of a key, as events name it; null where it is not known. */
export function toRegarding(key: StepKey, world: World): Regarding | null {
  if ('namespace' in key) {
    const { namespace, name } = key;
    const kind = key.kind === 'Pod' ? 'Pod' : 'Service';
    const objects = kind === 'Pod' ? world.gates.pods : world.services;
    const uid = objects.get(`${namespace}/${name}`)?.metadata.uid;
    return uid === undefined ? null : { apiVersion: 'v1', kind, namespace, name, uid };
  }
  const { kind, name } = key;
  if (kind === 'Lease') return null;
  const uid = (kind === 'VirtualIP' ? world.virtualIps : world.pools).get(name)?.metadata.uid;
  return uid === undefined ? null : { apiVersion: `${apiGroup}/${apiVersion}`, kind, name, uid };
}
