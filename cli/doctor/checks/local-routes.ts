import { findLocalClientWarnings } from '../../findings/local-client-warnings.ts';
import { type Check } from '../facts/check.ts';
import { given, lookAtHost } from '../facts/fact.ts';
import { type HostFacts } from '../facts/host-facts.ts';

/** The routes by which this host's own connections to a VIP outlive its move. */
export const localRouteChecks: readonly Check[] = [
  {
    code: 'vip-route-left-over',
    levels: ['warn'],
    meaning: 'A killed agent left its local route of a VIP behind, and the VIP is on another host.',
    find: findLeftOver,
  },
];

/** Said beside an agent too: it removes such routes within a moment, so one that is seen stays. */
function findLeftOver({ assessment }: HostFacts): ReturnType<Check['find']> {
  return given([assessment], (seen) => {
    if (seen.localRoutes === null) return { unknown: 'the routes of table local cannot be read' };
    return lookAtHost(() =>
      findLocalClientWarnings(seen, false).map(({ text, command }) => ({
        level: 'warn',
        title: text,
        why: 'Linux answers ARP for every address with a local route. Other hosts may treat this host as the VIP holder.',
        remedy: command === null ? [] : [command],
      })),
    );
  });
}
