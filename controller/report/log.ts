import type { Clock } from '../../lib/clock.ts';
import type { StepKey, Known } from '../cache/known.ts';
import { describeContest } from '../cache/parts.ts';
import type { Regarding, EventRecorder } from '../../lib/telemetry/events.ts';
import { type ErrorCode, type VipnatError, findErrorCode } from '../../lib/errors.ts';
import type { Logger } from '../../lib/telemetry/log.ts';
import { firstPools } from '../../lib/api/vipnat.ts';
import { type Unreadable, describeUnreadable } from '../../lib/kubernetes/client.ts';
import { type StepEvent, formatKey } from '../step.ts';
import type { Execution } from '../engine.ts';
import type { CertificateStep, ReadPair } from '../webhook/certificate.ts';

/** Lines about the kinds of objects that somebody follows. */
class FollowLog {
  protected readonly logger: Logger;
  readonly #who: string;
  protected readonly lost = new Set<string>();
  /** What was answered to the last write that was not taken. */
  protected problem = '';

  constructor(logger: Logger, who: string) {
    this.logger = logger;
    this.#who = who;
  }

  /** What is not as it has to be, once for each answer in a row. */
  protected reportProblem(what: string, detail: string): void {
    const level = this.problem === detail ? 'debug' : 'warn';
    this.problem = detail;
    this.logger[level](`${what}: ${detail}. vipnat tries again`, { code: 'API_ANSWER_UNEXPECTED' });
  }

  readonly onLost = (kind: string, { code, message }: VipnatError): void => {
    const level = this.lost.has(kind) ? 'debug' : 'warn';
    this.lost.add(kind);
    this.logger[level](`${this.#who} cannot follow ${kind}s: ${message}. It keeps trying`, { code });
  };

  readonly onUnreadable = (kind: string, unreadable: Unreadable): void => {
    this.logger.warn(describeUnreadable(kind, unreadable), { code: 'API_ANSWER_UNEXPECTED' });
  };

  readonly onFollowed = (kind: string): void => {
    if (this.lost.delete(kind)) this.logger.info(`${this.#who} follows ${kind}s again`);
    else this.logger.debug(`${this.#who} follows ${kind}s`);
  };
}

/** Longer than from one attempt at the Lease to the next. */
const apiAwayMs = 30_000;

const outcomeToCode = new Map<string, ErrorCode>([
  ['forbidden', 'API_FORBIDDEN'],
  ['unreachable', 'API_UNREACHABLE'],
]);

/** What the controller reports: lines of its log, and events about Services, addresses and pools. */
export class ControllerLog extends FollowLog {
  readonly #events: EventRecorder;
  readonly #clock: Clock;
  /** When the Lease could not be read or written the last time. */
  #leaseFailedAt = -Infinity;
  /** Keys to when their last failure was reported, and how many in a row there were before the last one. */
  readonly #keyToReport = new Map<string, Readonly<Record<'atMs' | 'failures', number>>>();

  constructor(logger: Logger, events: EventRecorder, clock: Clock) {
    super(logger, 'vipnat');
    this.#events = events;
    this.#clock = clock;
  }

  readonly onElected = (): void => {
    this.logger.info('this controller leads: it reads all objects, then it takes steps');
  };

  readonly onBegun = (known: Pick<Known, 'services' | 'virtualIps' | 'pools'>): void => {
    const { services, virtualIps, pools } = known;
    const counts = `${pools.size} pools, ${virtualIps.size} virtual IPs and ${services.size} Services`;
    this.logger.info(`this controller knows ${counts}, and takes steps from now on`);
  };

  readonly onPoolCreated = (pool: string): void => {
    this.logger.info(`AddressPool/${pool}: created, as the ConfigMap ${firstPools} asks for it`);
  };

  readonly onPoolExisting = (pool: string): void => {
    const remedy = `To change its addresses, run: kubectl edit addresspool ${pool}`;
    this.logger.info(
      `AddressPool/${pool}: it exists, so the ConfigMap ${firstPools} changes nothing. ${remedy}`,
    );
  };

  readonly onPoolsProblem = (detail: string): void => {
    this.reportProblem(`the pools of the ConfigMap ${firstPools} are not created yet`, detail);
  };

  readonly onDeposed = (): void => {
    this.lost.clear();
    this.logger.warn('this controller leads no more, and writes nothing: it could not renew its Lease');
  };

  readonly onLeader = (leader: string): void => {
    this.logger.info(`${leader} leads. This controller waits`);
  };

  readonly onLeaseProblem = ({ outcome, detail }: Readonly<Record<'outcome' | 'detail', string>>): void => {
    const level = this.#isApiAway ? 'debug' : 'warn';
    this.#leaseFailedAt = this.#clock.now();
    const code = outcomeToCode.get(outcome) ?? 'API_ANSWER_UNEXPECTED';
    this.logger[level](`this controller cannot use its Lease: ${detail}. It keeps trying`, { code });
  };

  get #isApiAway(): boolean {
    return this.#clock.now() - this.#leaseFailedAt < apiAwayMs;
  }

  readonly onWritten = (key: StepKey, event: StepEvent | null, regarding: Regarding | null): void => {
    this.#keyToReport.delete(formatKey(key));
    if (event === null) {
      this.logger.debug(`${formatKey(key)}: one step is done`);
      return;
    }
    const { type, reason, message } = event;
    this.logger[type === 'Normal' ? 'info' : 'warn'](`${formatKey(key)}: ${message.replace(/\.$/, '')}`);
    if (regarding !== null) this.#events.record(reason, message, regarding);
  };

  /**
   * A step is not done. While the Lease cannot be used the API is away, and the Lease says so. A webhook that does not answer, or an
   * apiserver that has too much to do, fails writes one by one.
   */
  readonly onFailed = (
    key: StepKey,
    { result, detail }: Execution,
    failures: number,
    regarding: Regarding | null,
  ): void => {
    const isOfApi = result === 'refused' || (result === 'unknown' && !this.#isApiAway);
    const isNotified = isOfApi && this.#shouldReport(formatKey(key), failures);
    const code = result === 'refused' ? 'API_FORBIDDEN' : 'API_UNREACHABLE';
    const line = `${formatKey(key)}: ${detail}. vipnat tries again`;
    this.logger[isNotified ? 'warn' : 'debug'](line, result === 'stale' ? {} : { code });
    if (isNotified && regarding !== null) this.#events.record('WriteFailed', `${detail}.`, regarding);
  };

  /**
   * The third failure of a key in a row is reported, and once an hour as long as the row continues. `failures` of them came right before
   * this one. Fewer than before mean that the row had an end in between.
   */
  #shouldReport(key: string, failures: number): boolean {
    if (failures < reportedFailures) return false;
    const now = this.#clock.now();
    const reported = this.#keyToReport.get(key);
    const isOld =
      reported === undefined || failures < reported.failures || now - reported.atMs >= reportAgainMs;
    this.#keyToReport.delete(key);
    this.#keyToReport.set(key, { atMs: isOld ? now : reported.atMs, failures });
    const [oldest] = this.#keyToReport.keys();
    if (this.#keyToReport.size > maxKeys && oldest !== undefined) this.#keyToReport.delete(oldest);
    return isOld;
  }

  readonly onConflict = (key: StepKey, managers: readonly string[], regarding: Regarding | null): void => {
    const message = describeContest(managers);
    this.logger.warn(`${formatKey(key)}: ${message.replace(/\.$/, '')}`);
    if (regarding !== null) this.#events.record('WriteConflict', message, regarding);
  };

  readonly onError = (key: StepKey, error: unknown): void => {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.logger.error(`${formatKey(key)}: a step failed. vipnat tries again`, {
      code: findErrorCode(error),
      details: text,
    });
  };
}

/** The third failure in a row is reported: two can be another's writes at the same moment. */
const reportedFailures = 2;

/** An event is kept for an hour. */
const reportAgainMs = 3_600_000;

/** As many keys as can fail at a time before one that was reported may be reported early. */
const maxKeys = 10_000;

const stepToLine: Readonly<Record<CertificateStep['step'], string>> = {
  make: 'the controller made a certificate for the webhook. API servers trust it before it is used',
  trust: "the controller wrote into the webhook's configuration which certificates API servers trust",
  serve: 'all controllers serve the webhook with the new certificate from now on',
  wait: '',
};

/** What the webhook reports: lines of the controller's log. */
export class WebhookLog extends FollowLog {
  constructor(logger: Logger) {
    super(logger, 'the webhook');
  }

  readonly onStep = (step: CertificateStep['step'], pair: ReadPair | null): void => {
    this.problem = '';
    this.logger.info(`${stepToLine[step]}${pair === null ? '' : `. It ends on ${toDay(pair)}`}`);
  };

  readonly onProblem = (detail: string): void => {
    this.reportProblem("the webhook's certificate is not as it has to be", detail);
  };

  readonly onServes = (pair: ReadPair): void => {
    this.logger.info(`the webhook of this controller has a certificate that ends on ${toDay(pair)}`);
  };

  readonly onCannotListen = ({ message, code }: VipnatError): void => {
    this.logger.warn(message, { code });
  };

  readonly onListens = (port: number): void => {
    this.logger.info(`the webhook is now served at port ${port}`);
  };
}

function toDay({ untilMs }: ReadPair): string {
  return new Date(untilMs).toISOString().slice(0, 10);
}
