import { NodeHealth } from './node-health.ts';
import { NodeLog } from './node-log.ts';
import { parseAddress } from '../../lib/address/address.ts';
import { systemClock } from '../../lib/control/clock.ts';
import { systemRandom } from '../../lib/control/random.ts';
import { createLister } from '../../lib/kubernetes/object-lister.ts';
import { RoutedClient } from '../../lib/kubernetes/object-client.ts';
import { type ApiRoute } from '../../lib/kubernetes/route.ts';
import { connectOnce } from '../../lib/probe/connect.ts';
import { createRenewalReader } from './renewal-reader.ts';
import { toLeaseResource } from '../../lib/services/node-report.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';

/** What it needs of its balancer. */
export interface NodeHealthOptions {
  readonly route: ApiRoute;
  readonly logger: Logger;
  readonly node: string;
  /** Of the Leases. */
  readonly namespace: string;
  /** Where nodes are asked; 0 asks nobody. */
  readonly probePort: number;
  /** Ends what is under way at the API. */
  readonly signal: AbortSignal;
  /** At which other nodes reach this one. */
  readonly listAddresses: () => readonly string[];
  readonly onChange: () => void;
}

/** Asks the other nodes of this host's cluster, over its network. */
export function createNodeHealth(options: NodeHealthOptions): NodeHealth {
  const { route, logger, node, namespace, probePort: port, signal, listAddresses, onChange } = options;
  const list = createLister(route, systemClock, signal);
  return new NodeHealth({
    ...{ clock: systemClock, random: systemRandom, node, port, onChange },
    report: new NodeLog(logger, port),
    listLeases: () => list(toLeaseResource(namespace)),
    readRenewal: createRenewalReader(new RoutedClient(route, systemClock, signal), namespace),
    families: () => new Set(listAddresses().flatMap((text) => parseAddress(text)?.family ?? [])),
    // Hundreds a second would leave as many ports in TIME_WAIT. kube-proxy does not log a reset.
    connect: (endpoint, limitMs) => connectOnce(systemClock, endpoint, { limitMs, end: 'reset' }),
  });
}
