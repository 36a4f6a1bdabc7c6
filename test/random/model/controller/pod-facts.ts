/** What pods and early EndpointSlices say, read apart from the product's own code. */
import type { StoredObject, Written } from '../../../support/fakes/object-api.ts';
import type { Cluster } from './cluster.ts';
import { earlyServiceLabel, reportAnnotations } from '../../../../lib/api/vipnat.ts';

/** A further type of gates that this controller opens. */
export const otherGate = 'example.com/load-balancer-ready';

export const foreignGate = 'other.example/warm';

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly observedGeneration?: number;
  readonly reason?: string;
  readonly lastTransitionTime?: string;
}

export function isTrue({ status }: StoredObject, type: string): boolean {
  return listConditions(status).some((one) => one.type === type && one.status === 'True');
}

export function isDeleted({ metadata }: StoredObject): boolean {
  return metadata.deletionTimestamp !== undefined;
}

export function hasOtherSpec({ before, after }: Pick<Written, 'before' | 'after'>): boolean {
  return JSON.stringify(before?.spec) !== JSON.stringify(after?.spec);
}

export function listGates({ spec }: StoredObject): string[] {
  const gates = (spec?.['readinessGates'] ?? []) as readonly { readonly conditionType: string }[];
  return gates.map(({ conditionType }) => conditionType);
}

export function listOwnGates(pod: StoredObject): string[] {
  return listGates(pod).filter((type) => type !== foreignGate);
}

/** Whether nothing but gates of ours keeps a pod from being ready. */
export function isReadyButForUs(pod: StoredObject): boolean {
  const isForeign = listGates(pod).includes(foreignGate);
  return isTrue(pod, 'ContainersReady') && (!isForeign || isTrue(pod, foreignGate));
}

/** Whether an early EndpointSlice calls a pod ready, by its uid; for its own node it is enough that it serves. */
export function isReadyIn({ endpoints = [] }: StoredObject, uid: string, isOwn = false): boolean {
  return endpoints.some((endpoint) => {
    const { conditions, targetRef } = endpoint as {
      conditions: { ready: boolean; serving: boolean; terminating: boolean };
      targetRef: { uid: string };
    };
    const isPrepared = isOwn && conditions.serving && !conditions.terminating;
    return targetRef.uid === uid && (conditions.ready || isPrepared);
  });
}

export function isNodeReady(node: StoredObject | undefined): boolean {
  const ready = listConditions(node?.status).find(({ type }) => type === 'Ready');
  return node !== undefined && (ready === undefined || ready.status === 'True');
}

/** Nodes that had a gate wait in vain, to what the API had by then: until they report that, no gate waits for them. */
export class OverdueNodes {
  readonly #nodeToVersion = new Map<string, number>();

  add(nodes: readonly { readonly name: string }[], version: number): void {
    for (const { name } of nodes) this.#nodeToVersion.set(name, version);
  }

  /** Whether one of them has not caught up, by the Leases. */
  isAny(leases: ReadonlyMap<string, StoredObject>): boolean {
    return [...this.#nodeToVersion].some(([node, version]) => {
      const [, lease] = [...leases].find(([key]) => key.endsWith(`vipnat-lb-${node}`)) ?? [];
      const said = lease?.metadata.annotations?.[reportAnnotations.programmed] ?? '{}';
      const { earlyslices = '0' } = JSON.parse(said) as {
        earlyslices?: string;
      };
      return Number(earlyslices) < version;
    });
  }
}

/** Whether an EndpointSlice belongs to a Service, by its uid. */
export function isOwnedBy({ metadata }: StoredObject, uid: string): boolean {
  const owners = (metadata['ownerReferences'] ?? []) as readonly { readonly uid: string }[];
  return owners.some((owner) => owner.uid === uid);
}

/** The Service of an early EndpointSlice, as the API has it. */
export function findOwner(cluster: Cluster, slice: StoredObject): StoredObject | null {
  const { namespace = '', labels } = slice.metadata;
  const service = cluster.api.list('Service').get(`${namespace}/${labels?.[earlyServiceLabel] ?? ''}`);
  return service !== undefined && isOwnedBy(slice, service.metadata.uid) ? service : null;
}

export function listConditions(status: StoredObject['status']): readonly Condition[] {
  return (status?.['conditions'] ?? []) as readonly Condition[];
}
