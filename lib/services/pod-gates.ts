/** Readiness gates of pods: which of them vipnat has yet to open, and how one is opened. */
import { type ObjectWrite } from '../kubernetes/write-object.ts';
import { type Condition } from './metadata.ts';
import { listGates, type Pod } from './pods.ts';

type GateTypes = ReadonlySet<string>;

/** How far a kubelet's date may be ahead: so much longer a gate can wait at most. */
const mostAheadMs = 10 * 60_000;

/** Whether nothing but gates of vipnat keeps a pod from being ready: its containers are, and gates of others are open. */
export function isReadyButForUs(pod: Pod, types: GateTypes): boolean {
  const others = (pod.spec.readinessGates ?? []).filter(({ conditionType }) => !types.has(conditionType));
  return ['ContainersReady', ...others.map(({ conditionType }) => conditionType)].every(
    (type) => findCondition(pod, type)?.status === 'True',
  );
}

/** The gates of vipnat that are not open. */
export function listClosedGates(pod: Pod, types: GateTypes): string[] {
  return listGates(pod, types).filter((type) => findCondition(pod, type)?.status !== 'True');
}

/**
 * Since when a pod waits for its gates alone, as milliseconds since 1970: the last condition that was met. The kubelet's date may be
 * wrong: a moment before the pod was created, or one that lies far ahead, is none. One that lies a little ahead counts: a pod may have
 * taken long to start, and would not be waited for at all.
 */
export function readWaitingSince(pod: Pod, types: GateTypes, nowMs: number): number {
  const createdMs = Math.min(readDate(pod.metadata.creationTimestamp) ?? nowMs, nowMs);
  const met = (pod.status?.conditions ?? []).filter(({ type }) => isAwaited(pod, type, types));
  const moments = met.map(({ lastTransitionTime }) => readDate(lastTransitionTime) ?? createdMs);
  const lastMs = Math.max(createdMs, ...moments);
  return lastMs > nowMs + mostAheadMs ? createdMs : lastMs;
}

/** Since when all gates of vipnat are open, by the controller's own date; null for a pod that has none, or a closed one. */
export function readOpenSince(pod: Pod, types: GateTypes): number | null {
  const gates = listGates(pod, types);
  if (gates.length === 0 || listClosedGates(pod, types).length > 0) return null;
  return Math.max(...gates.map((type) => readDate(findCondition(pod, type)?.lastTransitionTime) ?? 0));
}

/** What is said of a gate that opens. */
export interface Opening {
  readonly reason: string;
  readonly message: string;
  /** As the API writes dates. */
  readonly at: string;
}

/**
 * The write that opens gates of a pod. Conditions of others stay: they are merged by their types. It is refused if the pod is another one by
 * now, or has changed.
 */
export function toOpeningWrite(
  { metadata: { namespace, name, uid, resourceVersion } }: Pod,
  types: readonly string[],
  { reason, message, at }: Opening,
): ObjectWrite & { readonly method: 'PATCH'; readonly isStrategic: true; readonly body: OpeningPatch } {
  const conditions = types.map((type) => ({ type, status: 'True', reason, message, lastTransitionTime: at }));
  return {
    title: `opening the readiness gate of Pod ${namespace}/${name}`,
    method: 'PATCH',
    isStrategic: true,
    path: `/api/v1/namespaces/${namespace}/pods/${name}/status`,
    body: { metadata: { uid, resourceVersion }, status: { conditions } },
  };
}

/** A strategic merge patch of a pod's status: a type, as it is to be any JSON. */
type OpeningPatch = Readonly<{
  metadata: Readonly<{ uid: string; resourceVersion: string }>;
  status: Readonly<{ conditions: Readonly<Record<string, string>>[] }>;
}>;

function isAwaited({ spec }: Pod, type: string, types: GateTypes): boolean {
  const isGate = spec.readinessGates?.some(({ conditionType }) => conditionType === type) === true;
  return type === 'ContainersReady' || (isGate && !types.has(type));
}

function findCondition({ status }: Pod, wanted: string): Condition | null {
  return status?.conditions?.find(({ type }) => type === wanted) ?? null;
}

/** A date of the API as milliseconds since 1970; null for one that is missing or none. */
export function readDate(text: string | null | undefined): number | null {
  const ms = Date.parse(text ?? '');
  return Number.isNaN(ms) ? null : ms;
}
