import { Balancer } from '../../../balancer/process/balancer.ts';
import { type BalancerPorts, type BalancerView } from '../../../balancer/process/ports.ts';
import { BalancerCounter } from '../../../balancer/report/balancer-counts.ts';
import { NodeReporter } from '../../../balancer/report/node-reporter.ts';
import { Standing } from '../../../balancer/report/standing.ts';
import { type BalancerKernel } from '../../../lib/kernel/real/balancer-tables.ts';
import { RoutedClient } from '../../../lib/kubernetes/object-client.ts';
import { FakeBalancerKernel } from '../fakes/balancer-kernel.ts';

/** What differs from life to life. */
export interface BalancerLifeOptions extends Pick<BalancerPorts, 'route' | 'clock' | 'logger' | 'node'> {
  /** One of its own, in memory, unless given. */
  readonly kernel?: BalancerKernel;
  /** This host's addresses; one unless given. */
  readonly listAddresses?: () => readonly string[];
  readonly onView?: (view: BalancerView) => void;
}

/** A kernel in memory, with nothing but tables. */
export function toWholeKernel(kernel: FakeBalancerKernel): BalancerKernel {
  return {
    listTable: (table) => kernel.listTable(table),
    readHandles: (name) => kernel.readHandles(name),
    countRules: () => Promise.resolve(0),
    apply: (script) => kernel.apply(script),
    changeElements: (changes) => kernel.changeElements(changes),
    forgetFlows: () => Promise.resolve([]),
    listForwardChains: () => Promise.resolve([]),
    readFilter: () => Promise.resolve(null),
    restore: () => Promise.resolve(),
    watchGeneration: () => ({ ready: Promise.resolve(), stop: () => Promise.resolve() }),
  };
}

/** Starts a balancer without seats: it follows an API, keeps its kernel, and reports in the node's Lease, until it is stopped. */
export function startBalancerLife(options: BalancerLifeOptions): { stop: () => Promise<void> } {
  const { route, clock, logger, node } = options;
  const { listAddresses = () => ['10.77.0.11'], kernel = toWholeKernel(new FakeBalancerKernel()) } = options;
  const ending = new AbortController();
  const reporter: NodeReporter = new NodeReporter({
    ...{ clock, node, namespace: 'vipnat-system' },
    client: new RoutedClient(route, clock, ending.signal),
    onRenewed: (renewal) => {
      standing.renewed(renewal);
    },
    report: {
      notTaken: (words) => {
        logger.warn(words);
      },
      taken: () => undefined,
    },
  });
  const onNeeded = () => {
    reporter.renew();
  };
  const standing = new Standing({ clock, node, onNeeded });
  const balancer = new Balancer({
    ...{ route, clock, logger, kernel, node, standing, random: () => 0 },
    readAddresses: () =>
      Promise.resolve(
        listAddresses().map((address) => ({ family: 'ipv4', address, device: 'eth0', prefixLength: 24 })),
      ),
    listener: {
      changed: (view) => {
        options.onView?.(view);
        const { programmed, mode } = view;
        reporter.say({ programmed, mode, seats: [], inUse: [] });
      },
    },
    observer: new BalancerCounter(() => undefined),
  });
  reporter.start();
  balancer.start();
  const stop = async () => {
    ending.abort();
    await Promise.all([balancer.stop(), reporter.stop({ isLeaving: false })]);
  };
  return { stop };
}
