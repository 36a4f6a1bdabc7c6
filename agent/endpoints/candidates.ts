import { type Family } from '../../lib/address/address.ts';
import { areSameEndpoints, type Endpoint } from '../../lib/address/endpoint.ts';
import { type Config } from '../../config/config.ts';
import { recallFamily, type ServiceState } from '../observe/service-state.ts';
import { findProxyBackends, type Observation } from '../observe/observe.ts';
import { admit } from './admission.ts';
import { type Candidates, chooseEndpoints, type LiveSources } from './endpoints.ts';
import { listInstalled } from './installed.ts';

/** A VIP, and the apiservers that it could be balanced over, whatever their health. */
export interface VipCandidates {
  readonly vip: Endpoint;
  readonly candidates: Candidates;
}

/** The candidates of each VIP of the configuration, in its order: VIPs of one family have the same. Pure. */
export function findCandidates(
  observation: Observation,
  memory: ServiceState,
  config: Config,
): VipCandidates[] {
  const input = { observation, memory, config };
  const ofFamily = new Map<Family, Candidates>();
  return config.vips.map((vip) => {
    // Reading back the rules of 200 VIPs once for each of them takes seconds.
    const candidates = ofFamily.get(vip.family) ?? findCandidatesOf(vip.family, input);
    ofFamily.set(vip.family, candidates);
    return { vip, candidates };
  });
}

/** What the sources of a family are found in. */
export interface CandidateInput {
  readonly observation: Observation;
  readonly memory: ServiceState;
  readonly config: Config;
}

function findCandidatesOf(family: Family, { observation, memory, config }: CandidateInput): Candidates {
  const { endpoints, previousEndpoints } = recallFamily(memory, family);
  return chooseEndpoints({
    ...findLiveSources(family, { observation, memory, config }),
    family,
    configured: config.endpoints,
    remembered: endpoints,
    previousEndpoints,
    installed: listInstalled(family, observation, config.vips),
    vips: config.vips,
    addresses: observation.addresses,
  });
}

/**
 * What the API and kube-proxy say of a family. Rules that kube-proxy left behind say nothing if `--endpoints` names apiservers (docs/adr/0034). While the API is lost its word stays (I10), until kube-proxy has heard
 * something else since: kube-proxy has found an apiserver that answers. Pure.
 */
export function findLiveSources(
  family: Family,
  {
    observation,
    memory,
    config,
  }: Pick<CandidateInput, 'observation' | 'memory'> & {
    readonly config: Pick<Config, 'endpoints' | 'vips'>;
  },
): LiveSources {
  const isLeftOver = observation.isProxyAbsent === true && hasConfigured(family, config);
  const kubeProxy = isLeftOver
    ? null
    : findProxyBackends(observation.views[family], observation.proxyMode.value);
  const api = memory.api?.endpoints[family] ?? null;
  if (memory.api?.isCurrent !== false) return { api, kubeProxy };
  const { proxyBesideApi: before } = recallFamily(memory, family);
  const isNewer =
    kubeProxy !== null && kubeProxy.value.length > 0 && !areSameEndpoints(before, kubeProxy.value);
  return { api: isNewer ? null : api, kubeProxy };
}

function hasConfigured(family: Family, { endpoints, vips }: Pick<Config, 'endpoints' | 'vips'>): boolean {
  return admit({ value: endpoints, seenIn: '--endpoints' }, family, vips).admitted.length > 0;
}
