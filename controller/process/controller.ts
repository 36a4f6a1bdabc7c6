import { type Clock } from '../../lib/control/clock.ts';
import { type Random } from '../../lib/control/random.ts';
import { TokenQueue } from '../../lib/control/token-queue.ts';
import { LeaderElection } from '../../lib/kubernetes/leader.ts';
import { type ObjectClient } from '../../lib/kubernetes/object-client.ts';
import { type ApiRoute } from '../../lib/kubernetes/route.ts';
import { electionLease } from '../../lib/services/names.ts';
import { gateSteps } from '../gates/next-gate-step.ts';
import { type CarriedOut } from '../reconcile/carry-out.ts';
import { type Reserved, Term } from '../reconcile/term.ts';
import { type ControllerLog } from '../report/controller-log.ts';
import { type ControllerState } from '../report/state.ts';
import { type Settings } from '../world/world.ts';
import { FirstPools } from './first-pools.ts';

/** What a controller needs of the world. */
export interface ControllerPorts {
  readonly route: ApiRoute;
  readonly client: ObjectClient;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: ControllerLog;
}

/** What a controller is told at its start. */
export interface ControllerSettings extends Settings {
  readonly namespace: string;
  /** Of this process, and of no other that ever was. */
  readonly identity: string;
  readonly reserved: Reserved;
}

/** 20 writes a second for all of the controller (S7). */
const pace = { capacity: 20, refillMs: 50 };

/** Waits until it leads, and then takes steps, from `start` to `stop`. */
export class Controller {
  readonly #ports: ControllerPorts;
  readonly #settings: ControllerSettings;
  readonly #election: LeaderElection;
  readonly #pace: TokenQueue;
  readonly #writes = new Map<CarriedOut['result'], number>();
  #term: Term | null = null;
  #firstPools: FirstPools | null = null;
  /** Terms end one after the other: none begins before the writes of the one before have ended. */
  #turns: Promise<void> = Promise.resolve();

  constructor(ports: ControllerPorts, settings: ControllerSettings) {
    this.#ports = ports;
    this.#settings = settings;
    const { client, clock, random, log } = ports;
    this.#pace = new TokenQueue(pace, clock);
    this.#election = new LeaderElection({
      ...{ client, clock, random },
      lease: { namespace: settings.namespace, name: electionLease },
      identity: settings.identity,
      onElected: () => {
        log.elected();
        this.#queueTurn(() => {
          this.#beginTerm();
        });
      },
      onLost: () => {
        log.deposed();
        this.#queueTurn(() => this.#endTerm());
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
  }

  /** Ends its writes, then gives the Lease back. */
  async stop(): Promise<void> {
    this.#queueTurn(() => this.#endTerm());
    await this.#turns;
    await this.#election.stop();
    // Elected meanwhile, it would have begun another.
    this.#queueTurn(() => this.#endTerm());
    await this.#turns;
  }

  /** How it does now. */
  get state(): ControllerState {
    const term = this.#term?.hasBegun === true ? this.#term : null;
    const { kinds, unreadable } = this.#term ?? { kinds: new Map<string, boolean>(), unreadable: [] };
    return {
      isLeading: this.#election.writeMs > 0,
      holder: this.#election.holder,
      ...{ kinds, unreadable },
      world: term?.world ?? null,
      statistics: term?.statistics ?? null,
      writes: this.#writes,
    };
  }

  #queueTurn(turn: () => Promise<void> | void): void {
    this.#turns = this.#turns.then(turn);
  }

  #beginTerm(): void {
    // It may have lost the Lease while the term before ended.
    if (this.#election.writeMs === 0) return;
    const { log } = this.#ports;
    const term: Term = new Term({
      ...this.#ports,
      settings: this.#settings,
      gateSteps,
      namespace: this.#settings.namespace,
      electionLease,
      reserved: this.#settings.reserved,
      pace: this.#pace,
      writeMs: () => this.#election.writeMs,
      onBegun: () => {
        log.begun(term.world);
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
        log.failed(key, outcome, failures, term.world);
      },
      onError: (key, error) => {
        log.broken(key, error);
      },
    });
    const firstPools = this.#makeFirstPools();
    this.#term = term;
    this.#firstPools = firstPools;
    term.start();
  }

  async #endTerm(): Promise<void> {
    const [term, firstPools] = [this.#term, this.#firstPools];
    this.#term = null;
    this.#firstPools = null;
    await Promise.all([term?.stop(), firstPools?.stop()]);
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

  #count(result: CarriedOut['result']): void {
    this.#writes.set(result, (this.#writes.get(result) ?? 0) + 1);
  }
}
