import { formatAge } from '../../../lib/text/age.ts';
import { type Check } from '../facts/check.ts';
import { given, lookAtHost } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';

/** What the API says of the webhook. To be asked only where Services are used. */
export const webhookChecks: readonly Check[] = [
  {
    code: 'webhook-not-trusted',
    levels: ['warn'],
    meaning:
      'API servers trust no certificate of the webhook that gives pods their gate, or it ends within two months.',
    find: findUntrusted,
  },
];

/** Four months after it should have been renewed, and two before it ends. */
const soonMs = 60 * 86_400_000;

function findUntrusted({ services: { webhook } }: HostFacts): ReturnType<Check['find']> {
  return given([webhook], (facts) => {
    if (facts === null) return { notHere: 'the cluster has no webhook of vipnat' };
    const { leftMs } = facts;
    return lookAtHost(() =>
      leftMs !== null && leftMs > soonMs
        ? []
        : [
            {
              level: 'warn',
              title: `the certificate of the webhook ${describe(leftMs)}`,
              why: 'The controller that leads makes and renews it. Without it, new pods get no readiness gate.',
              remedy: [
                '# see whether a controller leads: vipnat services',
                '# see whether it may write: kubectl -n vipnat-system logs -l app.kubernetes.io/name=vipnat-controller --tail 50 --prefix',
                '# a controller without --webhook-port makes none. Add this to your options, and apply the manifest again: vipnat manifest services --inject-gates=webhook',
              ],
            },
          ],
    );
  });
}

function describe(leftMs: number | null): string {
  if (leftMs === null) return 'is not known to API servers';
  return leftMs < 0 ? `ended ${formatAge(-leftMs)} ago` : `ends in ${formatAge(leftMs)}`;
}
