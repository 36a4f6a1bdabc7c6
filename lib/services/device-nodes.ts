/** Nodes as targets of devices: where their ports answer, and whether they are to get connections from outside. */
import * as z from 'zod/mini';
import { type Address, parseAddress } from '../address/address.ts';
import { name, version } from '../kubernetes/api-object.ts';
import { type Resource } from '../kubernetes/resources.ts';
import { nodes } from './cluster.ts';
import { conditions, findEnding } from './followed-nodes.ts';
import { excludedNodeLabel } from './names.ts';

const node = z.object({
  metadata: z.object({
    name,
    resourceVersion: version,
    deletionTimestamp: z.nullish(z.string()),
    labels: z.nullish(z.record(z.string(), z.string())),
  }),
  spec: z.nullish(z.object({ taints: z.nullish(z.array(z.object({ key: z.string() }))) })),
  status: z.nullish(
    z.object({
      addresses: z.nullish(z.array(z.object({ type: z.string(), address: z.string() }))),
      conditions: z.nullish(conditions),
    }),
  ),
});

/** A Node of v1, as devices see it. Heartbeats change nothing of it. */
export interface DeviceNode {
  readonly metadata: { readonly name: string; readonly resourceVersion: string };
  /** Its InternalIPs. */
  readonly addresses: readonly Address[];
  /** Whether it is to get new connections: it is ready, stays, and nobody excludes it. */
  readonly takesConnections: boolean;
}

/** All nodes. */
export const deviceNodes: Resource<DeviceNode> = {
  kind: nodes.kind,
  path: nodes.path,
  selector: nodes.selector,
  limits: nodes.limits,
  schema: z.pipe(node, z.transform(toDeviceNode)),
};

/** Source: cluster-autoscaler, utils/taints, ToBeDeletedTaint. k8s.io/cloud-provider leaves such nodes out, too. */
const leavingTaint = 'ToBeDeletedByClusterAutoscaler';

function toDeviceNode({ metadata, spec, status }: z.output<typeof node>): DeviceNode {
  const { name: own, resourceVersion } = metadata;
  const isLeaving = (spec?.taints ?? []).some(({ key }) => key === leavingTaint);
  return {
    metadata: { name: own, resourceVersion },
    addresses: (status?.addresses ?? []).flatMap(({ type, address }) =>
      type === 'InternalIP' ? (parseAddress(address) ?? []) : [],
    ),
    takesConnections: !isLeaving && isWanted(metadata) && isWell(status?.conditions ?? []),
  };
}

function isWanted({ labels, deletionTimestamp }: z.output<typeof node>['metadata']): boolean {
  return typeof deletionTimestamp !== 'string' && !Object.hasOwn(labels ?? {}, excludedNodeLabel);
}

function isWell(found: z.output<typeof conditions>): boolean {
  const isReady = found.some(({ type, status }) => type === 'Ready' && status === 'True');
  return isReady && findEnding(found) === null;
}
