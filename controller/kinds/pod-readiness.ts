/** How far a pod is, by its conditions alone. */
import { type Condition } from '../../lib/services/metadata.ts';
import { listGates, type Pod } from '../../lib/services/pods.ts';

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

function isAwaited({ spec }: Pod, type: string, types: GateTypes): boolean {
  const isGate = spec.readinessGates?.some(({ conditionType }) => conditionType === type) === true;
  return type === 'ContainersReady' || (isGate && !types.has(type));
}

function findCondition({ status }: Pod, wanted: string): Condition | null {
  return status?.conditions?.find(({ type }) => type === wanted) ?? null;
}

function readDate(text: string | null | undefined): number | null {
  const ms = Date.parse(text ?? '');
  return Number.isNaN(ms) ? null : ms;
}
