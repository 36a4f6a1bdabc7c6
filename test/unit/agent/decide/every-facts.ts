import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import type { VipFacts } from '../../../../agent/decide/decision.ts';
import { modes, proxyModes } from '../../../../config/options.ts';

const vip = toEndpoint('10.0.0.50:6443');
const three = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'].map(toEndpoint);

const sets = Array.from({ length: 8 }, (_, bits) =>
  three.filter((_endpoint, index) => (bits & (1 << index)) !== 0),
);

/** Fail open is said only of somebody. */
const usables = [
  ...sets.map((value) => ({ value, seenIn: 'kube-proxy', isFailOpen: false })),
  ...sets.slice(1).map((value) => ({ value, seenIn: 'kube-proxy', isFailOpen: true })),
];

/** kube-proxy's path in one mode: none, none and why, one to any set, or one that leads back to the virtual IP. */
const paths = [
  { path: null, problem: null },
  { path: null, problem: 'its hook is gone' },
  ...[...sets.map((backends) => ({ backends })), { backends: [vip], loop: vip }].map((more) => ({
    path: { clusterIp: '10.96.0.1', seenIn: 'the kernel', ...more },
    problem: null,
  })),
];

/** Every combination of one of each list. */
const combine = (...lists: readonly (readonly Partial<VipFacts>[])[]): readonly Partial<VipFacts>[] =>
  lists.reduce((all, list) => all.flatMap((one) => list.map((other) => ({ ...one, ...other }))), [{}]);

const settings = combine(
  modes.map((mode) => ({ mode })),
  proxyModes.flatMap((value) => (value === 'auto' ? [] : [{ proxyMode: { value, seenIn: 'asked' } }])),
  [null, 'net.ipv4.ip_forward'].map((closedSwitch) => ({ closedSwitch })),
);
const ways = combine(
  usables.map((usable) => ({ usable })),
  paths.map(({ path, problem }) => ({ serviceChain: path, serviceChainProblem: problem })),
  paths.map(({ path, problem }) => ({ virtualServer: path, virtualServerProblem: problem })),
);
const rests = combine(
  [null, { value: '-j REJECT', seenIn: 'filter KUBE-SERVICES' }].map((unwanted) => ({ unwanted })),
  [null, "the API's EndpointSlice"].map((apiSource) => ({ apiSource })),
  [0, 1, 2].map((agreedSyncs) => ({ agreedSyncs })),
  [false, true].map((wasBypassing) => ({ wasBypassing })),
);

/** Every combination of what a decision rests on, in a world of three apiservers. */
export function* listFacts(): Generator<VipFacts> {
  for (const setting of settings)
    for (const way of ways)
      for (const rest of rests)
        yield { vip, affinitySeconds: 10_800, ...setting, ...way, ...rest } as VipFacts;
}
