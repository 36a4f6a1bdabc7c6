import { families, type Family } from '../../lib/address/address.ts';
import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { type Finding } from '../../lib/text/sourced.ts';
import { type Config } from '../../config/config.ts';
import { type Memory } from '../observe/memory.ts';
import { type Observation } from '../observe/observe.ts';
import { admit } from './admission.ts';
import { findLiveSources } from './candidates.ts';
import { rememberEndpoints, rememberFormer } from './endpoints.ts';
import { listWritten } from './installed.ts';

/** What a look rests on, but for health. */
interface Sight {
  readonly observation: Observation;
  readonly config: Config;
  readonly memory: Memory;
}

/** What a look leaves in memory of the apiservers that it heard of. Pure. */
export function rememberApiservers(sight: Sight): Pick<Memory, 'endpoints' | 'former' | 'proxyBesideApi'> {
  const endpoints = rememberAll(sight);
  return {
    endpoints,
    former: rememberAllFormer(sight.memory, endpoints),
    proxyBesideApi: rememberProxy(sight),
  };
}

/** A memory without those who were taken from the lists on purpose: they are no fallback (docs/adr/0003). Pure. */
export function forgetRemoved(memory: Memory, removed: ReadonlySet<string>): Memory {
  const former = families.map((family) => {
    const kept = (memory.former[family] ?? []).filter((endpoint) => !removed.has(formatEndpoint(endpoint)));
    return [family, kept] as const;
  });
  return removed.size === 0 ? memory : { ...memory, former: Object.fromEntries(former) };
}

function rememberAll(sight: Sight): Memory['endpoints'] {
  const found = families.map((family) => {
    const remembered = sight.memory.endpoints[family] ?? null;
    // Rules of ours shrink with every apiserver that dies: what they name is kept as it was first seen.
    const known = findNamed(family, sight) ?? (remembered === null ? findOwn(family, sight) : null);
    return [family, rememberEndpoints(remembered, known)] as const;
  });
  return Object.fromEntries(found.filter(([, endpoints]) => endpoints !== null));
}

function rememberAllFormer(memory: Memory, endpoints: Memory['endpoints']): Memory['former'] {
  return Object.fromEntries(
    families.map((family) => {
      const [before, after] = [memory.endpoints[family]?.value ?? [], endpoints[family]?.value ?? []];
      return [family, rememberFormer(memory.former[family] ?? [], before, after)];
    }),
  );
}

/** The apiservers that somebody else names now: the API, kube-proxy or `--endpoints`. Null when nobody names any. */
function findNamed(
  family: Family,
  { observation, config, memory }: Sight,
): Finding<readonly Endpoint[]> | null {
  const { api, kubeProxy } = findLiveSources(family, observation, memory);
  const admitted = [api, kubeProxy, { value: config.endpoints, seenIn: '--endpoints' }]
    .filter((source) => source !== null)
    .map((source) => ({ ...source, value: admit(source, family, config.vips).admitted }));
  return admitted.find(({ value }) => value.length > 0) ?? null;
}

/** Where rules of ours are the memory of an agent that is gone and left no other. */
function findOwn(family: Family, { observation, config }: Sight): Finding<readonly Endpoint[]> {
  const source = { value: listWritten(family, observation, config.vips), seenIn: 'our own rules' };
  return { ...source, value: admit(source, family, config.vips).admitted };
}

/** Only while the API is heard: what kube-proxy hears afterwards is newer. */
function rememberProxy({ observation, memory }: Sight): Memory['proxyBesideApi'] {
  if (memory.api?.isCurrent !== true) return memory.proxyBesideApi;
  return Object.fromEntries(
    families.map((family) => [family, findLiveSources(family, observation, memory).kubeProxy?.value ?? []]),
  );
}
