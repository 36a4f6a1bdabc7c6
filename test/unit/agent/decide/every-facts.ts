import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import type { Endpoint } from '../../../../lib/net.ts';
import type { Usable } from '../../../../agent/health/usable.ts';
import type { ProxyPath, VipFacts } from '../../../../agent/decide/decision.ts';
import { modes, proxyModes } from '../../../../config/options.ts';

const vip = toEndpoint('10.0.0.50:6443');
const three = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'].map(toEndpoint);

/** All eight sets of three apiservers. */
const sets: readonly (readonly Endpoint[])[] = Array.from({ length: 8 }, (_, bits) =>
  three.filter((_endpoint, index) => (bits & (1 << index)) !== 0),
);

/** Fail open is said only of somebody. */
const usables: readonly Usable[] = [
  ...sets.map((value) => ({ value, seenIn: 'kube-proxy', isFailOpen: false })),
  ...sets.slice(1).map((value) => ({ value, seenIn: 'kube-proxy', isFailOpen: true })),
];

interface PathFacts {
  readonly path: ProxyPath | null;
  readonly problem: string | null;
}

/** kube-proxy's path in one mode: none, none and why, one to any set, or one that leads back to the virtual IP. */
const paths: readonly PathFacts[] = [
  { path: null, problem: null },
  { path: null, problem: 'its hook is gone' },
  ...sets.map((backends) => ({
    path: { clusterIp: '10.96.0.1', backends, seenIn: 'the kernel' },
    problem: null,
  })),
  { path: { clusterIp: '10.96.0.1', backends: [vip], loop: vip, seenIn: 'the kernel' }, problem: null },
];

const wishes = [null, { value: '-j REJECT', seenIn: 'filter KUBE-SERVICES' }] as const;

/** Every combination of what a decision rests on, in a world of three apiservers. */
export function* listFacts(): Generator<VipFacts> {
  for (const mode of modes) {
    for (const proxyMode of proxyModes) {
      if (proxyMode === 'auto') continue;
      for (const closedSwitch of [null, 'net.ipv4.ip_forward']) {
        yield* listPaths({ mode, proxyMode: { value: proxyMode, seenIn: 'asked' }, closedSwitch });
      }
    }
  }
}

type Setting = Pick<VipFacts, 'mode' | 'proxyMode' | 'closedSwitch'>;

function* listPaths(setting: Setting): Generator<VipFacts> {
  for (const usable of usables) {
    for (const chain of paths) {
      for (const server of paths) {
        yield* listRest({
          vip,
          ...setting,
          usable,
          serviceChain: chain.path,
          serviceChainProblem: chain.problem,
          virtualServer: server.path,
          virtualServerProblem: server.problem,
        });
      }
    }
  }
}

type Rest = 'unwanted' | 'affinitySeconds' | 'apiSource' | 'agreedSyncs' | 'wasBypassing';

/** Every combination of what is left. */
const rests: readonly Pick<VipFacts, Rest>[] = wishes.flatMap((unwanted) =>
  [null, "the API's EndpointSlice"].flatMap((apiSource) =>
    [0, 1, 2].flatMap((agreedSyncs) =>
      [false, true].map((wasBypassing) => ({
        unwanted,
        affinitySeconds: 10_800,
        apiSource,
        agreedSyncs,
        wasBypassing,
      })),
    ),
  ),
);

function* listRest(before: Omit<VipFacts, Rest>): Generator<VipFacts> {
  for (const rest of rests) yield { ...before, ...rest };
}
