import { type Clock } from './clock.ts';

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

  /** Ends the pause under way; does nothing when there is none. */
  wake(): void {
    this.#wake();
  }

  /** Ends the pause under way, and makes every later one end at once. */
  stop(): void {
    this.#isStopped = true;
    this.#wake();
  }
}
