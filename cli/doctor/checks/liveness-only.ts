import { type Check } from '../facts/check.ts';
import { given, lookAt } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';
import { nobodyKnown } from './nobody-known.ts';

/** Whether apiservers say nothing to probes but that they live: RKE2, k3s and hardened clusters forbid anonymous requests. */
export const livenessOnlyCheck: Check = {
  code: 'liveness-only',
  levels: ['warn'],
  meaning: 'An apiserver answers `GET /readyz` with 401 or 403, so vipnat cannot see whether it is ready.',
  find: findBlind,
};

function findBlind({ assessment }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], ({ health }) =>
    lookAt([...health], nobodyKnown, ([text, { livenessOnly }]) =>
      livenessOnly === undefined
        ? []
        : [
            {
              level: 'warn',
              title: `vipnat sees only whether ${text} lives: ${livenessOnly}`,
              why: 'An apiserver that shuts down, or has lost its etcd, still gets new connections.',
              remedy: [
                "# FILE: a kubeconfig whose user may read /readyz, with the CA that signed the apiservers' certificates. It prints ok:",
                '# kubectl --kubeconfig FILE get --raw /readyz',
                '# start the agent with the option --kubeconfig FILE',
              ],
            },
          ],
    ),
  );
}
