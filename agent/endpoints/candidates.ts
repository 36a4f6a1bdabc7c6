import { type Family } from '../../lib/address/address.ts';
import { areSameEndpoints, type Endpoint } from '../../lib/address/endpoint.ts';
import { type Config } from '../../config/config.ts';
import { type ReconcileState } from '../observe/reconcile-state.ts';
import { findProxyBackends, type Observation } from '../observe/observe.ts';
import { type Candidates, chooseEndpoints, type LiveSources } from './endpoints.ts';
import { listInstalled } from './installed.ts';

/** The apiservers that a VIP could be balanced over, whatever their health, and where they are known from. Pure. */
export function findCandidates(
  vip: Endpoint,
  observation: Observation,
  config: Config,
  memory: ReconcileState,
): Candidates {
  const { family } = vip;
  return chooseEndpoints({
    ...findLiveSources(family, observation, memory),
    family,
    configured: config.endpoints,
    remembered: memory.endpoints[family] ?? null,
    previousEndpoints: memory.previousEndpoints[family] ?? [],
    installed: listInstalled(family, observation, config.vips),
    vips: config.vips,
    addresses: observation.addresses,
  });
}

/**
 * What the API and kube-proxy say of a family. While the API is lost its word stays (I10), until kube-proxy has heard
 * something else since: kube-proxy has found an apiserver that answers. Pure.
 */
export function findLiveSources(
  family: Family,
  observation: Observation,
  memory: ReconcileState,
): LiveSources {
  const kubeProxy = findProxyBackends(observation.views[family], observation.proxyMode.value);
  const api = memory.api?.endpoints[family] ?? null;
  if (memory.api?.isCurrent !== false) return { api, kubeProxy };
  const before = memory.proxyBesideApi[family] ?? [];
  const isNewer =
    kubeProxy !== null && kubeProxy.value.length > 0 && !areSameEndpoints(before, kubeProxy.value);
  return { api: isNewer ? null : api, kubeProxy };
}
