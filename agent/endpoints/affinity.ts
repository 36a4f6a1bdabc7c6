import { families, type Family } from '../../lib/address/address.ts';
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { findInstalled } from './installed.ts';
import { recallFamily, type ServiceState } from '../observe/service-state.ts';
import { findProxyAffinity, findProxyBackends, type Observation } from '../observe/observe.ts';

/**
 * For how many seconds the Service keeps a client with its apiserver; null for not at all. The first source that knows
 * counts: the API, kube-proxy's rules, kube-proxy's rules as last seen, and vipnat's own rules for these VIPs. Pure.
 */
export function findAffinity(
  family: Family,
  observation: Observation,
  vips: readonly Endpoint[],
  memory: ServiceState,
): number | null {
  const { api } = memory;
  // Only a Service that was heard has ClusterIPs.
  if (api !== null && Object.keys(api.clusterIps).length > 0) return api.affinitySeconds;
  const view = observation.views[family];
  const mode = observation.proxyMode.value;
  if (findProxyBackends(view, mode) !== null) return findProxyAffinity(view, mode);
  return recallFamily(memory, family).affinitySeconds ?? findWrittenAffinity(family, observation, vips);
}

/** The affinity of each family, kept for looks at which no source knows it. */
export function rememberAffinity(
  observation: Observation,
  vips: readonly Endpoint[],
  memory: ServiceState,
): ServiceState['affinity'] {
  return Object.fromEntries(
    families.map((family) => [family, findAffinity(family, observation, vips, memory)]),
  );
}

/** There is one Service: of VIPs that contradict each other the longest time is taken, in whatever order they are. */
function findWrittenAffinity(
  family: Family,
  observation: Observation,
  vips: readonly Endpoint[],
): number | null {
  const seconds = vips
    .filter((vip) => vip.family === family)
    .flatMap((vip) => findInstalled(vip, observation)?.affinitySeconds ?? []);
  return seconds.length === 0 ? null : Math.max(...seconds);
}
