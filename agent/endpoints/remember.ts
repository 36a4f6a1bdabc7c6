import { families, type Family } from '../../lib/address/address.ts';
import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { type Sourced } from '../../lib/text/sourced.ts';
import { type Config } from '../../config/config.ts';
import { type ReconcileState } from '../observe/reconcile-state.ts';
import { recallFamily, type ServiceState } from '../observe/service-state.ts';
import { type Observation } from '../observe/observe.ts';
import { admit } from './admission.ts';
import { findLiveSources } from './candidates.ts';
import { rememberEndpoints, rememberPrevious } from './endpoints.ts';
import { listInstalled } from './installed.ts';

/** What a look rests on, but for health. */
interface Sight {
  readonly observation: Observation;
  readonly config: Config;
  readonly memory: ServiceState;
}

/** What a look leaves in memory of the apiservers that it heard of. Pure. */
export function rememberApiservers(
  sight: Sight,
): Pick<ServiceState, 'endpoints' | 'previousEndpoints' | 'proxyBesideApi'> {
  const endpoints = rememberAll(sight);
  return {
    endpoints,
    previousEndpoints: rememberAllPrevious(sight.memory, endpoints),
    proxyBesideApi: rememberProxy(sight),
  };
}

/** A memory without those who were taken from the lists on purpose: they are no fallback (docs/adr/0003). Pure. */
export function forgetRemoved(memory: ReconcileState, removed: ReadonlySet<string>): ReconcileState {
  const previousEndpoints = families.map((family) => {
    const kept = (memory.previousEndpoints[family] ?? []).filter(
      (endpoint) => !removed.has(formatEndpoint(endpoint)),
    );
    return [family, kept] as const;
  });
  return removed.size === 0
    ? memory
    : { ...memory, previousEndpoints: Object.fromEntries(previousEndpoints) };
}

/**
 * A memory without the Service's own virtual server, as soon as that is seen: while it was gone, rules of ours that lead to
 * it read like those to one apiserver, see `findInstalled`. Pure.
 */
export function forgetService(memory: ReconcileState, { views }: Pick<Observation, 'views'>): ReconcileState {
  const service = families.flatMap((family) => views[family].ipvs.server?.value ?? []);
  const isService = ({ address, port }: Endpoint) =>
    service.some((one) => one.clusterIp === address && one.port === port);
  const isKnown = families.some((family) =>
    [...(memory.endpoints[family]?.value ?? []), ...(memory.previousEndpoints[family] ?? [])].some(isService),
  );
  if (!isKnown) return memory;
  return {
    ...memory,
    endpoints: mapFamilies(memory.endpoints, (known) => ({
      ...known,
      value: known.value.filter((endpoint) => !isService(endpoint)),
    })),
    previousEndpoints: mapFamilies(memory.previousEndpoints, (known) =>
      known.filter((endpoint) => !isService(endpoint)),
    ),
  };
}

function mapFamilies<T>(
  familyTo: Readonly<Partial<Record<Family, T>>>,
  change: (one: T) => T,
): Partial<Record<Family, T>> {
  return Object.fromEntries(
    families.flatMap((family) => {
      const one = familyTo[family];
      return one === undefined ? [] : [[family, change(one)] as const];
    }),
  );
}

function rememberAll(sight: Sight): ServiceState['endpoints'] {
  const found = families.map((family) => {
    const { endpoints: remembered } = recallFamily(sight.memory, family);
    // Rules of ours shrink with every apiserver that dies: what they name is kept as it was first seen.
    const known = findNamed(family, sight) ?? (remembered === null ? findOwn(family, sight) : null);
    return [family, rememberEndpoints(remembered, known)] as const;
  });
  return Object.fromEntries(found.filter(([, endpoints]) => endpoints !== null));
}

function rememberAllPrevious(
  memory: ServiceState,
  endpoints: ServiceState['endpoints'],
): ServiceState['previousEndpoints'] {
  return Object.fromEntries(
    families.map((family) => {
      const known = recallFamily(memory, family);
      const [before, after] = [known.endpoints?.value ?? [], endpoints[family]?.value ?? []];
      return [family, rememberPrevious(known.previousEndpoints, before, after)];
    }),
  );
}

/** The apiservers that somebody else names now: the API, kube-proxy or `--endpoints`. Null when nobody names any. */
function findNamed(
  family: Family,
  { observation, config, memory }: Sight,
): Sourced<readonly Endpoint[]> | null {
  const { api, kubeProxy } = findLiveSources(family, { observation, config, memory });
  const admitted = [api, kubeProxy, { value: config.endpoints, seenIn: '--endpoints' }]
    .filter((source) => source !== null)
    .map((source) => ({ ...source, value: admit(source, family, config.vips).admitted }));
  return admitted.find(({ value }) => value.length > 0) ?? null;
}

/** Where rules of ours are the memory of an agent that is gone and left no other. */
function findOwn(family: Family, { observation, config }: Sight): Sourced<readonly Endpoint[]> {
  const source = { value: listInstalled(family, observation, config.vips), seenIn: "vipnat's own rules" };
  return { ...source, value: admit(source, family, config.vips).admitted };
}

/** Only while the API is heard: what kube-proxy hears afterwards is newer. */
function rememberProxy({ observation, config, memory }: Sight): ServiceState['proxyBesideApi'] {
  if (memory.api?.isCurrent !== true) return memory.proxyBesideApi;
  return Object.fromEntries(
    families.map((family) => [
      family,
      findLiveSources(family, { observation, config, memory }).kubeProxy?.value ?? [],
    ]),
  );
}
