/** How often something may happen: immediately while there are tokens, then one at a time. */
export interface Budget {
  readonly capacity: number;
  readonly refillMs: number;
}

/** A budget's state: pure data, so that the loop's pace can be tested without waiting. */
export interface Bucket {
  readonly tokens: number;
  /** When the last token was added, by the Clock. */
  readonly filledAt: number;
}

/** The answer to a request for one token. */
export interface Grant {
  readonly bucket: Bucket;
  /** 0 when the token was taken; otherwise how long to wait before asking again. */
  readonly waitMs: number;
}

/** A full bucket. */
export function fillBucket({ capacity }: Budget, now: number): Bucket {
  return { tokens: capacity, filledAt: now };
}

/** Adds the tokens that time has earned, never beyond the capacity. */
export function refill({ capacity, refillMs }: Budget, bucket: Bucket, now: number): Bucket {
  const earned = Math.max(0, Math.floor((now - bucket.filledAt) / refillMs));
  const tokens = Math.min(capacity, bucket.tokens + earned);
  return { tokens, filledAt: tokens === capacity ? now : bucket.filledAt + earned * refillMs };
}

/** Takes one token, or says how long it takes until there is one. */
export function takeToken(budget: Budget, bucket: Bucket, now: number): Grant {
  const filled = refill(budget, bucket, now);
  if (filled.tokens > 0) return { bucket: { ...filled, tokens: filled.tokens - 1 }, waitMs: 0 };
  // Fractions of an interval do not add up: without this one that has no token could wait for nothing, and so could all after it.
  return { bucket: filled, waitMs: Math.max(1, Math.ceil(filled.filledAt + budget.refillMs - now)) };
}

/** The wait before try number `failures` + 1: doubling from `firstMs`, at most `limitMs`. */
export function backOff(failures: number, firstMs: number, limitMs: number): number {
  return Math.min(limitMs, firstMs * 2 ** Math.min(failures, 30));
}

/** A pause that can be cut short. One at a time. */
export class Pause {
  readonly #clock: Clock;
  #wake: () => void = () => undefined;
  #isStopped = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Ends after so long, or when it is woken. */
  wait(ms: number): Promise<void> {
    if (this.#isStopped) return Promise.resolve();
    return new Promise((resolve) => {
      const cancel = this.#clock.schedule(ms, resolve);
      this.#wake = () => {
        cancel();
        resolve();
      };
    });
  }

  /** Ends the pause in progress; does nothing when there is none. */
  wake(): void {
    this.#wake();
  }

  /** Ends the pause in progress, and makes every later one end immediately. */
  stop(): void {
    this.#isStopped = true;
    this.#wake();
  }
}

/** Stops what was scheduled; does nothing when it has already run. */
export type Cancel = () => void;

/** Where time comes from (I2). The real one is `systemClock`; test/support/fakes/clock.ts has one that tests turn by hand. */
export interface Clock {
  /** Milliseconds since an arbitrary moment: for durations only. Never goes back, whatever happens to the date. */
  now(): number;
  /** The date and time of day: for what people and files get. */
  date(): Date;
  /** Calls back once, `delayMs` milliseconds from now at the earliest, never within this call. */
  schedule(delayMs: number, callback: () => void): Cancel;
}

/** The clock of this machine. A scheduled call keeps the process alive. */
export const systemClock: Clock = {
  now: () => performance.now(),
  date: () => new Date(),
  schedule: (delayMs, callback) => {
    const timer = setTimeout(callback, delayMs);
    return () => {
      clearTimeout(timer);
    };
  },
};

/** The same clock for what is only of use while the process runs: no scheduled call keeps it alive. */
export const idleClock: Clock = {
  ...systemClock,
  schedule: (delayMs, callback) => clearTimeout.bind(null, setTimeout(callback, delayMs).unref()),
};

/** Work that is due again and again, one run at a time. */
export class Rounds {
  readonly #clock: Clock;
  readonly #run: () => Promise<void>;
  readonly #findDelay: () => number | null;
  #cancel: Cancel = () => undefined;
  #dueAt = Infinity;
  #work: Promise<void> | null = null;
  #isStopped = false;

  /** `run` never rejects. `findDelay`, asked also after each run, answers after how many milliseconds the next one is due; null for none. */
  constructor(clock: Clock, run: () => Promise<void>, findDelay: () => number | null) {
    this.#clock = clock;
    this.#run = run;
    this.#findDelay = findDelay;
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Whether no run is planned or in progress. */
  get isIdle(): boolean {
    return this.#dueAt === Infinity && this.#work === null;
  }

  /** In place of what was planned. Does nothing during a run, which is asked for the next one at its end. */
  plan(delayMs?: number | null): void {
    this.#cancel();
    this.#dueAt = Infinity;
    if (this.#isStopped || this.#work !== null) return;
    const waitMs = delayMs === undefined ? this.#findDelay() : delayMs;
    if (waitMs === null) return;
    this.#dueAt = this.#clock.now() + waitMs;
    this.#cancel = this.#clock.schedule(Math.max(0, waitMs), () => {
      this.#dueAt = Infinity;
      this.#work = this.#run().finally(() => {
        this.#work = null;
        this.plan();
      });
    });
  }

  /** The same, unless an earlier run is planned. */
  hasten(delayMs = this.#findDelay()): void {
    if (delayMs !== null && this.#clock.now() + delayMs < this.#dueAt) this.plan(delayMs);
  }

  /** Begins no further run, and ends with the one in progress. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel();
    await this.#work;
  }
}

/** The date and time of day of a moment of the clock. */
export function toDate(clock: Clock, atMs: number): Date {
  return new Date(clock.date().getTime() - (clock.now() - atMs));
}

/** A moment as the API reads it where it wants six digits behind the point, no less (meta/v1 MicroTime). */
export function toMicroTime(date: Date): string {
  return date.toISOString().replace('Z', '000Z');
}

/** Waits for so many milliseconds; for none where the number is negative. */
export function sleep(clock: Clock, delayMs: number): Promise<void> {
  return new Promise((resolve) => clock.schedule(Math.max(0, delayMs), resolve));
}

/**
 * Calls back when a limit is over and nothing has come by then. A process that was kept from running for long finds its
 * timer due and the answer waiting: timers come first in Node's loop, so what waits is read before it is called late.
 */
export function scheduleLimit(clock: Clock, limitMs: number, onLimit: () => void): Cancel {
  let immediate: NodeJS.Immediate | undefined;
  const cancel = clock.schedule(limitMs, () => {
    immediate = setImmediate(onLimit);
  });
  return () => {
    cancel();
    clearImmediate(immediate);
  };
}

/** A process that is held up once loses so small a part of the time that an answer has. */
const limitParts = 5;

/**
 * Like scheduleLimit, for an answer that takes several turns of Node's loop (a connection, a question, its answer): time in which
 * this process could not run counts as a fifth of the limit at most, however long it was.
 */
export function scheduleRunningLimit(clock: Clock, limitMs: number, onLimit: () => void): Cancel {
  const startPart = (part: number): Cancel =>
    scheduleLimit(clock, limitMs / limitParts, () => {
      if (part === limitParts) onLimit();
      else cancelPart = startPart(part + 1);
    });
  let cancelPart = startPart(1);
  return () => {
    cancelPart();
  };
}

/** Answers the first SIGTERM or SIGINT from now on. */
export function waitForSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    // Not `once`: execa's clean-up ends the process when it finds itself the last listener (signal-exit 4).
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.removeAllListeners(name).on(name, resolve);
  });
}

/** A number from 0 up to but not including 1. Where randomness comes from: tests pass one that they choose. */
export type Random = () => number;

/** The random numbers of this machine: for spreading load, not for secrets. */
export const systemRandom: Random = () => Math.random();
