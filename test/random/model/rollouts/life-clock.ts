import type { Clock, Cancel } from '../../../../lib/clock.ts';

/** The time of one process, which can be killed, or stopped for a while. Time goes on while it does not run. */
export class LifeClock implements Clock {
  readonly #clock: Clock;
  readonly #cancels = new Set<Cancel>();
  /** What fell due while the process was stopped. */
  #held: (() => void)[] = [];
  /** Whether it is stopped for now. */
  isHeld = false;
  isKilled = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.now();
  }

  date(): Date {
    return this.#clock.date();
  }

  schedule(delayMs: number, callback: () => void): Cancel {
    if (this.isKilled) return () => undefined;
    let isCancelled = false;
    const cancelTimer = this.#clock.schedule(delayMs, () => {
      this.#cancels.delete(cancel);
      this.run(() => {
        if (!isCancelled) callback();
      });
    });
    const cancel = () => {
      isCancelled = true;
      this.#cancels.delete(cancel);
      cancelTimer();
    };
    this.#cancels.add(cancel);
    return cancel;
  }

  /** Does something as this process: later while it is stopped, never after it was killed. */
  run(act: () => void): void {
    if (this.isKilled) return;
    if (this.isHeld) this.#held.push(act);
    else act();
  }

  /** `kill -STOP`. */
  hold(): void {
    this.isHeld = true;
  }

  /** `kill -CONT`. */
  goOn(): void {
    this.isHeld = false;
    const held = this.#held;
    this.#held = [];
    for (const act of held) this.run(act);
  }

  kill(): void {
    this.isKilled = true;
    this.#held = [];
    for (const cancel of [...this.#cancels]) cancel();
  }
}
