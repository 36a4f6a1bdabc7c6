import { setFlagsFromString } from 'node:v8';
import { Balancer } from '../../balancer/process/balancer.ts';
import { type BalancerView } from '../../balancer/process/ports.ts';
import { type NodeHealth } from '../../balancer/nodes/node-health.ts';
import { ApiVips } from '../../balancer/report/api-vips.ts';
import { BalancerCounter } from '../../balancer/report/balancer-counts.ts';
import { NodeReporter } from '../../balancer/report/node-reporter.ts';
import { Standing } from '../../balancer/report/standing.ts';
import { type BalancerState } from '../../balancer/report/state.ts';
import { createHostSeats } from '../../balancer/seats/host-seats.ts';
import { type SeatsInput } from '../../balancer/seats/plan-seats.ts';
import { SeatsLog } from '../../balancer/seats/seats-log.ts';
import { type Seats, type SeatsState } from '../../balancer/seats/seats.ts';
import { systemClock } from '../../lib/control/clock.ts';
import { systemRandom } from '../../lib/control/random.ts';
import { createBalancerKernel } from '../../lib/kernel/real/balancer-tables.ts';
import { readPlacedAddresses } from '../../lib/kernel/netlink/addresses.ts';
import { findRouted } from '../../lib/kernel/netlink/next-hops.ts';
import { listStrictTunnels } from '../../lib/kernel/real/strict-tunnels.ts';
import { listUntranslatedProtocols } from '../../lib/kernel/host/protocols.ts';
import { RoutedClient } from '../../lib/kubernetes/object-client.ts';
import { type ApiRoute } from '../../lib/kubernetes/route.ts';
import { listServices, maxDraining } from '../../lib/services/node-report.ts';
import { isAwaited } from '../../lib/services/awaited.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { NodeAddresses } from './node-addresses.ts';
import { createNodeHealth } from './node-health.ts';

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
  /** At which other nodes reach this one; empty to find out. */
  readonly nodeAddresses: readonly string[];
  /** Where other nodes are asked whether they live; 0 asks nobody. */
  readonly probePort: number;
  /** Told how many seconds each change took to be in the kernel. */
  readonly time: (seconds: number) => void;
}

/** The balancer of this host, from `start` to `stop`: its tables, its seats and what it says of both. */
export class NodeBalancer {
  readonly #ending = new AbortController();
  readonly #reporter: NodeReporter;
  readonly #seats: Seats;
  readonly #balancer: Balancer;
  readonly #nodes: NodeHealth;
  readonly #addresses: NodeAddresses;
  readonly #node: string;
  readonly #counter: BalancerCounter;
  readonly #apiVips = new ApiVips(createBalancerKernel(), () => {
    this.#say();
  });
  #view: BalancerView | null = null;
  #state: SeatsState | null = null;
  /** What was planned last, and what the state is of. */
  #input: SeatsInput | null = null;
  #planned: SeatsInput | null = null;
  /** What was said last. */
  #programmed: BalancerView['programmed'] | null = null;

  /** @throws VipnatError as createHostSeats does */
  constructor(options: NodeBalancerOptions) {
    const { route, logger, node, runDir } = options;
    const common = { clock: systemClock, node };
    this.#node = node;
    this.#counter = new BalancerCounter(options.time);
    const standing = new Standing({
      ...common,
      onNeeded: () => {
        this.#reporter.renew();
      },
    });
    this.#reporter = createReporter(options, this.#ending.signal, standing);
    this.#seats = createHostSeats({
      ...common,
      runDir,
      report: new SeatsLog(logger),
      onState: (state) => {
        this.#takeState(state);
      },
      onPlanned: (input) => {
        this.#planned = input;
        this.#say();
      },
    });
    this.#addresses = new NodeAddresses(options.nodeAddresses, systemClock, () => {
      this.#say();
    });
    this.#nodes = this.#createNodes(options);
    this.#balancer = new Balancer({
      ...common,
      route,
      logger,
      standing,
      kernel: this.#apiVips.kernel,
      readAddresses: readPlacedAddresses,
      listStrictTunnels,
      findRouted,
      random: systemRandom,
      observer: this.#counter,
      nodes: this.#nodes,
      listener: {
        changed: (view) => {
          this.#takeView(view);
        },
      },
    });
  }

  #createNodes(options: NodeBalancerOptions): NodeHealth {
    return createNodeHealth({
      ...options,
      signal: this.#ending.signal,
      listAddresses: () => this.#addresses.list,
      onChange: () => {
        this.#balancer.noteOutages();
        this.#say();
      },
    });
  }

  /** For how long the loop is behind: one that hangs is behind ever longer. */
  get behindMs(): number {
    return this.#balancer.behindMs;
  }

  /** How it does now. */
  get state(): BalancerState {
    const pools = this.#view?.pools ?? [];
    const seats = pools.flatMap(({ metadata, status }) =>
      (status?.seats ?? [])
        .filter(({ nodes }) => nodes.includes(this.#node))
        .map(({ index }) => `${metadata.name}/${index}`),
    );
    const { held = [], inUse = [] } = this.#state ?? {};
    const { counts } = this.#counter;
    const { mode = null, draining = [] } = this.#view ?? {};
    const { outages, unheard, counts: nodes } = this.#nodes;
    return {
      ...this.#balancer.progress,
      ...{ mode, seats, held, inUse, draining, counts, outages, unheard, nodes },
      behindMs: this.behindMs,
    };
  }

  /** Begins. */
  start(): void {
    this.#addresses.start();
    this.#nodes.start();
    this.#seats.start();
    this.#reporter.start();
    this.#balancer.start();
  }

  /** Ends what is under way. The tables, the seats and the Lease stay. */
  async stop(): Promise<void> {
    this.#nodes.stop();
    this.#addresses.stop();
    await this.#balancer.stop();
    await this.#seats.stop();
    await this.#reporter.stop({ isLeaving: false });
    this.#ending.abort();
  }

  #takeState(state: SeatsState): void {
    this.#state = state;
    this.#nodes.setHolding(state.held.length > 0);
    this.#say();
  }

  #takeView(view: BalancerView): void {
    const before = this.#view;
    this.#view = view;
    if (before === null) growHeap();
    this.#takeInput(view);
    this.#seats.setServing(view.mode !== 'none');
    this.#say();
  }

  /** Endpoints change all the time, and seats do not depend on them. */
  #takeInput({ pools, virtualIps, programmed }: BalancerView): void {
    const version = programmed.virtualips ?? null;
    const before = this.#input;
    if (before?.pools === pools && before.virtualIps === virtualIps && before.version === version) return;
    this.#input = { pools, virtualIps, version };
    this.#seats.update(this.#input);
  }

  /**
   * Nothing before tables and seats are known: half of it would be taken for all. An address is not said to be programmed before it
   * is known whether this node can hold it.
   */
  #say(): void {
    if (this.#view === null || this.#state === null) return;
    const { virtualIps, mode, draining, isAnyEarly, isAnyEnding } = this.#view;
    if (this.#planned === this.#input) this.#programmed = this.#view.programmed;
    if (this.#programmed === null) return;
    const { held: seats, inUse, unheld, announced } = this.#state;
    this.#reporter.setAwaited({ any: isAnyEarly || virtualIps.some(isAwaited), early: isAnyEnding });
    const { list: addresses } = this.#addresses;
    this.#reporter.say({
      ...{ programmed: this.#programmed, mode, seats, inUse, unheld, addresses },
      ...{ apiVips: this.#apiVips.addresses, announced: announced ?? '0' },
      ...listServices({ left: this.#view.left, dropping: this.#view.dropping }),
      ...{ unsupported: listUntranslatedProtocols(), draining: draining.slice(0, maxDraining) },
      // Who holds nothing asks seldom, and all nodes would say the same.
      silent: seats.length === 0 ? [] : this.#nodes.silent,
    });
  }
}

/**
 * Has V8 look for garbage less often. The heap was kept as small as it gets while the first lists were read. Later, each change leaves
 * little garbage, and to look for it walks all objects: with 1,000 Services that took half of the processor time.
 */
function growHeap(): void {
  setFlagsFromString('--heap-growing-percent=30');
}

function createReporter(
  { route, logger, node, namespace }: NodeBalancerOptions,
  signal: AbortSignal,
  standing: Standing,
): NodeReporter {
  return new NodeReporter({
    client: new RoutedClient(route, systemClock, signal),
    clock: systemClock,
    node,
    namespace,
    onRenewed: (renewal) => {
      standing.renewed(renewal);
    },
    report: {
      notTaken: (words) => {
        logger.warn(
          `${words}. The controller does not know what this node has done; vipnat tries again, and takes no new address meanwhile`,
        );
      },
      taken: () => {
        logger.info('the API takes what this node says again');
      },
    },
  });
}
