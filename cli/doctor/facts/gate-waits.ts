import { type Clock } from '../../../lib/control/clock.ts';
import { createLister } from '../../../lib/kubernetes/object-lister.ts';
import { type ApiRoute } from '../../../lib/kubernetes/route.ts';
import { readGateTypes } from '../../../lib/services/gate-types.ts';
import { type Pod } from '../../../lib/services/pods.ts';
import { type ServiceObjects } from '../../services/services-view.ts';
import { viewServices } from '../../services/view-services.ts';
import { findWaiting, gatedPods } from '../../services/waiting-pods.ts';

/** A pod that waits for a readiness gate of vipnat. */
export interface GateWait {
  /** `NAMESPACE/NAME`. */
  readonly pod: string;
  /** For how long it has lacked nothing else, by the date of this host. */
  readonly waitedMs: number;
  /** The living nodes that have not reported that they send connections to it. */
  readonly nodes: readonly string[];
}

/** Asks the API for all pods that wait. Rejects as listObjects does. */
export async function readGateWaits(
  { route, clock }: { readonly route: ApiRoute; readonly clock: Clock },
  objects: ServiceObjects,
): Promise<readonly GateWait[]> {
  const pods = await createLister(route, clock, new AbortController().signal)(gatedPods);
  return listGateWaits(objects, pods, clock.date().getTime());
}

/** The pods that wait, those that have waited longest first. Pure. */
export function listGateWaits(
  objects: ServiceObjects,
  pods: readonly Pod[],
  nowMs: number,
): readonly GateWait[] {
  const waiting = findWaiting(pods, readGateTypes(objects.leases), nowMs);
  if (waiting.length === 0) return [];
  const { services } = viewServices({ ...objects, pods }, nowMs);
  const gates = services.flatMap((service) => service.pods.flatMap(({ gate }) => gate ?? []));
  const podToGates = Map.groupBy(gates, ({ pod }) => pod);
  return waiting
    .map(({ pod, since }) => ({
      pod,
      waitedMs: nowMs - Date.parse(since),
      nodes: [...new Set((podToGates.get(pod) ?? []).flatMap(({ nodes }) => nodes))],
    }))
    .sort((one, other) => other.waitedMs - one.waitedMs);
}
