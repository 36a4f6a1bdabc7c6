import { silentAnnotation } from '../../lib/services/names.ts';
import { toLeaseName } from '../../lib/services/node-report.ts';
import { type World } from '../cache/world.ts';
import { type Kind, nothing, type Step, toStep } from '../engine/step.ts';

/** The Leases of nodes. */
export const lease: Kind = {
  name: 'Lease',
  source: 'leases',
  subject: null,
  watches: [
    { source: 'silentNodes', toKeys: ({ key, after }) => (after === null ? [] : [toLeaseName(key)]) },
    { source: 'nodes', toKeys: ({ key, after }) => (after === null ? [toLeaseName(key)] : []) },
  ],
  next: nextLeaseStep,
};

/**
 * The next step of the Lease of a node that is silent. If its Node is gone it is deleted: else each new leader would wait for that node. Otherwise
 * it notes that the Lease is over since its last renewal: the next leader begins with that.
 */
function nextLeaseStep(name: string, world: World): Step {
  const known = world.leases.get(name);
  const silent = known === undefined ? undefined : world.silentNodes.get(known.node);
  const { namespace } = world.settings;
  if (known === undefined || namespace === undefined || silent?.renewal !== known.renewal) return nothing;
  const { uid, resourceVersion } = known.metadata;
  const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${name}`;
  const of = { path, kind: 'Lease', key: name, confirm: [] } as const;
  if (!world.nodes.has(known.node)) {
    const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid, resourceVersion } };
    return toStep({ ...of, method: 'DELETE', body });
  }
  if (known.noted === known.renewal) return nothing;
  const annotations = { [silentAnnotation]: known.renewal };
  return toStep({ ...of, method: 'PATCH', body: { metadata: { resourceVersion, annotations } } });
}
