/** Pods that wait for a readiness gate of vipnat, as the API has them. */
import { type Resource } from '../../lib/kubernetes/resources.ts';
import { isReadyButForUs, listClosedGates, readWaitingSince } from '../../lib/services/pod-gates.ts';
import { type Pod, toPodResource } from '../../lib/services/pods.ts';
import { type Service } from '../../lib/services/services.ts';

/** A pod that lacks nothing but gates of vipnat. */
export interface WaitingPod {
  /** `NAMESPACE/NAME`. */
  readonly pod: string;
  readonly addresses: readonly string[];
  /** The types of the gates. */
  readonly gates: readonly string[];
  /** Since when it lacks nothing else, as the API writes dates. */
  readonly since: string;
}

/** All pods that have any readiness gate. */
export const gatedPods: Resource<Pod> = {
  ...toPodResource(new Set()),
  isKept: ({ spec }) => (spec.readinessGates ?? []).length > 0,
};

/** Those of them that a Service selects. */
export function selectPodsOf({ metadata: { namespace }, spec }: Service): Resource<Pod> {
  const labels = Object.entries(spec.selector ?? {}).map(([label, value]) => `${label}=${value}`);
  return {
    ...gatedPods,
    path: `/api/v1/namespaces/${namespace}/pods`,
    selector: `${gatedPods.selector}&labelSelector=${encodeURIComponent(labels.join(','))}`,
  };
}

/** The pods that wait for gates of these types. Pure. */
export function findWaiting(pods: readonly Pod[], types: ReadonlySet<string>, nowMs: number): WaitingPod[] {
  return pods.flatMap((pod) => {
    const { namespace, name, deletionTimestamp } = pod.metadata;
    const gates = listClosedGates(pod, types);
    const isWaiting = gates.length > 0 && isReadyButForUs(pod, types);
    if (!isWaiting || typeof deletionTimestamp === 'string') return [];
    const addresses = [...(pod.status?.podIPs ?? []).map(({ ip }) => ip), pod.status?.podIP];
    return [
      {
        ...{ pod: `${namespace}/${name}`, gates },
        addresses: [...new Set(addresses)].flatMap((address) => address ?? []),
        since: `${new Date(readWaitingSince(pod, types, nowMs)).toISOString().slice(0, 19)}Z`,
      },
    ];
  });
}
