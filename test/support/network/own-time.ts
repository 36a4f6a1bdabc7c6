/** How often the process looks whether it ran. */
const tickMs = 20;

/** Garbage collection and a full event loop take less; a process that was not scheduled for so long has seen nothing meanwhile. */
const pauseMs = 120;

/**
 * The time in which this process ran, in milliseconds: what it or its machine stood still for 120 ms or longer is left out. A client that stood still has
 * not heard answers that came meanwhile, so no limit of its own may run out by that.
 */
export class OwnTime {
  #seenAt = performance.now();
  #lostMs = 0;
  readonly #timer: NodeJS.Timeout;

  /** Counts until `close`. It does not keep the process alive. */
  constructor() {
    this.#timer = setInterval(() => this.now(), tickMs).unref();
  }

  /** Since some moment before this object was made. */
  now(): number {
    const now = performance.now();
    const gapMs = now - this.#seenAt;
    this.#seenAt = now;
    if (gapMs >= pauseMs) this.#lostMs += gapMs - tickMs;
    return now - this.#lostMs;
  }

  /** Calls back after so much of this time. Answers what takes the call back. */
  schedule(delayMs: number, callBack: () => void): () => void {
    const dueAt = this.now() + delayMs;
    const look = (): void => {
      const leftMs = dueAt - this.now();
      if (leftMs <= 0) callBack();
      else timer = setTimeout(look, Math.ceil(leftMs));
    };
    let timer = setTimeout(look, delayMs);
    return () => {
      clearTimeout(timer);
    };
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
