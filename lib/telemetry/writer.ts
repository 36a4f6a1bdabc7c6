import { VipnatError } from '../text/errors.ts';
import { type Clock } from '../control/clock.ts';
import { Pause } from '../control/pause.ts';
import { type Random } from '../control/random.ts';
import { createEvent, type EventAnswer, updateSeries } from '../kubernetes/event-request.ts';
import { type ApiRoute } from '../kubernetes/route.ts';
import { type Logger } from './logger.ts';
import { backOff } from '../control/backoff.ts';
import { toApiEvent } from './event.ts';
import { EventQueue, type QueuedEvent } from './queue.ts';
import { type EventReason } from './reasons.ts';
import { type EventRecorder } from './recorder.ts';
import { type Regarding, toNodeRegarding } from './regarding.ts';

/** What writing events needs of the world. */
export interface EventWriterOptions {
  readonly route: ApiRoute;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** The name of this host's Node: who reports, and what an event is about that names no other object. */
  readonly node: string;
}

const firstRetryMs = 500;
const maxRetryMs = 30_000;

/** A right is given by people. */
const forbiddenRetryMs = 60_000;

/** Who ends does not wait longer for an API that hangs. */
const stopMs = 500;

/**
 * Writes events one after the other, in the background, for as long as it takes. While the API is away
 * they wait; only a missing right is said, once.
 */
export class EventWriter implements EventRecorder {
  readonly #options: EventWriterOptions;
  readonly #queue: EventQueue;
  readonly #created = new WeakSet<QueuedEvent>();
  readonly #aborting = new AbortController();
  #isStopped = false;
  #isForbidden = false;
  #failures = 0;
  #saidLeftOut = 0;
  readonly #pause: Pause;
  #writing: Promise<void> | null = null;

  constructor(options: EventWriterOptions) {
    this.#options = options;
    this.#queue = new EventQueue(options.clock);
    this.#pause = new Pause(options.clock);
  }

  record(reason: EventReason, note: string, regarding?: Regarding): void {
    if (this.#isStopped) return;
    this.#queue.add(reason, note, regarding ?? toNodeRegarding(this.#options.node));
    this.#sayLeftOut();
    this.#writing ??= this.#writeAll().finally(() => (this.#writing = null));
  }

  /** Ends a moment later, with what is under way written or given up. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#pause.wake();
    const cancel = this.#options.clock.schedule(stopMs, () => {
      this.#aborting.abort();
    });
    await this.#writing;
    cancel();
  }

  async #writeAll(): Promise<void> {
    for (let event = this.#queue.take(); event !== null; event = this.#queue.take()) {
      const waitMs = await this.#write(event);
      if (waitMs === 0) continue;
      this.#queue.putBack(event);
      if (this.#isStopped) return;
      await this.#pause.wait(waitMs);
      this.#sayLeftOut();
    }
  }

  /** Answers how long to wait until the next try; 0 when there is nothing more to do for this one. */
  async #write(event: QueuedEvent): Promise<number> {
    try {
      const answer = await this.#send(event);
      this.#failures = 0;
      if (answer.outcome === 'forbidden') return this.#sayForbidden(answer);
      if (answer.outcome === 'taken') this.#sayAllowed();
      else this.#options.logger.debug(`vipnat left out an event: ${answer.words}`);
      return 0;
    } catch (error) {
      return this.#fail(error);
    }
  }

  async #send(event: QueuedEvent): Promise<EventAnswer> {
    const { route, clock, node } = this.#options;
    const connection = await route.choose();
    const options = { ...connection, clock, forbidden: route.forbidden, signal: this.#aborting.signal };
    const object = toApiEvent(event.latest, node);
    try {
      let answer: EventAnswer | null = null;
      if (this.#created.has(event)) answer = await updateSeries(options, object);
      if (answer === null || answer.outcome === 'gone') answer = await createEvent(options, object);
      if (answer.outcome === 'taken') this.#created.add(event);
      return answer;
    } catch (error) {
      route.markFailed(connection.server);
      throw error;
    }
  }

  #sayForbidden({ words }: EventAnswer): number {
    const what = `vipnat cannot write events: ${words}. Allow its credentials to create and patch events.events.k8s.io in the namespace default`;
    this.#options.logger[this.#isForbidden ? 'debug' : 'warn'](what, { code: 'API_FORBIDDEN' });
    this.#isForbidden = true;
    return forbiddenRetryMs;
  }

  #sayLeftOut(): void {
    const { leftOut } = this.#queue;
    if (leftOut === this.#saidLeftOut) return;
    this.#saidLeftOut = leftOut;
    this.#options.logger.debug(`vipnat has left out ${leftOut} events so far: too many, or too old`);
  }

  #sayAllowed(): void {
    if (this.#isForbidden) this.#options.logger.info('vipnat writes events again');
    this.#isForbidden = false;
  }

  /** Whether the API can be reached is for its followers to say. */
  #fail(error: unknown): number {
    const { random, logger } = this.#options;
    const waitMs = backOff(this.#failures, firstRetryMs, maxRetryMs) * (0.5 + random() / 2);
    this.#failures += 1;
    const code = error instanceof VipnatError ? { code: error.code } : {};
    const text = error instanceof Error ? error.message : String(error);
    logger.debug(`an event waits: ${text}. vipnat tries again in ${Math.round(waitMs)} ms`, code);
    return waitMs;
  }
}
