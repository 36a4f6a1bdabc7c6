import {
  readHostTables,
  type NodeQuestion,
  type ServicesDrift,
  findServicesDrift,
  isSendingOn,
} from './inspect.ts';
import { type OptionName, type Config, usualRunFolder } from '../config/options.ts';
import { findRoute, type ApiRoute } from '../lib/kubernetes/route.ts';
import { VipnatError } from '../lib/errors.ts';
import { createLogger, type Logger, createPodHeartbeat } from '../lib/telemetry/log.ts';
import { locateSeatFiles } from '../lib/keepalived/write.ts';
import { nameNode, podVariable } from '../config/load.ts';
import { electionLease } from '../lib/api/vipnat.ts';
import { createProbeServer } from '../lib/http/pages.ts';
import { createBalancerPages, toActivity } from './samples.ts';
import { waitForSignal, systemClock, systemRandom } from '../lib/clock.ts';
import { version, exitStatuses } from '../lib/text.ts';
import { balancerRole, takePlace, findLockOwner } from '../lib/http/singleton.ts';
import { activityPath, type HostBalancer, askBalancerActivity } from '../lib/api/balancer.ts';
import { type Seats, type SeatsState, createHostSeats } from './seats/seats.ts';
import { listStrictTunnels, listUntranslatedProtocols, findRouted } from '../lib/kernel/forwarding.ts';
import { NodeReporter, BalancerCounter, ApiVips, LeaseValidity, type BalancerState } from './report.ts';
import { Balancer, type BalancerView } from './sync.ts';
import { type NodeHealth, createNodeHealth } from './nodes/health.ts';
import { createRenewalReader, NodeAddresses } from './nodes/directory.ts';
import { createBalancerKernel } from '../lib/kernel/kernel.ts';
import { readPlacedAddresses } from '../lib/kernel/addresses.ts';
import { listServices, maxDraining, toLeaseName } from '../lib/api/node.ts';
import { RoutedClient } from '../lib/kubernetes/writes.ts';
import { existsSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';

export { planServices, cleanUpServices } from './inspect.ts';
export { planSeats } from './seats/seats.ts';
export { balancerMetrics, programmingDuration } from './samples.ts';

interface BalancerOptions {
  /** Of the node's Lease. */
  readonly namespace: string;
  /** At which other nodes reach this one, in canonical text; empty to find out. */
  readonly nodeAddresses: readonly string[];
  /** Where other nodes are asked whether they live; 0 asks nobody. */
  readonly probePort: number;
  readonly given: ReadonlySet<OptionName>;
}

/**
 * `vipnat balancer`: runs until SIGTERM or SIGINT. Its tables stay when it ends, and count for 30 s. While another balancer runs
 * on this host it waits for that one to end, and writes nothing.
 * @throws VipnatError API_CREDENTIALS_INVALID without credentials for the Kubernetes API
 */
export async function runBalancer(config: Config, { given, ...options }: BalancerOptions): Promise<number> {
  const route = findRoute({ ...config, vips: [] });
  if (route === null) {
    throw new VipnatError(
      'API_CREDENTIALS_INVALID',
      'the balancer needs credentials for the Kubernetes API: give --kubeconfig, or run it in a pod with a service account',
    );
  }
  // V8 would rather let the heap grow to twice the size than collect garbage.
  for (const flag of ['--max-semi-space-size=1', '--optimize-for-size']) setFlagsFromString(flag);
  const logger = await createLogger(config);
  const runDir = given.has('runDir') ? config.runDir : usualRunFolder;
  const beginning: Beginning = { running: null };
  // Without the flag nothing: the agent on the same host has the usual port.
  const served = await createServed(given.has('listen') ? config.listen : null, logger, beginning);
  const { time } = served;
  await served.server?.start();
  try {
    return await runInTurn({ route, logger, node: nameNode(config), runDir, time, ...options }, beginning);
  } finally {
    await served.server?.stop();
  }
}

/** What it serves, and what records how long changes take; it records nothing if nothing is served. */
async function createServed(listen: Config['listen'] | null, logger: Logger, beginning: Beginning) {
  if (listen === null) return { server: null, time: () => undefined };
  const { pages, time } = await createBalancerPages(() => beginning.running?.state ?? null);
  return { server: createProbeServer(listen, pages, logger), time };
}

interface Beginning {
  /** Null until it runs. */
  running: NodeBalancer | null;
}

/** Runs the balancer once it is the only one of this host's network. */
async function runInTurn(options: NodeBalancerOptions, beginning: Beginning): Promise<number> {
  const { logger } = options;
  const ending = new AbortController();
  const signal = waitForSignal().finally(ending.abort.bind(ending));
  const heartbeat = createPodHeartbeat(
    process.env[podVariable] ?? null,
    logger,
    () => beginning.running?.behindMs ?? 0,
  );
  try {
    await heartbeat?.start();
    const info = { version, pid: process.pid, since: systemClock.date().toISOString() };
    const answer = () => {
      const state = beginning.running?.state;
      return state === undefined ? {} : toActivity(state, options, systemClock.date());
    };
    const lockRequest = { role: balancerRole, info, answers: new Map([[activityPath, answer]]) };
    const release = await takePlace({ ...lockRequest, logger, signal: ending.signal, serve: () => null });
    if (release === null) {
      logger.info(`${await signal}: vipnat stops. It waited for another balancer, and wrote nothing`);
      return exitStatuses.done;
    }
    beginning.running = new NodeBalancer(options);
    try {
      logger.info(`vipnat ${version} balances Services on node ${options.node}, pid ${process.pid}`);
      beginning.running.start();
      logger.info(`${await signal}: vipnat stops. Its tables stay, and count for 30 s`);
      await beginning.running.stop();
      return exitStatuses.done;
    } finally {
      await release();
    }
  } finally {
    heartbeat?.stop();
  }
}

/** What Services have on this host. Never rejects for what the host is like. */
export async function inspectBalancer(): Promise<HostBalancer> {
  const [balancer, activity, tables] = await Promise.all([
    findLockOwner(balancerRole),
    askBalancerActivity(),
    readHostTables(),
  ]);
  const runDir = activity?.runDir ?? usualRunFolder;
  const hasConfiguration = existsSync(locateSeatFiles(runDir).file);
  return { balancer, activity, ...tables, runDir, hasConfiguration };
}

/** What `check` finds of Services on this host. */
export interface ServicesCheck extends ServicesDrift {
  readonly host: HostBalancer;
}

/** Looks at Services on this host, and compares its tables with the API where there are credentials. Never rejects for what the host is like. */
export async function checkServices(question: NodeQuestion): Promise<ServicesCheck> {
  const host = await inspectBalancer();
  return { host, ...(await findServicesDrift(host, question)) };
}

/** See listStrictTunnels: those that drop connections that this host's tables send to other nodes; none without such tables. */
export async function findStrictTunnels({ tables }: HostBalancer): Promise<readonly string[]> {
  return (await isSendingOn(tables)) ? await listStrictTunnels() : [];
}

interface NodeBalancerOptions extends Omit<BalancerOptions, 'given'> {
  readonly route: ApiRoute;
  readonly logger: Logger;
  /** As the API names this node. */
  readonly node: string;
  /** What it shares with its keepalived. */
  readonly runDir: string;
  /** Receives how many seconds each change took to be in the kernel. */
  readonly time: (seconds: number) => void;
}

type SeatsInput = Parameters<Seats['update']>[0];

/** The balancer of this host, from `start` to `stop`: its tables, its seats and what it says of both. */
class NodeBalancer {
  readonly #ending = new AbortController();
  readonly #reporter: NodeReporter;
  readonly #seats: Seats;
  readonly #balancer: Balancer;
  readonly #nodes: NodeHealth;
  readonly #addresses: NodeAddresses;
  readonly #node: string;
  readonly #counter: BalancerCounter;
  readonly #apiVips = new ApiVips(createBalancerKernel(), this.#report.bind(this));
  #view: BalancerView | null = null;
  /** One that waits until this node knows who answers; null for none. */
  #nextView: BalancerView | null = null;
  #state: SeatsState | null = null;
  /** What was planned last, and what the state is of. */
  #input: SeatsInput | null = null;
  #planned: SeatsInput | null = null;
  /** What was said last. */
  #programmed: BalancerView['programmed'] | null = null;

  /** @throws VipnatError as createHostSeats does */
  constructor(options: NodeBalancerOptions) {
    const { route, logger, node } = options;
    const common = { clock: systemClock, node };
    const client = new RoutedClient(route, systemClock, this.#ending.signal);
    const readRenewal = createRenewalReader(client, options.namespace);
    this.#node = node;
    this.#counter = new BalancerCounter(options.time);
    const validity = new LeaseValidity({
      ...common,
      onNeeded: () => {
        this.#reporter.renew();
      },
    });
    this.#reporter = new NodeReporter({
      ...{ ...common, logger, client, namespace: options.namespace },
      onRenewed: validity.renewed.bind(validity),
    });
    this.#seats = createHostSeats({
      ...options,
      clock: systemClock,
      onState: this.#takeState.bind(this),
      onPlanned: (input) => {
        this.#planned = input;
        this.#report();
      },
    });
    this.#addresses = new NodeAddresses(options.nodeAddresses, systemClock, this.#report.bind(this));
    this.#nodes = this.#createNodes(options, readRenewal);
    this.#balancer = new Balancer({
      ...{ ...common, route, logger, validity, listStrictTunnels, findRouted, random: systemRandom },
      ...{ kernel: this.#apiVips.kernel, observer: this.#counter, nodes: this.#nodes },
      readAddresses: readPlacedAddresses,
      hasKubeProxy: () => this.#addresses.isAnswered(options.probePort),
      readElection: () => readRenewal(electionLease),
      onView: this.#takeView.bind(this),
    });
  }

  #createNodes(options: NodeBalancerOptions, readRenewal: ReturnType<typeof createRenewalReader>) {
    return createNodeHealth({
      ...options,
      signal: this.#ending.signal,
      listAddresses: () => this.#addresses.list,
      readRenewal: (node) => readRenewal(toLeaseName(node)),
      onChange: () => {
        this.#balancer.noteOutages();
        if (this.#nextView === null) this.#report();
        else this.#takeView(this.#nextView);
      },
    });
  }

  /** Of its tables. */
  get behindMs(): number {
    return this.#balancer.behindMs;
  }

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
      isWatched: this.#seats.isWatched,
    };
  }

  start(): void {
    this.#addresses.start();
    this.#nodes.start();
    this.#seats.start();
    this.#balancer.start();
  }

  /** Ends what is in progress. The tables, the seats and the Lease stay. */
  async stop(): Promise<void> {
    this.#nodes.stop();
    this.#addresses.stop();
    await this.#balancer.stop();
    await this.#seats.stop();
    await this.#reporter.stop();
    this.#ending.abort();
  }

  #takeState(state: SeatsState): void {
    this.#state = state;
    this.#nodes.setHolding(state.held.length > 0);
    this.#report();
  }

  /** Until this node knows who answers, its seats and its Lease are as the former process left them: it takes no address. */
  #takeView(view: BalancerView): void {
    this.#nextView = this.#nodes.isAcquainted ? null : view;
    if (this.#nextView !== null) return;
    const before = this.#view;
    this.#view = view;
    if (before === null) setFlagsFromString(lateFlag);
    this.#takeInput(view);
    this.#seats.setNeedsBalancer(view.needsTables);
    this.#report();
  }

  /** Endpoints change all the time, and seats do not depend on them. */
  #takeInput({ pools, virtualIps, programmed }: BalancerView): void {
    const version = programmed.virtualips ?? null;
    const before = this.#input;
    if (before?.pools === pools && before.virtualIps === virtualIps && before.version === version) return;
    this.#input = { pools, virtualIps, version };
    this.#seats.update(this.#input);
  }

  /** Nothing before tables and seats are known: half would be taken for all. No address is programmed before it is known if this node can hold it. */
  #report(): void {
    if (this.#view === null || this.#state === null) return;
    const { mode, draining, awaited } = this.#view;
    if (this.#planned === this.#input) this.#programmed = this.#view.programmed;
    if (this.#programmed === null) return;
    const { held: seats, inUse, unheld, announced } = this.#state;
    this.#reporter.setAwaited(awaited);
    const { list: addresses } = this.#addresses;
    this.#reporter.report({
      ...{ programmed: this.#programmed, mode, seats, inUse, unheld, addresses },
      ...{ apiVips: this.#apiVips.addresses, announced: announced ?? '0' },
      ...listServices({ left: this.#view.left, dropping: this.#view.dropping }),
      ...{ unsupported: listUntranslatedProtocols(), draining: draining.slice(0, maxDraining) },
      // Who holds nothing asks seldom, and all nodes would say the same.
      unresponsive: seats.length === 0 ? [] : this.#nodes.unresponsive,
    });
  }
}

/**
 * Has V8 collect garbage less often. While the first lists were read, the heap was kept as small as possible. Later, each change leaves
 * little garbage, and a collection visits all objects: with 1,000 Services that took half of the processor time.
 */
const lateFlag = '--heap-growing-percent=30';
