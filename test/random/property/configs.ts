import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { fc } from '../../support/random/fc.ts';
import {
  type Config,
  modes,
  proxyModes,
  iptablesChoices,
  masquerades,
  type BalancingMode,
} from '../../../config/options.ts';
import { ordinaryConfig } from '../../support/agent/running-agent.ts';
import { clusterIps } from '../../support/kube-proxy/in-memory.ts';
import type { Balance, Route } from '../../../lib/dialect.ts';
import { serviceChain } from '../../../lib/kube-proxy/read.ts';

/** The VIPs that a configuration can have. */
export const vips = [
  '10.0.0.50:6443',
  '10.0.0.50:8443',
  '172.16.64.58:6443',
  '[fd00::50]:6443',
  '[fd00::51]:6443',
].map(toEndpoint);

/** The apiservers of the test cluster, three of each family. */
export const apiservers = [11, 12, 13].flatMap((host) =>
  [`10.77.0.${host}:6443`, `[fd00:77::${host}]:6443`].map(toEndpoint),
);

/** Any configuration that the loader can answer: at least one VIP, all else for the families of the VIPs. */
export const config: fc.Arbitrary<Config> = fc
  .record({
    vips: fc.subarray(vips, { minLength: 1 }),
    mode: fc.oneof({ weight: 3, arbitrary: fc.constant('auto' as const) }, fc.constantFrom(...modes)),
    proxyMode: fc.oneof(
      { weight: 3, arbitrary: fc.constant('auto' as const) },
      fc.constantFrom(...proxyModes),
    ),
    iptables: fc.oneof(
      { weight: 2, arbitrary: fc.constant('auto' as const) },
      fc.constantFrom(...iptablesChoices),
    ),
    isClusterIpGiven: fc.boolean(),
    endpoints: fc.oneof(fc.constant<typeof apiservers>([]), fc.subarray(apiservers, { minLength: 1 })),
    masquerade: fc.constantFrom(...masquerades),
  })
  .map(({ isClusterIpGiven, ...rest }) => {
    const hasVip = (family: string) => rest.vips.some((vip) => vip.family === family);
    return {
      ...ordinaryConfig,
      ...rest,
      endpoints: rest.endpoints.filter(({ family }) => hasVip(family)),
      clusterIps: Object.fromEntries(
        Object.entries(clusterIps).filter(([family]) => isClusterIpGiven && hasVip(family)),
      ),
    };
  });

/** Any balance: what some agent could once have wanted. */
export const balance: fc.Arbitrary<Balance> = fc
  .record({
    vip: fc.constantFrom(...vips),
    mode: fc.constantFrom('service-chain', 'cluster-ip', 'direct', 'passthrough'),
    backends: fc.subarray(apiservers, { minLength: 1 }),
    masquerade: fc.constantFrom(...masquerades),
    affinitySeconds: fc.constantFrom(null, 60, 10_800),
  })
  .map(({ vip, mode, backends, masquerade, affinitySeconds }) => ({
    vip,
    masquerade,
    route: toRoute(mode, vip.family, {
      backends: backends.filter(({ family }) => family === vip.family),
      affinitySeconds,
    }),
  }));

export const balances = fc.uniqueArray(balance, {
  selector: ({ vip }) => `${vip.address} ${vip.port}`,
  maxLength: 3,
});

type Translation = Pick<Extract<Route, { kind: 'translate' }>, 'backends' | 'affinitySeconds'>;

function toRoute(mode: BalancingMode, family: keyof typeof clusterIps, direct: Translation): Route {
  if (mode === 'service-chain') return { kind: 'jump', chain: serviceChain };
  if (mode === 'cluster-ip')
    return { kind: 'translate', backends: [{ family, address: clusterIps[family], port: 443 }] };
  return mode === 'direct' && direct.backends.length > 0
    ? { kind: 'translate', ...direct }
    : { kind: 'translate', backends: [] };
}
