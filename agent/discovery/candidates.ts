import { type Endpoint } from '../../lib/address/endpoint.ts';
import { readWrittenBackends as readFromIptables } from '../../lib/netfilter/iptables/read-back.ts';
import { readWrittenBackends as readFromNft } from '../../lib/netfilter/nftables/read-back.ts';
import { type Config } from '../config/config.ts';
import { type Memory } from '../memory.ts';
import { findProxyBackends, type Observation } from '../observe.ts';
import { type Candidates, chooseEndpoints } from './endpoints.ts';

/** The apiservers that a VIP could be balanced over, whatever their health, and where they are known from. Pure. */
export function findCandidates(
  vip: Endpoint,
  observation: Observation,
  config: Config,
  memory: Memory,
): Candidates {
  const { rulesets, nftRulesets, backend, views, proxyMode } = observation;
  const { family } = vip;
  // Also the other backends': the choice may have changed since they were written.
  const written = [...rulesets, ...nftRulesets]
    .filter((seen) => seen.family === family)
    .toSorted((a, b) => Number(b.backend === backend.value) - Number(a.backend === backend.value))
    .map((seen) =>
      seen.backend === 'nftables'
        ? readFromNft(seen.table, vip)
        : readFromIptables(seen.tables.get('nat'), vip),
    );
  return chooseEndpoints({
    family,
    kubeProxy: findProxyBackends(views[family], proxyMode.value),
    configured: config.endpoints,
    remembered: memory.endpoints[family] ?? null,
    written: written.find((endpoints) => endpoints.length > 0) ?? [],
    vips: config.vips,
  });
}
