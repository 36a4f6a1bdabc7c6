import { type Clock } from '../../lib/control/clock.ts';
import { describeUnreadable, type Unreadable } from '../../lib/kubernetes/errors.ts';
import { type EventRecorder } from '../../lib/telemetry/recorder.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { type ErrorCode, findErrorCode, type VipnatError } from '../../lib/text/errors.ts';
import { type Execution } from '../engine/execute.ts';
import { firstPools } from '../../lib/services/names.ts';
import { formatKey, type StepEvent } from '../engine/step.ts';
import { type StepKey } from '../cache/watch.ts';
import { type World } from '../cache/world.ts';
import { toRegarding } from '../kinds/kinds.ts';
import { describeContest } from '../cache/object-parts.ts';

/** Longer than from one attempt at the Lease to the next. */
const apiAwayMs = 30_000;

const outcomeToCode = new Map<string, ErrorCode>([
  ['forbidden', 'API_FORBIDDEN'],
  ['unreachable', 'API_UNREACHABLE'],
]);

/** What the controller tells: lines of its log, and events about Services, addresses and pools. */
export class ControllerLog {
  readonly #logger: Logger;
  readonly #events: EventRecorder;
  readonly #clock: Clock;
  /** When the Lease could not be read or written the last time. */
  #leaseFailedAt = -Infinity;
  /** Kinds of objects that cannot be followed. */
  readonly #lost = new Set<string>();
  /** Why pools of the manifest could not be created, as it was told last. */
  #poolsProblem = '';
  readonly #failures: ToldFailures;

  constructor(logger: Logger, events: EventRecorder, clock: Clock) {
    this.#logger = logger;
    this.#events = events;
    this.#clock = clock;
    this.#failures = new ToldFailures(clock);
  }

  /** This process leads. */
  elected(): void {
    this.#logger.info('this controller leads: it reads all objects, then it takes steps');
  }

  /** All objects are known. */
  begun({ services, virtualIps, pools }: World): void {
    const counts = `${pools.size} pools, ${virtualIps.size} virtual IPs and ${services.size} Services`;
    this.#logger.info(`this controller knows ${counts}, and takes steps from now on`);
  }

  /** A pool of the manifest was created. */
  poolCreated(pool: string): void {
    this.#logger.info(`AddressPool/${pool}: created, as the ConfigMap ${firstPools} asks for it`);
  }

  /** A pool of the manifest was there before. */
  poolExists(pool: string): void {
    const remedy = `To change its addresses, run: kubectl edit addresspool ${pool}`;
    this.#logger.info(
      `AddressPool/${pool}: it exists, so the ConfigMap ${firstPools} changes nothing. ${remedy}`,
    );
  }

  /** Pools of the manifest could not be created. */
  poolsWait(words: string): void {
    const line = `the pools of the ConfigMap ${firstPools} are not created yet: ${words}. vipnat tries again`;
    const level = this.#poolsProblem === words ? 'debug' : 'warn';
    this.#poolsProblem = words;
    this.#logger[level](line, { code: 'API_ANSWER_UNEXPECTED' });
  }

  /** It leads no more. */
  deposed(): void {
    this.#lost.clear();
    this.#logger.warn('this controller leads no more, and writes nothing: it could not renew its Lease');
  }

  /** Another one leads. */
  waits(holder: string): void {
    this.#logger.info(`${holder} leads. This controller waits`);
  }

  /** The Lease cannot be read or written. */
  leaseProblem({ outcome, words }: { readonly outcome: string; readonly words: string }): void {
    const level = this.#isApiAway ? 'debug' : 'warn';
    this.#leaseFailedAt = this.#clock.now();
    const code = outcomeToCode.get(outcome) ?? 'API_ANSWER_UNEXPECTED';
    this.#logger[level](`this controller cannot use its Lease: ${words}. It keeps trying`, { code });
  }

  get #isApiAway(): boolean {
    return this.#clock.now() - this.#leaseFailedAt < apiAwayMs;
  }

  /** A kind of objects cannot be followed. */
  lost(kind: string, { code, message }: VipnatError): void {
    const level = this.#lost.has(kind) ? 'debug' : 'warn';
    this.#lost.add(kind);
    this.#logger[level](`vipnat cannot follow ${kind}s: ${message}. It keeps trying`, { code });
  }

  /** An object cannot be read. */
  unreadable(kind: string, unreadable: Unreadable): void {
    this.#logger.warn(describeUnreadable(kind, unreadable), { code: 'API_ANSWER_UNEXPECTED' });
  }

  /** It is followed. */
  followed(kind: string): void {
    if (this.#lost.delete(kind)) this.#logger.info(`vipnat follows ${kind}s again`);
    else this.#logger.debug(`vipnat follows ${kind}s`);
  }

  /** A step is done. */
  written(key: StepKey, event: StepEvent | null, world: World): void {
    this.#failures.end(formatKey(key));
    if (event === null) {
      this.#logger.debug(`${formatKey(key)}: one step is done`);
      return;
    }
    const { type, reason, message } = event;
    this.#logger[type === 'Normal' ? 'info' : 'warn'](`${formatKey(key)}: ${message.replace(/\.$/, '')}`);
    const regarding = toRegarding(key, world);
    if (regarding !== null) this.#events.record(reason, message, regarding);
  }

  /**
   * A step is not done. While the Lease cannot be used the API is away, and the Lease says so. A webhook that does not answer, or an
   * apiserver that has too much to do, fails writes one by one.
   */
  failed(key: StepKey, { result, words }: Execution, failures: number, world: World): void {
    const isOfApi = result === 'refused' || (result === 'unknown' && !this.#isApiAway);
    const isTold = isOfApi && this.#failures.isToTell(formatKey(key), failures);
    const code = result === 'refused' ? 'API_FORBIDDEN' : 'API_UNREACHABLE';
    const line = `${formatKey(key)}: ${words}. vipnat tries again`;
    this.#logger[isTold ? 'warn' : 'debug'](line, result === 'stale' ? {} : { code });
    const regarding = toRegarding(key, world);
    if (isTold && regarding !== null) this.#events.record('WriteFailed', `${words}.`, regarding);
  }

  /** What is written does not stay. */
  contested(key: StepKey, managers: readonly string[], world: World): void {
    const message = describeContest(managers);
    this.#logger.warn(`${formatKey(key)}: ${message.replace(/\.$/, '')}`);
    const regarding = toRegarding(key, world);
    if (regarding !== null) this.#events.record('WriteContested', message, regarding);
  }

  /** A fault of ours. */
  broken(key: StepKey, error: unknown): void {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.#logger.error(`${formatKey(key)}: a step failed. vipnat tries again`, {
      code: findErrorCode(error),
      details: text,
    });
  }
}

/** The third failure in a row is told: two can be another's writes at the same moment. */
const toldFailures = 2;

/** An event is kept for an hour. */
const toldAgainMs = 3_600_000;

/** As many keys as can fail at a time before one that was told may be told early. */
const maxKeys = 10_000;

interface Told {
  readonly atMs: number;
  /** How many failures in a row there were before. */
  readonly failures: number;
}

/** Which failures of a key are told: the third in a row, and once an hour as long as the row goes on. */
export class ToldFailures {
  readonly #clock: Clock;
  readonly #keyToTold = new Map<string, Told>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `failures` failures of this key came right before this one. Fewer than before mean that it had an end in between. */
  isToTell(key: string, failures: number): boolean {
    if (failures < toldFailures) return false;
    const now = this.#clock.now();
    const told = this.#keyToTold.get(key);
    const isOld = told === undefined || failures < told.failures || now - told.atMs >= toldAgainMs;
    this.#keyToTold.delete(key);
    this.#keyToTold.set(key, { atMs: isOld ? now : told.atMs, failures });
    const [oldest] = this.#keyToTold.keys();
    if (this.#keyToTold.size > maxKeys && oldest !== undefined) this.#keyToTold.delete(oldest);
    return isOld;
  }

  /** The row of a key has an end. */
  end(key: string): void {
    this.#keyToTold.delete(key);
  }
}
