import {
  type Kind,
  type Step,
  nothing,
  toStep,
  deleteObject,
  patchMetadata,
  type KindGroup,
} from '../step.ts';
import { toLeaseName } from '../../lib/api/node.ts';
import type { ClusterView } from '../cache/cache.ts';
import { unresponsiveAnnotation } from '../../lib/api/vipnat.ts';
import { addressPool } from './address-pool.ts';
import { virtualIp } from './virtual-ip.ts';
import { loadBalancerDevice } from '../devices/kind.ts';
import { service } from './service.ts';
import { earlySliceKind } from './endpoints.ts';
import { pod } from './pod-gate.ts';
import type { StepKey } from '../cache/known.ts';

/** The Leases of nodes. */
const lease: Kind = {
  name: 'Lease',
  source: 'leases',
  subject: null,
  watches: [
    { source: 'unresponsiveNodes', toKeys: ({ key, after }) => (after === null ? [] : [toLeaseName(key)]) },
    { source: 'nodes', toKeys: ({ key, after }) => (after === null ? [toLeaseName(key)] : []) },
  ],
  next: nextLeaseStep,
};

/**
 * The next step of a Lease that its node does not renew. If the Node is gone it is deleted: else each new leader would wait for that node.
 * Otherwise it notes that the Lease is over since its last renewal: the next leader begins with that.
 */
function nextLeaseStep(name: string, view: ClusterView): Step {
  const known = view.leases.get(name);
  const unresponsive = known === undefined ? undefined : view.unresponsiveNodes.get(known.node);
  const { namespace } = view.settings;
  if (known === undefined || namespace === undefined || unresponsive?.renewal !== known.renewal)
    return nothing;
  const object = { metadata: { ...known.metadata, namespace } };
  if (!view.nodes.has(known.node)) return toStep(deleteObject('Lease', object));
  if (known.noted === known.renewal) return nothing;
  return toStep(patchMetadata('Lease', object, { annotations: { [unresponsiveAnnotation]: known.renewal } }));
}

/** Services, their addresses, pools and devices. */
export const serviceKinds: KindGroup = {
  kinds: [lease, addressPool, virtualIp, loadBalancerDevice, service],
  wakeMs: 0,
};

/** Hundreds of pods can wait for the same nodes, and each report of a node is news to all of them. */
const wakeMs = 100;

/** Gates of pods: they begin when pods are known, too. */
export const gateKinds: KindGroup = { kinds: [earlySliceKind, pod], wakeMs };

/** All kinds. */
export const kinds: readonly Kind[] = [...serviceKinds.kinds, ...gateKinds.kinds];

/** The kind of some keys. */
export function getKind(name: string): Kind {
  const kind = kinds.find((each) => each.name === name);
  if (kind === undefined) throw new TypeError(`no kind: ${name}`);
  return kind;
}

/** The one next step of a key. Pure. */
export function nextStep({ kind, key }: StepKey, view: ClusterView): Step {
  return getKind(kind).next(key, view);
}
