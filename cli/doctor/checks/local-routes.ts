import { findLocalClientWarnings } from '../../../agent/decide/local-client-warnings.ts';
import { type Check } from '../facts/check.ts';
import { given, lookAtHost } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';

/** The routes by which this host's own connections to a VIP outlive its move. */
export const localRouteChecks: readonly Check[] = [{ code: 'vip-route-left-over', find: findLeftOver }];

/** Said beside an agent too: it removes such routes within a moment, so one that is seen stays. */
function findLeftOver({ assessment }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], (seen) => {
    if (seen.localRoutes === null) return { unknown: 'the routes of table local cannot be read' };
    return lookAtHost(() =>
      findLocalClientWarnings(seen, false).map(({ text, command }) => ({
        level: 'warn',
        title: text,
        why: 'Other hosts may take this one for the holder: Linux answers ARP for whatever it has a local route of.',
        remedy: command === null ? [] : [command],
      })),
    );
  });
}
