/** Many at once, or one alone, in the order in which they came. */
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
    this.#alone = mine.then(
      () => undefined,
      () => undefined,
    );
    return mine;
  }
}
