import { type Clock } from '../../lib/control/clock.ts';
import { type Random } from '../../lib/control/random.ts';
import { TokenQueue } from '../../lib/control/token-queue.ts';
import { LeaderElection } from '../../lib/kubernetes/leader.ts';
import { type ObjectClient } from '../../lib/kubernetes/object-client.ts';
import { type ApiRoute } from '../../lib/kubernetes/route.ts';
import { toGateTypesNote } from '../../lib/services/gate-types.ts';
import { electionLease } from '../../lib/services/names.ts';
import { type FindDriver } from '../devices/device-session.ts';
import { type Execution } from '../engine/execute.ts';
import { type ControllerLog } from '../report/controller-log.ts';
import { type ControllerState } from '../report/pages.ts';
import { Webhook, type WebhookOptions } from '../webhook/webhook.ts';
import { FirstPools } from './first-pools.ts';
import { Leadership, type Reserved } from './leadership.ts';
import { type Settings } from '../cache/known.ts';

/** What a controller needs of the world. */
export interface ControllerPorts {
  readonly route: ApiRoute;
  readonly client: ObjectClient;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: ControllerLog;
  /** Drivers of devices, by their names. */
  readonly findDriver: FindDriver;
  /** No node sends new connections to a pod that ends any more, so many seconds after this controller saw that it ends. */
  readonly onDrained: (seconds: number, pod: string) => void;
}

/** What a controller is told at its start. */
export interface ControllerSettings extends Settings {
  readonly namespace: string;
  /** Of this process, and of no other that ever was. */
  readonly identity: string;
  readonly reserved: Reserved;
  /** The webhook to serve; none unless given. */
  readonly webhook?: Pick<WebhookOptions, 'port' | 'log'>;
}

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
    this.#webhook = this.#createWebhook();
    this.#election = new LeaderElection({
      ...{ client, clock, random },
      lease: { namespace: settings.namespace, name: electionLease },
      identity: settings.identity,
      annotations: toGateTypesNote(settings.gateTypes),
      onElected: () => {
        log.elected();
        this.#queueTurn(() => {
          this.#beginLeading();
        });
      },
      onLost: () => {
        log.deposed();
        this.#queueTurn(() => this.#endLeading());
      },
      onHolder: (holder) => {
        log.waits(holder);
      },
      onProblem: (problem) => {
        log.leaseProblem(problem);
      },
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

  /** How it does now. */
  get state(): ControllerState {
    const { kinds, unreadable } = this.#leadership ?? { kinds: new Map<string, boolean>(), unreadable: [] };
    return {
      isLeading: this.#election.writeMs > 0,
      holder: this.#election.holder,
      ...{ kinds, unreadable },
      ...describeLeadership(this.#leadership?.hasBegun === true ? this.#leadership : null),
      writes: this.#writes,
      webhook: this.#webhook?.state ?? null,
    };
  }

  #createWebhook(): Webhook | null {
    const { namespace, webhook } = this.#settings;
    if (webhook === undefined) return null;
    return new Webhook({ ...this.#ports, ...webhook, namespace, writeMs: () => this.#election.writeMs });
  }

  #queueTurn(turn: () => Promise<void> | void): void {
    this.#turns = this.#turns.then(turn);
  }

  #beginLeading(): void {
    // It may have lost the Lease while the leadership before ended.
    if (this.#election.writeMs === 0) return;
    const { log } = this.#ports;
    const leadership: Leadership = new Leadership({
      ...this.#ports,
      settings: this.#settings,
      namespace: this.#settings.namespace,
      electionLease,
      reserved: this.#settings.reserved,
      pace: this.#pace,
      writeMs: () => this.#election.writeMs,
      onBegun: () => {
        log.begun(leadership.world);
        firstPools.start();
      },
      onLost: (kind, error) => {
        log.lost(kind, error);
      },
      onUnreadable: (kind, unreadable) => {
        log.unreadable(kind, unreadable);
      },
      onFollowed: (kind) => {
        log.followed(kind);
      },
      onWritten: (key, event, world) => {
        this.#count('done');
        log.written(key, event, world);
      },
      onContested: (key, managers, world) => {
        log.contested(key, managers, world);
      },
      onFailed: (key, outcome, failures) => {
        this.#count(outcome.result);
        log.failed(key, outcome, failures, leadership.world);
      },
      onError: (key, error) => {
        log.broken(key, error);
      },
    });
    const firstPools = this.#makeFirstPools();
    this.#leadership = leadership;
    this.#firstPools = firstPools;
    leadership.start();
  }

  async #endLeading(): Promise<void> {
    const [leadership, firstPools] = [this.#leadership, this.#firstPools];
    this.#leadership = null;
    this.#firstPools = null;
    await Promise.all([leadership?.stop(), firstPools?.stop()]);
  }

  #makeFirstPools(): FirstPools {
    const { client, clock, log } = this.#ports;
    return new FirstPools({
      ...{ client, clock },
      namespace: this.#settings.namespace,
      writeMs: () => this.#election.writeMs,
      onCreated: (pool) => {
        log.poolCreated(pool);
      },
      onExisting: (pool) => {
        log.poolExists(pool);
      },
      onProblem: (words) => {
        log.poolsWait(words);
      },
    });
  }

  #count(result: Execution['result']): void {
    this.#writes.set(result, (this.#writes.get(result) ?? 0) + 1);
  }
}

function describeLeadership(
  leadership: Leadership | null,
): Pick<ControllerState, 'world' | 'statistics' | 'deviceCalls'> {
  if (leadership === null) return { world: null, statistics: null, deviceCalls: new Map() };
  const { world, statistics, deviceCalls } = leadership;
  return { world, statistics, deviceCalls };
}
