/**
 * Which events are written, and when.
 *
 * Goal: what happens on a node is told once, and a flapping apiserver cannot bury the API or the other events.
 * Tension: the API is away just when most happens, and a limit that counts everything lets repeats drown news.
 * Compromise: as client-go's EventCorrelator, but with a bucket for news and one for repeats. The same again within ten
 * minutes makes a series of the first; a repeat that finds no token is told by the next that does. The buckets bound
 * what waits for an API that is away, too.
 */
import { type Clock } from '../control/clock.ts';
import { type Bucket, type Budget, fillBucket, refill, takeToken } from '../control/backoff.ts';
import { type EventReason } from './reasons.ts';
import { type Regarding } from './regarding.ts';

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

/** An event on its way: `latest` grows while it repeats. */
export interface QueuedEvent {
  readonly latest: RecordedEvent;
}

/** What the events about one object may still cost. */
interface Buckets {
  news: Bucket;
  repeats: Bucket;
}

interface Series extends QueuedEvent {
  latest: RecordedEvent;
  heardAt: number;
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

  /** How many events, repeats apart, nobody will be told of. */
  get leftOut(): number {
    return this.#leftOut;
  }

  /** Something happened. It waits from now on, unless its budget is spent. */
  add(reason: EventReason, note: string, regarding: Regarding): void {
    this.#forget();
    const key = `${toObjectKey(regarding)} ${reason} ${maskDurations(note)}`;
    const series = this.#keyToSeries.get(key);
    if (series === undefined) this.#begin(key, { reason, note, regarding });
    else this.#repeat(series);
  }

  /** What waits longest, which then waits no more; null when nothing does. */
  take(): QueuedEvent | null {
    for (const series of this.#waiting) {
      this.#waiting.delete(series);
      if (this.#clock.now() - series.heardAt <= maxWaitMs) return series;
      this.#leftOut += 1;
    }
    return null;
  }

  /** What was taken could not be written: it is the next again. */
  putBack(event: QueuedEvent): void {
    const rest = [...this.#waiting].filter((one) => one !== event);
    this.#waiting.clear();
    for (const one of [event as Series, ...rest]) this.#waiting.add(one);
  }

  #begin(key: string, what: Pick<RecordedEvent, 'reason' | 'note' | 'regarding'>): void {
    const now = this.#clock.now();
    const buckets = this.#findBuckets(what.regarding);
    const { bucket, waitMs } = takeToken(budget, buckets.news, now);
    buckets.news = bucket;
    if (waitMs > 0) {
      this.#leftOut += 1;
      return;
    }
    const date = this.#clock.date();
    this.#stamp = Math.max(this.#stamp + 1, date.getTime() * 1000);
    const latest = { ...what, stamp: this.#stamp, firstSeen: date, lastSeen: date, count: 1 };
    const series = { latest, heardAt: now };
    this.#keyToSeries.set(key, series);
    this.#waiting.add(series);
  }

  #repeat(series: Series): void {
    const now = this.#clock.now();
    const { latest } = series;
    series.latest = { ...latest, lastSeen: this.#clock.date(), count: latest.count + 1 };
    series.heardAt = now;
    if (this.#waiting.has(series)) return;
    const buckets = this.#findBuckets(latest.regarding);
    const { bucket, waitMs } = takeToken(budget, buckets.repeats, now);
    buckets.repeats = bucket;
    if (waitMs === 0) this.#waiting.add(series);
  }

  #findBuckets(regarding: Regarding): Buckets {
    const key = toObjectKey(regarding);
    const now = this.#clock.now();
    const known = this.#objectToBuckets.get(key);
    const buckets = known ?? { news: fillBucket(budget, now), repeats: fillBucket(budget, now) };
    if (known === undefined) this.#objectToBuckets.set(key, buckets);
    return buckets;
  }

  /** What has been quiet for long enough is as if it had never been. */
  #forget(): void {
    for (const [key, { heardAt }] of this.#keyToSeries) {
      if (this.#clock.now() - heardAt > seriesMs) this.#keyToSeries.delete(key);
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

/** `refused 5 ms after` is the same news as `refused 7 ms after`; and so with `16 s`, `8m33s`, `2h05m`. */
function maskDurations(note: string): string {
  return note.replaceAll(/\b\d+(?:\.\d+)?(?: (?:ms|s|d)|[hm]\d\d[ms]|ms)\b/g, '…');
}
