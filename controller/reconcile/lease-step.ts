import { silentAnnotation } from '../../lib/services/names.ts';
import { type World } from '../world/world.ts';
import { nothing, type Step } from './step.ts';
import { toStep } from './writes.ts';

/**
 * The next step of the Lease of a node that is silent. If its Node is gone it is deleted: else each new leader would wait for that node. Otherwise
 * it notes that the Lease is over since its last renewal: the next leader begins with that.
 */
export function nextLeaseStep(name: string, world: World): Step {
  const lease = world.leases.get(name);
  const silent = lease === undefined ? undefined : world.silentNodes.get(lease.node);
  const { namespace } = world.settings;
  if (lease === undefined || namespace === undefined || silent?.renewal !== lease.renewal) return nothing;
  const { uid, resourceVersion } = lease;
  const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${name}`;
  const of = { path, kind: 'Lease', key: name, confirm: [] } as const;
  if (!world.nodes.has(lease.node)) {
    const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid, resourceVersion } };
    return toStep({ ...of, method: 'DELETE', body });
  }
  if (lease.noted === lease.renewal) return nothing;
  const annotations = { [silentAnnotation]: lease.renewal };
  return toStep({ ...of, method: 'PATCH', body: { metadata: { resourceVersion, annotations } } });
}
