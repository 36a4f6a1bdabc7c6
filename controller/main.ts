import type { Config } from '../config/options.ts';
import { findAccess, ApiRoute } from '../lib/kubernetes/route.ts';
import { systemClock, systemRandom, waitForSignal, Rounds, backOff } from '../lib/clock.ts';
import { createLogger, createPodHeartbeat, type Logger } from '../lib/telemetry/log.ts';
import { EventWriter } from '../lib/telemetry/events.ts';
import { hostname } from 'node:os';
import {
  createControllerMeter,
  getBehindMs,
  type ControllerMeter,
  createControllerPages,
  type ControllerState,
} from './report/metrics.ts';
import { RoutedClient, type ObjectWrite, type WriteAnswer } from '../lib/kubernetes/writes.ts';
import { loadDriver } from '../devices/drivers.ts';
import { ControllerLog, WebhookLog } from './report/log.ts';
import { toGateTypes, toGateTypesNote } from '../lib/api/endpoints.ts';
import { randomUUID, createHash } from 'node:crypto';
import { type WebhookOptions, Webhook } from './webhook/webhook.ts';
import { version, exitStatuses } from '../lib/text.ts';
import { podVariable } from '../config/load.ts';
import { VipnatError } from '../lib/errors.ts';
import { type StatusServer, createProbeServer } from '../lib/http/pages.ts';
import * as z from 'zod/mini';
import { objectVersion } from '../lib/kubernetes/client.ts';
import {
  firstPools,
  firstPoolsSum,
  apiGroup,
  apiVersion,
  addressPools,
  electionLease,
} from '../lib/api/vipnat.ts';
import { type LeadershipOptions, Leadership } from './leadership.ts';
import { LeaderElection } from '../lib/kubernetes/leader.ts';
import { TokenQueue } from '../lib/queue.ts';
import type { Execution } from './engine.ts';

export { controllerMetrics, drainStart } from './report/metrics.ts';

/** What `vipnat controller` is asked for, checked. */
interface ControllerOptions {
  /** Where the Leases are. */
  readonly namespace: string;
  /** Whether Services without a class are served, too. */
  readonly isDefaultClass: boolean;
  /** The name of the device of Services without a class that have annotations of another controller; null for none. */
  readonly defaultDevice: string | null;
  /** Further types of readiness gates. */
  readonly gates: readonly string[];
  /** Modules with drivers, each as `NAME=PATH`. */
  readonly drivers: readonly string[];
  /** Where the webhook is served; null for nowhere. */
  readonly webhookPort: string | null;
}

/** `vipnat controller`: runs until SIGTERM or SIGINT, then gives its Lease back. @throws VipnatError API_CREDENTIALS_INVALID without any */
export async function runController(config: Config, options: ControllerOptions): Promise<number> {
  const readAccess = findAccess(config.kubeconfig, process.env);
  if (readAccess === null) throw new VipnatError('API_CREDENTIALS_INVALID', lackingCredentials);
  const [clock, random] = [systemClock, systemRandom];
  const logger = await createLogger(config);
  // Nothing is known besides the credentials: the controller need not be on a master.
  const route = new ApiRoute(readAccess, [], null);
  const ending = new AbortController();
  const events = new EventWriter({ route, clock, random, logger, node: hostname().toLowerCase() });
  const meter = config.listen === null ? null : await createControllerMeter();
  const controller = new Controller(
    {
      ...{ route, clock, random },
      onDrained: (seconds) => meter?.time(seconds),
      client: new RoutedClient(route, clock, ending.signal),
      findDriver: async (name) => await loadDriver(name, options.drivers),
      log: new ControllerLog(logger, events, clock),
    },
    {
      namespace: options.namespace,
      isDefaultClass: options.isDefaultClass,
      gateTypes: toGateTypes(options.gates),
      ...(options.defaultDevice === null ? {} : { defaultDevice: options.defaultDevice }),
      identity: `${hostname()}_${randomUUID()}`,
      apiVips: config.vips.map(({ address }) => address),
      ...(options.webhookPort === null
        ? {}
        : { webhook: { port: Number(options.webhookPort), log: new WebhookLog(logger) } }),
    },
  );
  const server = createServer(config, meter, controller, logger);
  logger.info(`vipnat controller ${version} runs, pid ${process.pid}`);
  await server?.start();
  const heartbeat = createPodHeartbeat(process.env[podVariable] ?? null, logger, () =>
    getBehindMs(controller.state),
  );
  controller.start();
  try {
    await heartbeat?.start();
    logger.info(`${await waitForSignal()}: the controller stops. Addresses stay as they are`);
    await controller.stop();
    await events.stop();
    return exitStatuses.done;
  } finally {
    heartbeat?.stop();
    ending.abort();
    await server?.stop();
  }
}

const lackingCredentials =
  'the controller needs credentials for the Kubernetes API. Example: --kubeconfig /etc/vipnat/controller.conf';

function createServer(
  { listen }: Config,
  meter: ControllerMeter | null,
  controller: Controller,
  logger: Logger,
): StatusServer | null {
  if (listen === null || meter === null) return null;
  const pages = createControllerPages(() => controller.state, meter);
  return createProbeServer(listen, pages, logger);
}

/**
 * The pools that a manifest asks for.
 *
 * Goal: one `kubectl apply` of what `vipnat manifest services --pool` prints is enough.
 * Tension: kubectl asks the API for each kind before it creates anything, so it refuses an AddressPool together with its own definition.
 * Compromise: the manifest has a ConfigMap, and the controller that leads creates its pools. It creates, and never changes: a pool is
 * its owner's from then on. The ConfigMap keeps a sum of what was created, so that a deleted pool does not come back.
 */

type FirstPoolsOptions = Pick<LeadershipOptions, 'client' | 'clock' | 'namespace' | 'writeMs'> &
  Pick<ControllerLog, 'onPoolCreated' | 'onPoolExisting' | 'onPoolsProblem'>;

/** Of the ConfigMap: each key is the name of a pool, and each line of its value a range of addresses. */
const schema = z.object({
  metadata: z.object({
    resourceVersion: objectVersion,
    annotations: z.nullish(z.record(z.string(), z.string())),
  }),
  data: z.nullish(z.record(z.string(), z.string())),
});

const firstWaitMs = 1000;
const maxWaitMs = 60_000;
const readMs = 4000;

/** Creates the pools of the ConfigMap once while this process leads, from `start` to `stop`. */
export class FirstPools {
  readonly #options: FirstPoolsOptions;
  readonly #tries: Rounds;
  #failures = 0;
  #restMs: number | null = 0;

  constructor(options: FirstPoolsOptions) {
    this.#options = options;
    this.#tries = new Rounds(options.clock, this.#try.bind(this), () => this.#restMs);
  }

  /** Begins. Not to be called twice. */
  start(): void {
    this.#tries.plan();
  }

  /** Ends when a write in progress has. */
  async stop(): Promise<void> {
    await this.#tries.stop();
  }

  async #try(): Promise<void> {
    const problem = await this.#create();
    this.#restMs = problem === null ? null : backOff(this.#failures, firstWaitMs, maxWaitMs);
    this.#failures += 1;
    if (problem !== null) this.#options.onPoolsProblem(problem);
  }

  /** Answers what went wrong; null where everything is done. */
  async #create(): Promise<string | null> {
    const { client, namespace } = this.#options;
    const path = `/api/v1/namespaces/${namespace}/configmaps/${firstPools}`;
    const title = `reading ConfigMap ${namespace}/${firstPools}`;
    const answer = await client.read({ title, path, schema }, readMs);
    if (answer.outcome === 'gone') return null;
    if (answer.outcome !== 'found') return answer.detail;
    const { data, metadata } = answer.object;
    const entries = Object.entries(data ?? {}).toSorted(([first], [second]) => (first < second ? -1 : 1));
    const sum = createHash('sha256').update(JSON.stringify(entries)).digest('hex').slice(0, 16);
    if (data == null || metadata.annotations?.[firstPoolsSum] === sum) return null;
    for (const [name, ranges] of Object.entries(data)) {
      const problem = await this.#createPool(name, ranges);
      if (problem !== null) return problem;
    }
    return await this.#noteSum(path, metadata.resourceVersion, sum);
  }

  async #createPool(name: string, ranges: string): Promise<string | null> {
    const { onPoolCreated, onPoolExisting } = this.#options;
    const addresses = ranges.split('\n').filter((range) => range !== '');
    const body = { apiVersion: `${apiGroup}/${apiVersion}`, kind: 'AddressPool', metadata: { name } };
    const answer = await this.#write({
      title: `creating AddressPool ${name}`,
      method: 'POST',
      path: addressPools.path,
      body: { ...body, spec: { addresses } },
    });
    if (answer === null) return null;
    if (answer.outcome === 'taken') onPoolCreated(name);
    else if (answer.outcome === 'exists') onPoolExisting(name);
    else return answer.detail;
    return null;
  }

  async #noteSum(path: string, resourceVersion: string, sum: string): Promise<string | null> {
    const body = { metadata: { resourceVersion, annotations: { [firstPoolsSum]: sum } } };
    const title = 'noting which pools were created';
    const answer = await this.#write({ title, method: 'PATCH', path, body });
    return answer === null || answer.outcome === 'taken' || answer.outcome === 'gone' ? null : answer.detail;
  }

  /** Null where this process leads no more: the next leader does it. */
  async #write(write: ObjectWrite): Promise<WriteAnswer | null> {
    const limitMs = this.#options.writeMs();
    return limitMs === 0 || this.#tries.isStopped ? null : await this.#options.client.write(write, limitMs);
  }
}

interface ControllerPorts extends Pick<
  LeadershipOptions,
  'route' | 'client' | 'clock' | 'random' | 'findDriver' | 'onDrained'
> {
  readonly log: ControllerLog;
}

type ControllerSettings = LeadershipOptions['settings'] &
  Pick<LeadershipOptions, 'namespace' | 'apiVips'> & {
    /** Of this process, and of no other that ever was. */
    readonly identity: string;
    /** The webhook to serve; none unless given. */
    readonly webhook?: Pick<WebhookOptions, 'port' | 'log'>;
  };

/** 20 writes a second for all of the controller (S7). */
const pace = { capacity: 20, refillMs: 50 };

/** Waits until it leads, and then takes steps, from `start` to `stop`. */
export class Controller {
  readonly #ports: ControllerPorts;
  readonly #settings: ControllerSettings;
  readonly #election: LeaderElection;
  readonly #pace: TokenQueue;
  readonly #webhook: Webhook | null;
  readonly #writes = new Map<Execution['result'], number>();
  #leadership: Leadership | null = null;
  #firstPools: FirstPools | null = null;
  /** One leadership after the other: none begins before the writes of the one before have ended. */
  #turns: Promise<void> = Promise.resolve();

  constructor(ports: ControllerPorts, settings: ControllerSettings) {
    this.#ports = ports;
    this.#settings = settings;
    const { client, clock, random, log } = ports;
    this.#pace = new TokenQueue(pace, clock);
    const { webhook } = settings;
    const writeMs = () => this.#election.writeMs;
    this.#webhook =
      webhook === undefined ? null : new Webhook({ ...ports, ...settings, ...webhook, writeMs });
    this.#election = new LeaderElection({
      ...{ client, clock, random, identity: settings.identity },
      lease: { namespace: settings.namespace, name: electionLease },
      annotations: toGateTypesNote(settings.gateTypes),
      onElected: () => {
        log.onElected();
        this.#queueTurn(() => {
          this.#beginLeading();
        });
      },
      onLost: () => {
        log.onDeposed();
        this.#queueTurn(() => this.#endLeading());
      },
      onLeader: log.onLeader,
      onProblem: log.onLeaseProblem,
    });
  }

  /** Begins. Not to be called twice. */
  start(): void {
    this.#election.start();
    this.#webhook?.start();
  }

  /** Ends its writes, then gives the Lease back. The webhook answers a little longer. */
  async stop(): Promise<void> {
    await Promise.all([this.#webhook?.stop(), this.#stopLeading()]);
  }

  async #stopLeading(): Promise<void> {
    this.#queueTurn(() => this.#endLeading());
    await this.#turns;
    await this.#election.stop();
    // Elected meanwhile, it would have begun another.
    this.#queueTurn(() => this.#endLeading());
    await this.#turns;
  }

  get state(): ControllerState {
    const known: Partial<Leadership> = this.#leadership ?? {};
    const { kinds = new Map<string, boolean>(), unreadable = [] } = known;
    const begun: Partial<Leadership> = known.hasBegun === true ? known : {};
    const { view = null, statistics = null, deviceCalls = new Map<string, number>() } = begun;
    return {
      isLeading: this.#election.writeMs > 0,
      leader: this.#election.leader,
      ...{ kinds, unreadable, view, statistics, deviceCalls },
      writes: this.#writes,
      webhook: this.#webhook?.state ?? null,
    };
  }

  #queueTurn(turn: () => Promise<void> | void): void {
    this.#turns = this.#turns.then(turn);
  }

  #beginLeading(): void {
    // It may have lost the Lease while the leadership before ended.
    if (this.#election.writeMs === 0) return;
    const { log } = this.#ports;
    const { onPoolCreated, onPoolExisting, onPoolsProblem } = log;
    const { onLost, onUnreadable, onFollowed, onConflict, onError } = log;
    const common = { ...this.#ports, ...this.#settings, writeMs: () => this.#election.writeMs };
    const firstPools = new FirstPools({ ...common, onPoolCreated, onPoolExisting, onPoolsProblem });
    this.#firstPools = firstPools;
    this.#leadership = new Leadership({
      ...common,
      ...{ settings: this.#settings, electionLease, pace: this.#pace },
      ...{ onLost, onUnreadable, onFollowed, onConflict, onError },
      onBegun: (view) => {
        log.onBegun(view);
        firstPools.start();
      },
      onWritten: (...written) => {
        this.#count('done');
        log.onWritten(...written);
      },
      onFailed: (key, outcome, ...more) => {
        this.#count(outcome.result);
        log.onFailed(key, outcome, ...more);
      },
    });
    this.#leadership.start();
  }

  async #endLeading(): Promise<void> {
    const [leadership, firstPools] = [this.#leadership, this.#firstPools];
    this.#leadership = null;
    this.#firstPools = null;
    await Promise.all([leadership?.stop(), firstPools?.stop()]);
  }

  #count(result: Execution['result']): void {
    this.#writes.set(result, (this.#writes.get(result) ?? 0) + 1);
  }
}

export { inspectWebhook } from './webhook/certificate.ts';
