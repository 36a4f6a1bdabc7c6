import { type Clock } from '../../lib/control/clock.ts';
import { RoutedClient } from '../../lib/kubernetes/object-client.ts';
import { createLister } from '../../lib/kubernetes/object-lister.ts';
import { type ApiRoute } from '../../lib/kubernetes/route.ts';
import { formatDrained, readDrained } from '../../lib/services/drained.ts';
import { poolAnnotations } from '../../lib/services/names.ts';
import { toLeaseResource } from '../../lib/services/node-report.ts';
import { addressPools, virtualIps } from '../../lib/services/objects.ts';
import { type ErrorCode, VipnatError } from '../../lib/text/errors.ts';
import { type SeatsApi } from './move-seats.ts';
import { viewSeats } from './view-seats.ts';

/** What is needed of the API. */
export interface ApiSeatsOptions {
  readonly route: ApiRoute;
  readonly clock: Clock;
  /** Where the balancers have their Leases. */
  readonly namespace: string;
}

const limitMs = 5000;

/** Of several writers each has its turn. */
const maxTries = 5;

/** The seats of a cluster, by its API. Each call asks it anew. */
export function createSeatsApi({ route, clock, namespace }: ApiSeatsOptions): SeatsApi {
  const { signal } = new AbortController();
  const client = new RoutedClient(route, clock, signal);

  const list = createLister(route, clock, signal);

  return {
    async view() {
      const [pools, addresses, leases] = [
        await list(addressPools),
        await list(virtualIps),
        await list(toLeaseResource(namespace)),
      ];
      return viewSeats({ pools, virtualIps: addresses, leases }, clock.date().getTime());
    },
    async drain(name, change) {
      let [words, code]: [string, ErrorCode] = ['', 'API_ANSWER_UNEXPECTED'];
      for (let tries = 0; tries < maxTries; tries += 1) {
        const pool = (await list(addressPools)).find(({ metadata }) => metadata.name === name);
        if (pool === undefined) return;
        const before = readDrained(pool);
        const text = formatDrained(change(before));
        if (text === formatDrained(before)) return;
        const { resourceVersion } = pool.metadata;
        const metadata = { resourceVersion, annotations: { [poolAnnotations.drained]: text } };
        const title = `changing AddressPool ${name}`;
        const write = {
          title,
          method: 'PATCH',
          path: `${addressPools.path}/${name}`,
          body: { metadata },
        } as const;
        const answer = await client.write(write, limitMs);
        if (answer.outcome === 'taken') return;
        words = answer.words;
        if (answer.outcome === 'forbidden') code = 'API_FORBIDDEN';
        if (answer.outcome !== 'conflict') break;
      }
      throw new VipnatError(code, words);
    },
  };
}
