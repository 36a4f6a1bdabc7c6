/** Pods that wait for a readiness gate of vipnat, as the API has them. */
import { type Resource } from '../../lib/kubernetes/resources.ts';
import { type EarlySlice } from '../../lib/services/early-slices.ts';
import { gateType } from '../../lib/services/names.ts';
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

/**
 * The pods that wait. Which other types the controller opens, only its EndpointSlices tell: a pod that is ready there lacks nothing but gates
 * of vipnat. Pure.
 */
export function findWaiting(pods: readonly Pod[], early: readonly EarlySlice[], nowMs: number): WaitingPod[] {
  const endpoints = early.flatMap((slice) => slice.endpoints ?? []);
  const ready = endpoints.filter(({ conditions }) => conditions?.ready === true);
  const uids = new Set(ready.map(({ targetRef }) => targetRef?.uid));
  return pods.flatMap((pod) => {
    const { namespace, name, uid, deletionTimestamp } = pod.metadata;
    const types = uids.has(uid) ? listTypes(pod) : usual;
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

const usual: ReadonlySet<string> = new Set([gateType]);

/** Those that are not open: nobody else's are. */
function listTypes({ spec, status }: Pod): ReadonlySet<string> {
  const open = (status?.conditions ?? []).filter((one) => one.status === 'True').map(({ type }) => type);
  const types = (spec.readinessGates ?? []).map(({ conditionType }) => conditionType);
  return new Set(types.filter((type) => !open.includes(type)));
}
