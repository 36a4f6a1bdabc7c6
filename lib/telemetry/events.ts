import { type ApiEvent, type EventAnswer, updateSeries, createEvent } from '../kubernetes/writes.ts';
import { toPrintableLine } from '../text.ts';
import {
  type Budget,
  type Bucket,
  type Clock,
  takeToken,
  fillBucket,
  refill,
  type Random,
  Pause,
  backOff,
  toMicroTime,
} from '../clock.ts';
import type { ApiRoute } from '../kubernetes/route.ts';
import type { Logger } from './log.ts';
import { VipnatError } from '../errors.ts';

/** Source: the validation of events.k8s.io/v1 in kube-apiserver 1.36; lengths are in bytes. */
const maxNoteBytes = 1024;
const maxInstanceLength = 128;

/** An object's name has at most 253 characters; a stamp in hexadecimal digits has 14 of them until the year 4253. */
const maxNamePrefixLength = 235;

/** An event as the API takes it: in the namespace of its object, or in the one that it has for what has none. Pure. */
export function toApiEvent(event: RecordedEvent, reporter: string): ApiEvent {
  const { reason, note, regarding, stamp, firstSeen, lastSeen, count } = event;
  const prefix = regarding.name.slice(0, maxNamePrefixLength).replace(/[.-]+$/, '');
  return {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: { name: `${prefix}.${stamp.toString(16)}`, namespace: regarding.namespace ?? 'default' },
    eventTime: toMicroTime(firstSeen),
    reportingController: 'vipnat',
    reportingInstance: reporter.slice(0, maxInstanceLength),
    ...eventCatalogue[reason],
    reason,
    regarding,
    note: cutBytes(toPrintableLine(note), maxNoteBytes),
    ...(count === 1 ? {} : { series: { count, lastObservedTime: toMicroTime(lastSeen) } }),
  };
}

/** As much of a text as has so many bytes, with a sign that there was more, and no half characters. */
function cutBytes(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return text;
  const more = '…';
  // As a stream: of a character that is cut in two, it waits for the rest.
  const kept = new TextDecoder().decode(bytes.subarray(0, maxBytes - Buffer.byteLength(more)), {
    stream: true,
  });
  return `${kept}${more}`;
}

/**
 * Which events are written, and when.
 *
 * Goal: what happens on a node is reported once, and a flapping apiserver cannot bury the API or the other events.
 * Tension: the API is away just when most happens, and a limit that counts everything lets repeats drown news.
 * Compromise: as client-go's EventCorrelator, but with a bucket for news and one for repeats. The same again within ten
 * minutes makes a series of the first; a repeat that finds no token is reported by the next that does. The buckets bound
 * what waits for an API that is away, too.
 */

/** client-go's defaults for the events about one object (tools/record, EventSourceObjectSpamFilter). */
const budget: Budget = { capacity: 25, refillMs: 5 * 60_000 };

/** client-go's default interval: what has not happened for so long begins a series of its own. */
const seriesMs = 10 * 60_000;

/** kube-apiserver keeps events for an hour (--event-ttl): what is older would be no news to anybody. */
const maxWaitMs = 60 * 60_000;

/** Something that happened, once or again and again. */
export interface RecordedEvent {
  readonly reason: EventReason;
  readonly note: string;
  readonly regarding: Regarding;
  /** Different for each, and growing: microseconds since 1970, or one more than the one before. */
  readonly stamp: number;
  readonly firstSeen: Date;
  readonly lastSeen: Date;
  readonly count: number;
}

/** What the events about one object may still cost. */
type Buckets = Readonly<Record<'news' | 'repeats', Bucket>>;

/** An event and its repeats, by which `latest` grows. */
interface Series {
  latest: RecordedEvent;
  reachedAt: number;
}

/** Events that wait to be written, oldest first. */
export class EventQueue {
  readonly #clock: Clock;
  readonly #keyToSeries = new Map<string, Series>();
  readonly #waiting = new Set<Series>();
  readonly #objectToBuckets = new Map<string, Buckets>();
  #stamp = 0;
  #leftOut = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** How many events, repeats apart, will never be reported. */
  get leftOut(): number {
    return this.#leftOut;
  }

  /** Something happened. It waits from now on, unless its budget is spent. */
  add(reason: EventReason, note: string, regarding: Regarding): void {
    this.#forget();
    // `refused 5 ms after` is the same news as `refused 7 ms after`; and so with `16 s`, `8m33s`, `2h05m`.
    const news = note.replaceAll(/\b\d+(?:\.\d+)?(?: (?:ms|s|d)|[hm]\d\d[ms]|ms)\b/g, '…');
    const key = `${toObjectKey(regarding)} ${reason} ${news}`;
    const series = this.#keyToSeries.get(key);
    if (series === undefined) this.#begin(key, { reason, note, regarding });
    else this.#repeat(series);
  }

  /** What waits longest, which then waits no more; null when nothing does. */
  take(): Series | null {
    for (const series of this.#waiting) {
      this.#waiting.delete(series);
      if (this.#clock.now() - series.reachedAt <= maxWaitMs) return series;
      this.#leftOut += 1;
    }
    return null;
  }

  /** What was taken could not be written: it is the next again. */
  putBack(event: Series): void {
    const rest = [...this.#waiting].filter((one) => one !== event);
    this.#waiting.clear();
    for (const one of [event, ...rest]) this.#waiting.add(one);
  }

  #begin(key: string, what: Pick<RecordedEvent, 'reason' | 'note' | 'regarding'>): void {
    if (!this.#spend(what.regarding, 'news')) {
      this.#leftOut += 1;
      return;
    }
    const date = this.#clock.date();
    this.#stamp = Math.max(this.#stamp + 1, date.getTime() * 1000);
    const latest = { ...what, stamp: this.#stamp, firstSeen: date, lastSeen: date, count: 1 };
    const series = { latest, reachedAt: this.#clock.now() };
    this.#keyToSeries.set(key, series);
    this.#waiting.add(series);
  }

  #repeat(series: Series): void {
    const { latest } = series;
    series.latest = { ...latest, lastSeen: this.#clock.date(), count: latest.count + 1 };
    series.reachedAt = this.#clock.now();
    if (!this.#waiting.has(series) && this.#spend(latest.regarding, 'repeats')) this.#waiting.add(series);
  }

  /** Whether one more event about an object may be written. It counts as soon as it may. */
  #spend(regarding: Regarding, kind: keyof Buckets): boolean {
    const key = toObjectKey(regarding);
    const now = this.#clock.now();
    const full = fillBucket(budget, now);
    const buckets = this.#objectToBuckets.get(key) ?? { news: full, repeats: full };
    const { bucket, waitMs } = takeToken(budget, buckets[kind], now);
    this.#objectToBuckets.set(key, { ...buckets, [kind]: bucket });
    return waitMs === 0;
  }

  /** What has been quiet for long enough is as if it had never been. */
  #forget(): void {
    for (const [key, { reachedAt }] of this.#keyToSeries) {
      if (this.#clock.now() - reachedAt > seriesMs) this.#keyToSeries.delete(key);
    }
    for (const [key, { news, repeats }] of this.#objectToBuckets) {
      const isFull = (bucket: Bucket) => refill(budget, bucket, this.#clock.now()).tokens === budget.capacity;
      if (isFull(news) && isFull(repeats)) this.#objectToBuckets.delete(key);
    }
  }
}

function toObjectKey({ kind, uid }: Regarding): string {
  return `${kind} ${uid}`;
}

/** Who makes Kubernetes events of what happens. The real one is `EventWriter`. */
export interface EventRecorder {
  /**
   * Something happened. Returns immediately and never throws, whatever becomes of the event. The note is a sentence as in
   * the log; the same again, whatever durations are in it, is a repeat. It is
   * about this host's node unless it is about another object.
   */
  record(reason: EventReason, note: string, regarding?: Regarding): void;
}

/** No credentials are configured: nothing is reported. */
export const noEvents: EventRecorder = { record: () => undefined };

/** The fields of an event next to its sentence. */
interface EventKind {
  /** `Warning` for what an administrator may have to act on. */
  readonly type: 'Normal' | 'Warning';
  /** What vipnat was doing, for programs. */
  readonly action: 'Balance' | 'Probe' | 'Repair' | 'Serve' | 'Run' | 'Allocate';
}

/** What the agent reports of its node. */
export const nodeEvents = {
  ModeChosen: { type: 'Normal', action: 'Balance' },
  Bypassing: { type: 'Warning', action: 'Balance' },
  NotBalanced: { type: 'Warning', action: 'Balance' },
  ApiserverDead: { type: 'Warning', action: 'Probe' },
  ApiserverDraining: { type: 'Warning', action: 'Probe' },
  ApiserverReady: { type: 'Normal', action: 'Probe' },
  RulesRepaired: { type: 'Warning', action: 'Repair' },
  RuleConflict: { type: 'Warning', action: 'Repair' },
  RulesUncontested: { type: 'Normal', action: 'Repair' },
  CannotServe: { type: 'Warning', action: 'Serve' },
  CanServe: { type: 'Normal', action: 'Serve' },
  VipConflict: { type: 'Warning', action: 'Serve' },
  VipUncontested: { type: 'Normal', action: 'Serve' },
  AgentFailing: { type: 'Warning', action: 'Run' },
  AgentRecovered: { type: 'Normal', action: 'Run' },
} as const satisfies Record<string, EventKind>;

/** Everything that events report. The reason is the contract. cli/reference.ts has the meaning of each. */
export const eventCatalogue = {
  ...nodeEvents,
  // What the controller reports of Services, addresses and pools.
  AddressAllocated: { type: 'Normal', action: 'Allocate' },
  AddressReady: { type: 'Normal', action: 'Allocate' },
  AddressReleased: { type: 'Normal', action: 'Allocate' },
  AddressInUse: { type: 'Warning', action: 'Allocate' },
  AddressKept: { type: 'Warning', action: 'Allocate' },
  NoAddress: { type: 'Warning', action: 'Allocate' },
  NotAsAsked: { type: 'Warning', action: 'Allocate' },
  PoolRefused: { type: 'Warning', action: 'Allocate' },
  NodeReportsAddress: { type: 'Warning', action: 'Allocate' },
  PortNotSupported: { type: 'Warning', action: 'Allocate' },
  DeviceReady: { type: 'Normal', action: 'Allocate' },
  DeviceFailed: { type: 'Warning', action: 'Allocate' },
  DeviceRefused: { type: 'Warning', action: 'Allocate' },
  GateTimedOut: { type: 'Warning', action: 'Allocate' },
  WriteFailed: { type: 'Warning', action: 'Allocate' },
  WriteConflict: { type: 'Warning', action: 'Allocate' },
} as const satisfies Record<string, EventKind>;

/** Why there is an event, in CamelCase, as `kubectl get events` shows it. */
export type EventReason = keyof typeof eventCatalogue;

/** The object that an event is about, as events.k8s.io/v1 has it. */
export interface Regarding {
  readonly apiVersion: string;
  readonly kind: string;
  /** Left out for what has no namespace. */
  readonly namespace?: string;
  readonly name: string;
  readonly uid: string;
}

/** A node. It is what `kubectl describe node` searches for: by the kubelet's custom, a node's uid is its name. */
export function toNodeRegarding(node: string): Regarding {
  return { apiVersion: 'v1', kind: 'Node', name: node, uid: node };
}

interface EventWriterOptions {
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
  readonly #created = new WeakSet<Series>();
  readonly #aborting = new AbortController();
  #isStopped = false;
  #isForbidden = false;
  #failures = 0;
  #reportedLeftOut = 0;
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
    this.#reportLeftOut();
    this.#writing ??= this.#writeAll().finally(() => (this.#writing = null));
  }

  /** Ends a moment later, with what is in progress written or given up. */
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
      this.#reportLeftOut();
    }
  }

  /** Answers how long to wait until the next try; 0 when there is nothing more to do for this one. */
  async #write(event: Series): Promise<number> {
    try {
      const answer = await this.#send(event);
      this.#failures = 0;
      if (answer.outcome === 'forbidden') return this.#reportForbidden(answer);
      if (answer.outcome === 'taken') {
        if (this.#isForbidden) this.#options.logger.info('vipnat writes events again');
        this.#isForbidden = false;
      } else this.#options.logger.debug(`vipnat left out an event: ${answer.detail}`);
      return 0;
    } catch (error) {
      return this.#fail(error);
    }
  }

  async #send(event: Series): Promise<EventAnswer> {
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

  #reportForbidden({ detail }: EventAnswer): number {
    const what = `vipnat cannot write events: ${detail}. Allow its credentials to create and patch events.events.k8s.io in the namespace default`;
    this.#options.logger[this.#isForbidden ? 'debug' : 'warn'](what, { code: 'API_FORBIDDEN' });
    this.#isForbidden = true;
    return forbiddenRetryMs;
  }

  #reportLeftOut(): void {
    const { leftOut } = this.#queue;
    if (leftOut === this.#reportedLeftOut) return;
    this.#reportedLeftOut = leftOut;
    this.#options.logger.debug(`vipnat has left out ${leftOut} events so far: too many, or too old`);
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
