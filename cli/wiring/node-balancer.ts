import { Balancer } from '../../balancer/process/balancer.ts';
import { NodeReporter } from '../../balancer/report/node-reporter.ts';
import { createHostSeats } from '../../balancer/seats/host-seats.ts';
import { SeatsLog } from '../../balancer/seats/seats-log.ts';
import { type SeatsState } from '../../balancer/seats/seats.ts';
import { type BalancerView } from '../../balancer/process/ports.ts';
import { systemClock } from '../../lib/control/clock.ts';
import { systemRandom } from '../../lib/control/random.ts';
import { createBalancerKernel } from '../../lib/kernel/real/balancer-tables.ts';
import { readAddresses } from '../../lib/kernel/netlink/addresses.ts';
import { RoutedClient } from '../../lib/kubernetes/object-client.ts';
import { type ApiRoute } from '../../lib/kubernetes/route.ts';
import { isAwaited } from '../../lib/services/awaited.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';

/** What a node's balancer is told. */
export interface NodeBalancerOptions {
  readonly route: ApiRoute;
  readonly logger: Logger;
  /** The name of this node, as the API has it. */
  readonly node: string;
  /** Of the node's Lease. */
  readonly namespace: string;
  /** What it shares with its keepalived. */
  readonly runDir: string;
}

/** Something that runs from `start` to `stop`. */
export interface Runnable {
  start(): void;
  stop(): Promise<void>;
}

/** The balancer of this host: its tables, its seats and what it says of both. */
export function createNodeBalancer({
  route,
  logger,
  node,
  namespace,
  runDir,
}: NodeBalancerOptions): Runnable {
  const common = { clock: systemClock, node };
  const ending = new AbortController();
  let view: BalancerView | null = null;
  let held: SeatsState = { held: [], inUse: [] };
  const reporter = new NodeReporter({
    ...common,
    client: new RoutedClient(route, systemClock, ending.signal),
    namespace,
    report: {
      notTaken: (words) => {
        logger.warn(`${words}. The controller does not know what this node has done; vipnat tries again`);
      },
      taken: () => {
        logger.info('the API takes what this node says again');
      },
    },
  });
  const say = () => {
    if (view === null) return;
    const { programmed, mode, virtualIps } = view;
    reporter.setAwaited(virtualIps.some(isAwaited));
    reporter.say({ programmed, mode, seats: held.held, inUse: held.inUse });
  };
  const seats = createHostSeats({
    ...common,
    runDir,
    report: new SeatsLog(logger),
    onState: (state) => {
      held = state;
      say();
    },
  });
  const balancer = new Balancer({
    ...common,
    route,
    logger,
    kernel: createBalancerKernel(),
    readAddresses,
    random: systemRandom,
    listener: {
      changed: (now) => {
        view = now;
        seats.update(now);
        seats.setServing(now.mode !== 'none');
        say();
      },
    },
  });
  return {
    start() {
      seats.start();
      reporter.start();
      balancer.start();
    },
    async stop() {
      await balancer.stop();
      await seats.stop();
      await reporter.stop({ isLeaving: false });
      ending.abort();
    },
  };
}
