import type { Clock, Cancel } from '../../../lib/clock.ts';

interface Timer {
  readonly atMs: number;
  readonly callback: () => void;
}

/** Chains of promises in the product are far shorter; a chain that waits for real input or output is not waited for. */
const usualSettlingTurns = 2;

/** A clock that stands still until a test turns it. */
export class FakeClock implements Clock {
  #nowMs = 0;
  #jumpedMs = 0;
  #timers: Timer[] = [];
  readonly #startMs: number;
  readonly #settlingTurns: number;

  /** Starts at `now() === 0` and at the given date. With fewer turns for promises to settle it is faster, and shorter chains are waited for. */
  constructor(start = new Date('2026-01-01T00:00:00Z'), settlingTurns = usualSettlingTurns) {
    this.#startMs = start.getTime();
    this.#settlingTurns = settlingTurns;
  }

  now(): number {
    return this.#nowMs;
  }

  date(): Date {
    return new Date(this.#startMs + this.#jumpedMs + this.#nowMs);
  }

  /** Somebody sets the date, by so much: no time passes. */
  jump(ms: number): void {
    this.#jumpedMs += ms;
  }

  /** So much time passes in which the process does not run, as after SIGSTOP: what fell due meanwhile runs late. */
  stall(ms: number): void {
    this.#nowMs += ms;
  }

  schedule(delayMs: number, callback: () => void): Cancel {
    const timer = { atMs: this.#nowMs + Math.max(0, delayMs), callback };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** How many calls are scheduled: 0 when all has been stopped. */
  get pending(): number {
    return this.#timers.length;
  }

  /** In how long the next call falls due; null when there is none. */
  get nextMs(): number | null {
    return this.#timers.length === 0 ? null : Math.min(...this.#timers.map(({ atMs }) => atMs)) - this.#nowMs;
  }

  /**
   * Lets that much time pass: runs what falls due, in the order of its time, and after each call lets promises
   * settle, so that what they schedule within the time runs too.
   */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms;
    await settle(this.#settlingTurns);
    for (let next = this.#takeDue(untilMs); next !== undefined; next = this.#takeDue(untilMs)) {
      // Never back: what fell due in a stall is late.
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      next.callback();
      await settle(this.#settlingTurns);
    }
    this.#nowMs = untilMs;
  }

  #takeDue(untilMs: number): Timer | undefined {
    const due = this.#timers.filter(({ atMs }) => atMs <= untilMs);
    const next = due.reduce<Timer | undefined>(
      (first, timer) => (first === undefined || timer.atMs < first.atMs ? timer : first),
      undefined,
    );
    this.#timers = this.#timers.filter((timer) => timer !== next);
    return next;
  }
}

async function settle(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
