import type { Cluster } from './cluster.ts';
import { isReadyButForUs, isNodeReady, listOwnGates, isTrue, findOwner, isDeleted } from './pod-facts.ts';
import type { StoredObject } from '../../../support/fakes/object-api.ts';
import { isForUs, services } from '../../../../lib/api/service.ts';

/** What is wrong with gates and early EndpointSlices when everything has come to rest, minutes after the last fault. */
export function findGateFaults(cluster: Cluster): string[] {
  const pods = [...cluster.api.list('Pod')];
  const slices = [...cluster.api.list('EndpointSlice')];
  return [
    ...pods
      .filter(([, pod]) => !isDeleted(pod) && isReadyButForUs(pod))
      .filter(([, pod]) => isNodeReady(cluster.api.list('Node').get(String(pod.spec?.['nodeName']))))
      .flatMap(([key, pod]) => listOwnGates(pod).map((type) => ({ key, type, isOpen: isTrue(pod, type) })))
      .filter(({ isOpen }) => !isOpen)
      .map(({ key, type }) => `the gate ${type} of ${key} stays closed`),
    ...slices.flatMap(([key, slice]) => findSliceFaults(cluster, key, slice)),
    ...pods.flatMap(([key, pod]) => findMissing(cluster, key, pod)),
  ];
}

function findSliceFaults(cluster: Cluster, key: string, slice: StoredObject): string[] {
  const owner = findOwner(cluster, slice);
  if (owner === null || !isForUs(services.schema.parse(owner), cluster.isDefaultClass))
    return [`G3: ${key} is left behind`];
  const uids = (slice.endpoints ?? []).map((endpoint) => (endpoint['targetRef'] as { uid: string }).uid);
  if (uids.length === 0) return [`G3: ${key} is empty`];
  const known = [...cluster.api.list('Pod').values()];
  return uids.flatMap((uid) => {
    const pod = known.find(({ metadata }) => metadata.uid === uid);
    if (pod === undefined) return [`G3: ${key} has a pod that is gone`];
    const isWaiting = listOwnGates(pod).some((type) => !isTrue(pod, type));
    return isWaiting || isWeighted(pod) || isDeleted(pod)
      ? []
      : [`G3: ${key} has ${pod.metadata.name}, which waits for nothing`];
  });
}

/** A pod with a weight, one whose gate is closed, and one that ends are in an early EndpointSlice of each Service that selects them. */
function findMissing(cluster: Cluster, key: string, pod: StoredObject): string[] {
  const isClosed = listOwnGates(pod).some((type) => !isTrue(pod, type));
  const hasGate = listOwnGates(pod).length > 0;
  const isWanted = isClosed || isWeighted(pod) || (hasGate && isDeleted(pod));
  if (pod.status?.['podIP'] === undefined || !isWanted) return [];
  const app = pod.metadata.labels?.['app'];
  const slices = [...cluster.api.list('EndpointSlice').values()];
  return [...cluster.api.list('Service')]
    .filter(([name, service]) => {
      const selector = service.spec?.['selector'] as { app?: string } | undefined;
      const isHere = name.split('/')[0] === key.split('/')[0] && selector?.app === app;
      return isHere && isForUs(services.schema.parse(service), cluster.isDefaultClass);
    })
    .filter(([, service]) => {
      const own = slices.filter((slice) => findOwner(cluster, slice) === service);
      const uids = own.flatMap(({ endpoints }) =>
        (endpoints ?? []).map((endpoint) => (endpoint['targetRef'] as { uid: string }).uid),
      );
      const families = (service.spec?.['ipFamilies'] as readonly string[]).length;
      return uids.filter((uid) => uid === pod.metadata.uid).length !== families;
    })
    .map(([name]) => `${key} is not in early EndpointSlices of ${name} as it should be`);
}

function isWeighted({ metadata }: StoredObject): boolean {
  return Object.keys(metadata.annotations ?? {}).length > 0;
}
