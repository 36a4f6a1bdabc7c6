import { type BalancerPorts, type BalancerView, Balancer } from '../../../balancer/sync.ts';
import type { BalancerKernel } from '../../../lib/kernel/kernel.ts';
import type { Random } from '../../../lib/clock.ts';
import type { NodeHealth, NodeWatch } from '../../../balancer/nodes/health.ts';
import { FakeBalancerKernel } from '../fakes/balancer-kernel.ts';
import { noOutages } from '../../../balancer/services/backends.ts';
import { maxDraining, listServices } from '../../../lib/api/node.ts';
import { NodeReporter, LeaseValidity, BalancerCounter } from '../../../balancer/report.ts';
import { createRenewalReader } from '../../../balancer/nodes/directory.ts';
import { electionLease } from '../../../lib/api/vipnat.ts';
import { RoutedClient } from '../../../lib/kubernetes/writes.ts';

interface BalancerLifeOptions
  extends
    Pick<BalancerPorts, 'route' | 'clock' | 'logger' | 'node'>,
    Partial<Pick<BalancerPorts, 'hasKubeProxy'>> {
  /** One of its own, in memory, unless given. */
  readonly kernel?: BalancerKernel;
  /** This host's addresses; one unless given. */
  readonly listAddresses?: () => readonly string[];
  /** The seats that it holds; none unless given. */
  readonly listSeats?: () => readonly string[];
  /** Zero unless given. */
  readonly random?: Random;
  /** Who asks other nodes whether they live, and how the balancer is told of it; nobody unless given. To be called with changes. */
  readonly createNodes?: (onChange: () => void) => LifeNodes;
  readonly onView?: (view: BalancerView) => void;
}

/** Who asks other nodes: as it is, and as the balancer has it. */
interface LifeNodes {
  readonly health: Pick<NodeHealth, 'unresponsive'>;
  readonly watch: NodeWatch;
}

interface BalancerLife {
  /** Says again what this node has done: its seats are others. */
  readonly report: () => void;
  readonly stop: () => Promise<void>;
}

/** A kernel in memory, with nothing but tables. */
export function toWholeKernel(kernel: FakeBalancerKernel): BalancerKernel {
  return {
    listTable: (table) => kernel.listTable(table),
    listOwnTable: () => Promise.resolve(''),
    readHandles: (name) => kernel.readHandles(name),
    countRules: () => Promise.resolve(0),
    apply: (script) => kernel.apply(script),
    check: (script) => kernel.check(script),
    listMissingFeatures: () => Promise.resolve(kernel.missing),
    listMemories: (name) => kernel.listMemories(name),
    changeElements: (changes) => kernel.changeElements(changes),
    forgetFlows: () => Promise.resolve([]),
    listForwardChains: () => Promise.resolve([]),
    readFilter: () => Promise.resolve(null),
    restore: () => Promise.resolve(),
    watchGeneration: () => ({ ready: Promise.resolve(), stop: () => Promise.resolve() }),
  };
}

/** Starts a balancer without a keepalived: it follows an API, keeps its kernel, and reports in the node's Lease, until it is stopped. */
export function startBalancerLife(options: BalancerLifeOptions): BalancerLife {
  const { route, clock, logger, node } = options;
  const { listAddresses = () => ['10.77.0.11'], kernel = toWholeKernel(new FakeBalancerKernel()) } = options;
  const { listSeats = () => [], random = () => 0 } = options;
  const ending = new AbortController();
  let view: BalancerView | null = null;
  const nodes = options.createNodes?.(() => {
    balancer.noteOutages();
    report();
  }) ?? { health: { unresponsive: [] }, watch: { outages: noOutages, watch: () => undefined } };
  const report = () => {
    if (view === null) return;
    const { programmed, mode, draining, awaited, left, dropping } = view;
    const seats = listSeats();
    reporter.setAwaited(awaited);
    reporter.report({
      ...{ programmed, mode, draining: draining.slice(0, maxDraining), seats, inUse: [] },
      // Its interfaces have addresses as soon as its tables do.
      ...{ addresses: listAddresses(), announced: programmed.virtualips ?? '0' },
      ...listServices({ left, dropping }),
      unresponsive: seats.length === 0 ? [] : nodes.health.unresponsive,
    });
  };
  const client = new RoutedClient(route, clock, ending.signal);
  const readRenewal = createRenewalReader(client, 'vipnat-system');
  const reporter: NodeReporter = new NodeReporter({
    ...{ clock, node, logger, client, namespace: 'vipnat-system' },
    onRenewed: (renewal) => {
      validity.renewed(renewal);
    },
  });
  const validity = new LeaseValidity({ clock, node, onNeeded: reporter.renew.bind(reporter) });
  const balancer: Balancer = new Balancer({
    ...{ route, clock, logger, kernel, node, validity, random },
    listStrictTunnels: () => Promise.resolve([]),
    findRouted: () => Promise.resolve([]),
    readElection: () => readRenewal(electionLease),
    hasKubeProxy: options.hasKubeProxy ?? (() => Promise.resolve(true)),
    readAddresses: () =>
      Promise.resolve(
        listAddresses().map((address) => ({ family: 'ipv4', address, device: 'eth0', prefixLength: 24 })),
      ),
    onView: (after) => {
      view = after;
      options.onView?.(after);
      report();
    },
    nodes: nodes.watch,
    observer: new BalancerCounter(() => undefined),
  });
  balancer.start();
  const stop = async () => {
    ending.abort();
    await Promise.all([balancer.stop(), reporter.stop()]);
  };
  return { report, stop };
}
