import { type Family } from '../../lib/address/address.ts';
import { type Endpoint, formatEndpoint, sortEndpoints } from '../../lib/address/endpoint.ts';
import { type InstalledBalance } from '../../lib/netfilter/rules/balance.ts';
import { readApiservers, readInstalled as readFromIptables } from '../../lib/netfilter/iptables/read-back.ts';
import {
  readApiservers as readNftApiservers,
  readInstalled as readFromNft,
} from '../../lib/netfilter/nftables/read-back.ts';
import { type Observation } from '../observe/observe.ts';

/** What rules of ours do with a VIP, by an agent that may be gone: those that packets get to come first. Pure. */
export function findInstalled(
  vip: Endpoint,
  {
    rulesets,
    nftRulesets,
    dialect,
    views,
  }: Pick<Observation, 'rulesets' | 'nftRulesets' | 'dialect' | 'views'>,
): InstalledBalance | null {
  const service = views[vip.family].ipvs.server?.value;
  // Also the other dialects': the choice may have changed since they were written.
  const written = [...rulesets, ...nftRulesets]
    .filter((seen) => seen.family === vip.family)
    .toSorted((a, b) => Number(b.dialect === dialect.value) - Number(a.dialect === dialect.value))
    .map((seen) =>
      seen.dialect === 'nftables'
        ? readFromNft(seen.table, vip)
        : readFromIptables(seen.tables.get('nat'), vip),
    );
  const found = written.find((one) => one !== null) ?? null;
  // Rules of the way cluster-ip read like those to one apiserver, and the Service's virtual server is none.
  const isService = ({ address, port }: Endpoint) => address === service?.clusterIp && port === service.port;
  return found === null || found.backends.some(isService) ? null : found;
}

/** The apiservers of a family whose replies rules of ours are about, of the dialect that rules are written to or else of another. Pure. */
export function listAnswering(
  family: Family,
  { rulesets, nftRulesets, dialect }: Pick<Observation, 'rulesets' | 'nftRulesets' | 'dialect'>,
): readonly Endpoint[] {
  const found = [...rulesets, ...nftRulesets]
    .filter((seen) => seen.family === family)
    .toSorted((a, b) => Number(b.dialect === dialect.value) - Number(a.dialect === dialect.value))
    .map((seen) =>
      seen.dialect === 'nftables'
        ? readNftApiservers(family, seen.table)
        : readApiservers(seen.tables.get('filter')),
    );
  return found.find((one) => one.length > 0) ?? [];
}

/** The apiservers that rules of ours send connections to, whichever of these VIPs they are for, sorted. Pure. */
export function listInstalled(
  family: Family,
  observation: Pick<Observation, 'rulesets' | 'nftRulesets' | 'dialect' | 'views'>,
  vips: readonly Endpoint[],
): Endpoint[] {
  const written = vips
    .filter((vip) => vip.family === family)
    .flatMap((vip) => findInstalled(vip, observation)?.backends ?? []);
  return sortEndpoints([
    ...new Map(written.map((endpoint) => [formatEndpoint(endpoint), endpoint])).values(),
  ]);
}
