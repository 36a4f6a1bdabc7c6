import type { Random } from '../../../support/random/random.ts';
import { type Family, type Endpoint, sortEndpoints } from '../../../../lib/net.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import type { TableBalance } from '../../../../lib/nft/vip-rules.ts';

export function makeEndpoint(random: Random, family: Family): Endpoint {
  const port = 1 + random.below(65_535);
  if (family === 'ipv4')
    return toEndpoint(`10.${random.below(256)}.${random.below(256)}.${random.below(256)}:${port}`);
  const groups = Array.from({ length: 7 }, () =>
    random.chance(40) ? '0' : random.below(65_536).toString(16),
  );
  return toEndpoint(`[fd00:${groups.join(':')}]:${port}`);
}

/** Up to three VIPs, each over up to five backends. */
export function makeTableBalances(random: Random, family: Family): TableBalance[] {
  const vips = sortEndpoints(random.list(3, () => makeEndpoint(random, family)));
  return vips.map((vip) => {
    const backends = sortEndpoints(random.list(5, () => makeEndpoint(random, family)));
    const affinitySeconds = random.chance(40) && backends.length > 0 ? 1 + random.below(86_400) : null;
    const method = random.pick(['random', 'rr', 'hash'] as const);
    return { vip, backends, method, affinitySeconds, masquerade: 'own' };
  });
}
