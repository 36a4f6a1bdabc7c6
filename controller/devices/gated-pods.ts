/** Pods that lack nothing but readiness gates of vipnat: a device gets them before Kubernetes calls them ready. Pure. */
import { type LoadBalancerDevice } from '../../lib/services/devices.ts';
import { listGates } from '../../lib/services/pods.ts';
import { type EndpointSlice, type Service } from '../../lib/services/services.ts';
import { listEndpointsOf } from '../kinds/endpoints.ts';
import { type World } from '../cache/world.ts';

/** The EndpointSlices of a Service, with such pods as ready. */
export interface GatedSlices {
  readonly slices: readonly EndpointSlice[];
  /** The uids of the pods with gates that these slices call ready, in order. */
  readonly uids: readonly string[];
}

/**
 * What a Service's slices come to on a device. A pod that no slice has yet is not among them. Behind ports of nodes Kubernetes decides alone who is
 * ready.
 */
export function readGatedSlices(service: Service, { spec }: LoadBalancerDevice, world: World): GatedSlices {
  const key = `${service.metadata.namespace}/${service.metadata.name}`;
  const keys = world.serviceToEndpointSlices.get(key) ?? [];
  const slices = [...keys].flatMap((each) => world.endpointSlices.get(each) ?? []);
  const addressToUid = spec.targets === 'pods' ? listGated(key, service, world) : new Map<string, string>();
  if (addressToUid.size === 0) return { slices, uids: [] };
  const found = new Set<string>();
  const opened = slices.map((slice) => ({
    ...slice,
    endpoints: slice.endpoints?.map((endpoint) => {
      const uid = addressToUid.get(endpoint.addresses[0] ?? '');
      if (uid === undefined || endpoint.conditions?.terminating === true) return endpoint;
      found.add(uid);
      return { ...endpoint, conditions: { ...endpoint.conditions, ready: true } };
    }),
  }));
  return { slices: opened, uids: [...found].sort() };
}

/**
 * Addresses to uids. An open gate counts as well: until Kubernetes' own EndpointSlices have the pod as ready, it would go again. A Service has
 * one pod at most with an address.
 */
function listGated(key: string, service: Service, world: World): ReadonlyMap<string, string> {
  const pods = [...(world.serviceToPods.get(key) ?? [])].flatMap((each) => world.pods.get(each) ?? []);
  const gated = pods.filter((pod) => listGates(pod, world.settings.gateTypes).length > 0);
  const endpoints = gated.flatMap((pod) => listEndpointsOf(pod, service, world));
  return new Map(endpoints.filter(({ ready }) => ready).map(({ address, pod }) => [address, pod.uid]));
}
