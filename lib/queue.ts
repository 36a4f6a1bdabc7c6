import {
  type Budget,
  type Clock,
  type Bucket,
  fillBucket,
  takeToken,
  type Random,
  type Cancel,
  backOff,
  sleep,
} from './clock.ts';

/** Lets through so much and no more, first come first served: who comes too early waits for its turn. */
export class TokenQueue {
  readonly #budget: Budget;
  readonly #clock: Clock;
  #bucket: Bucket;
  #last: Promise<void> = Promise.resolve();

  constructor(budget: Budget, clock: Clock) {
    this.#budget = budget;
    this.#clock = clock;
    this.#bucket = fillBucket(budget, clock.now());
  }

  /** Ends when there is a token for whoever called, after all who called before. */
  take(): Promise<void> {
    this.#last = this.#last.then(() => this.#wait());
    return this.#last;
  }

  async #wait(): Promise<void> {
    for (;;) {
      const { bucket, waitMs } = takeToken(this.#budget, this.#bucket, this.#clock.now());
      this.#bucket = bucket;
      if (waitMs === 0) return;
      await sleep(this.#clock, waitMs);
    }
  }
}

/** Many at the same time, or one alone, in the order in which they came. */
export class SharedLock {
  /** The last one that was alone has ended, and all that share since then. */
  #alone: Promise<unknown> = Promise.resolve();
  #sharing: Promise<unknown> = Promise.resolve();

  /** Begins when all that came before and are alone have ended. */
  share<Result>(act: () => Promise<Result>): Promise<Result> {
    const mine = this.#alone.then(act);
    // Whatever they answer is not kept: each would hold all before it.
    this.#sharing = Promise.allSettled([this.#sharing, mine]).then(() => undefined);
    return mine;
  }

  /** Begins when all that came before have ended; who comes later waits. */
  alone<Result>(act: () => Promise<Result>): Promise<Result> {
    const mine = Promise.allSettled([this.#alone, this.#sharing]).then(act);
    this.#alone = Promise.allSettled([mine]).then(() => undefined);
    return mine;
  }
}

/**
 * Keys that wait for a turn. Groups of keys have their turns one after the other, and keys of one group in the order of their coming: so
 * a group with many keys keeps no other from its turn.
 */
class WaitingKeys {
  readonly #toGroup: (key: string) => string;
  /** The group whose turn it is first. Each has keys, to when each was added. */
  readonly #groups = new Map<string, Map<string, number>>();
  readonly #keyToGroup = new Map<string, string>();

  constructor(toGroup: (key: string) => string) {
    this.#toGroup = toGroup;
  }

  /** How many there are. */
  get size(): number {
    return this.#keyToGroup.size;
  }

  /** When the one that has waited longest was added; null where there is none. */
  get firstAdded(): number | null {
    const first = [...this.#groups.values()].flatMap((keys) => keys.values().next().value ?? []);
    return first.length === 0 ? null : Math.min(...first);
  }

  /** Adds a key, unless it waits. */
  add(key: string, now: number): void {
    if (this.#keyToGroup.has(key)) return;
    const group = this.#toGroup(key);
    this.#keyToGroup.set(key, group);
    const keys = this.#groups.get(group);
    if (keys === undefined) this.#groups.set(group, new Map([[key, now]]));
    else keys.set(key, now);
  }

  /** Takes the key whose turn it is; null where none waits. */
  take(): string | null {
    for (const [group, keys] of this.#groups) {
      this.#groups.delete(group);
      for (const [key] of keys) {
        keys.delete(key);
        this.#keyToGroup.delete(key);
        if (keys.size > 0) this.#groups.set(group, keys);
        return key;
      }
    }
    return null;
  }
}

/**
 * Work by keys, with the semantics of client-go's workqueue: a key is worked on by one worker at a time, however often it is
 * added; one that is added meanwhile is worked on once more afterwards.
 *
 * Goal: a burst about one object costs little, and nothing that was added is ever lost.
 * Tension: an object that cannot be helped must be tried again, and must keep no other from its turn.
 * Compromise: turns are first come, first served within a group of keys, and groups come one after the other. A failure waits in a timer of its own, longer each time, and takes no turn
 * meanwhile; news about its object do not wait for that timer. Of many that fail, one a second is tried again: a server that is overloaded gets few
 * requests, and no key that has not failed waits for them. The first that succeeds brings others along.
 * Turns that await no answer follow each other without an end of the event loop's turn: after some milliseconds timers and sockets come first.
 */

/** What a turn came to. */
export type TurnResult =
  /** Nothing remains to do until the key is added again. Its failures are forgotten. */
  | { readonly kind: 'done' }
  /** The key is to have another turn after so long, at the latest. Its failures are forgotten. */
  | { readonly kind: 'again'; readonly afterMs: number }
  /** It has to be tried again. */
  | { readonly kind: 'failed' };

interface KeyedQueueOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** How many keys are worked on at the same time: asked before each turn. */
  readonly workers: number | (() => number);
  /** What a key is of: keys of one group keep no other group's waiting. All are of one group when left out. */
  readonly toGroup?: (key: string) => string;
  /**
   * One turn of a key. `failures` says how many turns in a row have failed before. One that throws has failed, and `onError` is called.
   */
  readonly work: (key: string, failures: number) => Promise<TurnResult>;
  readonly onError: (key: string, error: unknown) => void;
}

/** How a queue does. */
export interface QueueStatistics {
  /** Keys that wait for a worker. */
  readonly depth: number;
  /** Keys that are worked on. */
  readonly working: number;
  /** Keys that wait for a moment: after a failure, or because their turn said so. */
  readonly delayed: number;
  /** Turns that have ended, and those of them that failed. */
  readonly turns: number;
  readonly failures: number;
  /** For how long the key that has waited longest for a worker has done so, and the turn in progress that began first. */
  readonly longestWaitMs: number;
  readonly longestTurnMs: number;
}

/** How two queues do together. */
export function joinStatistics(one: QueueStatistics, other: QueueStatistics): QueueStatistics {
  return {
    depth: one.depth + other.depth,
    working: one.working + other.working,
    delayed: one.delayed + other.delayed,
    turns: one.turns + other.turns,
    failures: one.failures + other.failures,
    longestWaitMs: Math.max(one.longestWaitMs, other.longestWaitMs),
    longestTurnMs: Math.max(one.longestTurnMs, other.longestTurnMs),
  };
}

/** An API that fails for a moment is asked again immediately. */
const firstRetryMs = 50;

/** The longest wait after a failure: what cannot be helped is tried twelve times an hour. */
export const maxRetryMs = 5 * 60_000;

/** Of all keys that fail, so many are tried again without waiting for each other; further ones come so far apart. */
const freeRetries = 5;
const retryPaceMs = 1000;

/** So many are tried immediately when one has succeeded that had failed: what kept them from it may be over. */
const broughtAlong = 5;

/** So long turns follow each other before timers and sockets have theirs: a Lease is renewed, and a probe answered, in time. */
const sliceMs = 10;

/** Hands keys to workers from the start until `stop`. */
export class KeyedQueue {
  readonly #options: KeyedQueueOptions;
  /** None of them is worked on. */
  readonly #waiting: WaitingKeys;
  /** Keys to when their turn began. */
  readonly #working = new Map<string, number>();
  /** Keys that are worked on, and have been added again. */
  readonly #dirty = new Set<string>();
  readonly #delayed = new Map<string, Cancel>();
  readonly #keyToFailures = new Map<string, number>();
  /** Until when tries of those that failed are given away, one after the other. */
  #retriesUntil = -Infinity;
  #turns = 0;
  #failures = 0;
  /** Since when turns follow each other. */
  #busySince = -Infinity;
  /** Null: turns follow each other. */
  #cancelRest: Cancel | null = null;
  #isStopped = false;
  #onIdle: () => void = () => undefined;

  constructor(options: KeyedQueueOptions) {
    this.#options = options;
    this.#waiting = new WaitingKeys(options.toGroup ?? (() => ''));
  }

  /** Gives a key a turn as soon as a worker is free, and after the turn that it has now. */
  add(key: string): void {
    if (this.#isStopped) return;
    if (this.#working.has(key)) {
      this.#dirty.add(key);
      return;
    }
    const now = this.#options.clock.now();
    if (this.#working.size + this.#waiting.size === 0) this.#busySince = now;
    this.#waiting.add(key, now);
    this.#work();
  }

  /** How it does now. */
  get statistics(): QueueStatistics {
    const now = this.#options.clock.now();
    const [firstBegun = now] = this.#working.values();
    return {
      depth: this.#waiting.size,
      working: this.#working.size,
      delayed: this.#delayed.size,
      turns: this.#turns,
      failures: this.#failures,
      longestWaitMs: now - (this.#waiting.firstAdded ?? now),
      longestTurnMs: now - firstBegun,
    };
  }

  /** Begins no further turn, and waits for those in progress. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelRest?.();
    for (const cancel of this.#delayed.values()) cancel();
    this.#delayed.clear();
    if (this.#working.size > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve));
  }

  #work(): void {
    const { workers, clock } = this.#options;
    while (!this.#isStopped && this.#working.size < (typeof workers === 'number' ? workers : workers())) {
      if (this.#mustRest()) return;
      const key = this.#waiting.take();
      if (key === null) return;
      this.#cancelDelay(key);
      this.#working.set(key, clock.now());
      void this.#takeTurn(key);
    }
  }

  /** Whether timers and sockets come before the next turn. */
  #mustRest(): boolean {
    const { clock } = this.#options;
    if (this.#cancelRest !== null) return true;
    if (this.#waiting.size === 0 || clock.now() - this.#busySince < sliceMs) return false;
    this.#cancelRest = clock.schedule(0, () => {
      this.#cancelRest = null;
      this.#busySince = clock.now();
      this.#work();
    });
    return true;
  }

  async #takeTurn(key: string): Promise<void> {
    const { work, onError } = this.#options;
    let result: TurnResult = { kind: 'failed' };
    try {
      result = await work(key, this.#keyToFailures.get(key) ?? 0);
    } catch (error) {
      onError(key, error);
    }
    this.#turns += 1;
    this.#working.delete(key);
    this.#plan(key, result);
    this.#work();
    if (this.#working.size === 0) this.#onIdle();
  }

  #plan(key: string, result: TurnResult): void {
    const delayMs = this.#toDelay(key, result);
    const isDirty = this.#dirty.delete(key);
    if (this.#isStopped) return;
    if (isDirty) this.#waiting.add(key, this.#options.clock.now());
    else if (delayMs !== null) this.#addAfter(key, delayMs);
  }

  #toDelay(key: string, result: TurnResult): number | null {
    if (result.kind === 'failed') {
      const failures = this.#keyToFailures.get(key) ?? 0;
      this.#keyToFailures.set(key, failures + 1);
      this.#failures += 1;
      const ownMs = backOff(failures, firstRetryMs, maxRetryMs) * (0.5 + this.#options.random() / 2);
      return Math.min(maxRetryMs, Math.max(ownMs, this.#takeRetry()));
    }
    if (this.#keyToFailures.delete(key)) this.#bringAlong();
    return result.kind === 'again' ? result.afterMs : null;
  }

  /** In how long the next try is free that no other key has. */
  #takeRetry(): number {
    const now = this.#options.clock.now();
    const waitMs = this.#retriesUntil - now - freeRetries * retryPaceMs;
    // No more are given away than keys wait for at most.
    const isSpent = waitMs >= maxRetryMs;
    if (!isSpent) this.#retriesUntil = Math.max(now, this.#retriesUntil) + retryPaceMs;
    return waitMs;
  }

  #bringAlong(): void {
    this.#retriesUntil = -Infinity;
    const retrying = [...this.#delayed.keys()].filter((key) => this.#keyToFailures.has(key));
    for (const key of retrying.slice(0, broughtAlong)) {
      this.#cancelDelay(key);
      this.add(key);
    }
  }

  #addAfter(key: string, delayMs: number): void {
    const cancel = this.#options.clock.schedule(delayMs, () => {
      this.#cancelDelay(key);
      this.add(key);
    });
    this.#delayed.set(key, cancel);
  }

  /** Its turn says again when the next one is due. */
  #cancelDelay(key: string): void {
    this.#delayed.get(key)?.();
    this.#delayed.delete(key);
  }
}
