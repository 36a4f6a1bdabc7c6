/** Many at once, or one alone, in the order in which they came. */
export class SharedLock {
  /** The last one that was alone has ended, and all that share since then. */
  #alone: Promise<unknown> = Promise.resolve();
  #sharing: Promise<unknown> = Promise.resolve();

  /** Begins when all that came before and are alone have ended. */
  share<Result>(act: () => Promise<Result>): Promise<Result> {
    const mine = this.#alone.then(act);
    this.#sharing = Promise.allSettled([this.#sharing, mine]);
    return mine;
  }

  /** Begins when all that came before have ended; who comes later waits. */
  alone<Result>(act: () => Promise<Result>): Promise<Result> {
    const mine = Promise.allSettled([this.#alone, this.#sharing]).then(act);
    this.#alone = mine.catch(() => undefined);
    return mine;
  }
}
