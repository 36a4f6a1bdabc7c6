/** Nodes as balancers follow them: their zone, and whether their pods are to get no new connection. */
import * as z from 'zod/mini';
import { name, version } from '../kubernetes/api-object.ts';
import { type Resource } from '../kubernetes/resources.ts';
import { nodes, readZone } from './cluster.ts';

/** Why pods of a node are to get no new connection: a clause of which the node is the subject. */
export type NodeEnding = 'shuts down' | 'is being drained' | 'is in maintenance';

/** Source: core/v1 of Kubernetes 1.37, KEP-5683. An administrator, or a controller that may, sets and clears them. */
const typeToEnding: Readonly<Record<string, NodeEnding>> = {
  GracefulNodeShutdownInProgress: 'shuts down',
  DrainInProgress: 'is being drained',
  MaintenanceInProgress: 'is in maintenance',
};

/**
 * In the message of Ready, among others where there are several reasons: kubelet 1.36, nodeshutdown_manager.go, ShutdownStatus. It is all that
 * a kubelet says of a graceful shutdown: the pods get no deletionTimestamp (kubernetes/kubernetes#116965).
 */
const shutdownWords = 'node is shutting down';

/** Conditions of a node. */
export const conditions = z.array(
  z.object({ type: z.string(), status: z.string(), message: z._default(z.string(), '') }),
);

const node = z.object({
  metadata: z.object({ name, resourceVersion: version, labels: z.nullish(z.record(z.string(), z.string())) }),
  status: z.nullish(z.object({ conditions: z.nullish(conditions) })),
});

/** A Node of v1, as far as balancers follow it. Heartbeats change nothing of it. */
export interface FollowedNode {
  readonly metadata: { readonly name: string; readonly resourceVersion: string };
  readonly zone: string | null;
  /** Null: its pods get new connections, unless it is silent and said otherwise before. */
  readonly ending: NodeEnding | null;
  /** Its kubelet says nothing any more: the message of Ready is kube-controller-manager's, and what the kubelet said last is lost. */
  readonly isSilent: boolean;
}

/** All nodes. */
export const followedNodes: Resource<FollowedNode> = {
  kind: nodes.kind,
  path: nodes.path,
  selector: nodes.selector,
  limits: nodes.limits,
  schema: z.pipe(node, z.transform(toFollowed)),
};

function toFollowed({ metadata, status }: z.output<typeof node>): FollowedNode {
  const { name: own, resourceVersion } = metadata;
  return {
    metadata: { name: own, resourceVersion },
    zone: readZone({ metadata }),
    ending: findEnding(status?.conditions ?? []),
    isSilent:
      status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'Unknown') === true,
  };
}

/** Why a node's pods are to get no new connection. A kubelet that starts again, or is silent, has Ready False or Unknown for other reasons: its pods go on. */
export function findEnding(found: z.output<typeof conditions>): NodeEnding | null {
  for (const { type, status, message } of found) {
    const ending = Object.hasOwn(typeToEnding, type) ? typeToEnding[type] : undefined;
    if (status === 'True' && ending !== undefined) return ending;
    if (type === 'Ready' && status === 'False' && message.includes(shutdownWords)) return 'shuts down';
  }
  return null;
}
