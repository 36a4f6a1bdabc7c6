import { families, type Family } from '../lib/address/address.ts';
import { type Memory } from './memory.ts';
import { findProxyAffinity, findProxyBackends, type Observation } from './observe.ts';

/**
 * For how many seconds the Service keeps a client with its apiserver, null for not at all: as the API says, or
 * kube-proxy has it, or had it when it last had rules for the service. Pure.
 */
export function findAffinity(
  family: Family,
  { views, proxyMode }: Observation,
  { api, affinity }: Memory,
): number | null {
  // Only a Service that was heard has ClusterIPs.
  if (api !== null && Object.keys(api.clusterIps).length > 0) return api.affinitySeconds;
  const hasRules = findProxyBackends(views[family], proxyMode.value) !== null;
  return hasRules ? findProxyAffinity(views[family], proxyMode.value) : (affinity[family] ?? null);
}

/** The same for each family, for the time when nobody says it any more. */
export function rememberAffinity(observation: Observation, memory: Memory): Memory['affinity'] {
  return Object.fromEntries(families.map((family) => [family, findAffinity(family, observation, memory)]));
}
