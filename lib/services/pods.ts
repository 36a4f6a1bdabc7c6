/** Pods, as far as readiness gates and weights need them. */
import * as z from 'zod/mini';
import { name, version } from '../kubernetes/api-object.ts';
import { type Resource } from '../kubernetes/resources.ts';
import { type Condition, condition } from './metadata.ts';
import { podAnnotations } from './names.ts';

const container = z.object({
  /** Of an init container: `Always` for one that runs beside the others. */
  restartPolicy: z.nullish(z.string()),
  ports: z.nullish(
    z.array(
      z.object({ name: z.nullish(z.string()), containerPort: z.number(), protocol: z.nullish(z.string()) }),
    ),
  ),
});

const pod = z.object({
  metadata: z.object({
    name,
    namespace: name,
    uid: z.string(),
    resourceVersion: version,
    creationTimestamp: z.nullish(z.string()),
    deletionTimestamp: z.nullish(z.string()),
    labels: z.nullish(z.record(z.string(), z.string())),
    /** Of all annotations this one: others may be long. */
    annotations: z.nullish(z.object({ [podAnnotations.weight]: z.nullish(z.string()) })),
  }),
  spec: z.object({
    nodeName: z.nullish(z.string()),
    readinessGates: z.nullish(z.array(z.object({ conditionType: z.string() }))),
    containers: z._default(z.array(container), []),
    initContainers: z.nullish(z.array(container)),
  }),
  status: z.nullish(
    z.object({
      podIP: z.nullish(z.string()),
      podIPs: z.nullish(z.array(z.object({ ip: z.nullish(z.string()) }))),
      conditions: z.nullish(z.array(condition)),
    }),
  ),
});

/** A Pod of v1. */
export type Pod = z.output<typeof pod>;

/**
 * The pods of all namespaces that have a readiness gate of one of these types, or a weight, or are about to be evicted; no other one is
 * kept. Pods that have ended are not asked for: their addresses are others' soon.
 */
export function toPodResource(gateTypes: ReadonlySet<string>): Resource<Pod> {
  return {
    kind: 'Pod',
    path: '/api/v1/pods',
    selector: `fieldSelector=${encodeURIComponent('status.phase!=Succeeded,status.phase!=Failed')}`,
    schema: pod,
    limits: { objects: 200_000, characters: 64_000_000, page: 500 },
    isKept: (one) => listGates(one, gateTypes).length > 0 || hasWeight(one) || findDisruption(one) !== null,
  };
}

/** The readiness gates of a pod that are of some types. */
export function listGates({ spec }: Pod, gateTypes: ReadonlySet<string>): string[] {
  const types = (spec.readinessGates ?? []).map(({ conditionType }) => conditionType);
  return [...new Set(types)].filter((type) => gateTypes.has(type));
}

/**
 * What says that a pod is about to be ended by an eviction, a preemption or a taint; null for none. Source: core/v1, DisruptionTarget. The
 * kubelet's own word (TerminationByKubelet) comes when the containers have ended.
 */
export function findDisruption({ status }: Pod): Condition | null {
  const isSo = ({ type, status: is }: Condition) => type === 'DisruptionTarget' && is === 'True';
  return status?.conditions?.find(isSo) ?? null;
}

function hasWeight({ metadata: { annotations } }: Pod): boolean {
  return typeof annotations?.[podAnnotations.weight] === 'string';
}
