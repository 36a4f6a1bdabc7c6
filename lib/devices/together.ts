/**
 * Changes of a device that are done together: each round does all that waits, as far as it wants to.
 *
 * Goal: a hundred changes cost little more than one, on a device that reads and commits everything at once.
 * Tension: each caller waits for its own change alone, and ends it whenever it likes.
 * Compromise: who comes while a round is under way waits for the next one, or joins it as long as it still takes some. Who leaves is answered at once,
 * and the round goes on for the others. The last one who leaves ends it, and is answered when it has ended.
 */
export interface Round<Request, Result> {
  /** Does what `take` answers, each time it is asked, and says what became of some of it. The others wait for the next round. */
  (take: () => readonly Request[], signal: AbortSignal): Promise<ReadonlyMap<Request, Result>>;
}

interface Waiter<Request, Result> {
  readonly request: Request;
  readonly signal: AbortSignal;
  readonly resolve: (result: Result) => void;
  readonly reject: (reason: unknown) => void;
}

/** One round at a time. */
export class Together<Request, Result> {
  readonly #round: Round<Request, Result>;
  #waiting: readonly Waiter<Request, Result>[] = [];
  #aborting: AbortController | null = null;

  constructor(round: Round<Request, Result>) {
    this.#round = round;
  }

  /** What became of it. Rejects with what a round was ended with, or with the reason of the signal. */
  async add(request: Request, signal: AbortSignal): Promise<Result> {
    signal.throwIfAborted();
    let onAbort: () => void = () => undefined;
    try {
      return await new Promise<Result>((resolve, reject) => {
        const waiter = { request, signal, resolve, reject };
        onAbort = () => {
          this.#leave(waiter, signal.reason);
        };
        signal.addEventListener('abort', onAbort);
        this.#waiting = [...this.#waiting, waiter];
        if (this.#aborting === null) void this.#work();
      });
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  #leave(waiter: Waiter<Request, Result>, reason: unknown): void {
    if (this.#waiting.length === 1) {
      this.#aborting?.abort(reason);
      return;
    }
    this.#waiting = this.#waiting.filter((each) => each !== waiter);
    waiter.reject(reason);
  }

  async #work(): Promise<void> {
    while (this.#waiting.length > 0) {
      const { signal } = (this.#aborting = new AbortController());
      const take = () => this.#waiting.map(({ request }) => request);
      try {
        const results = await this.#round(take, signal);
        this.#settle(results);
      } catch (error) {
        // It is about the device or the process: whoever came meanwhile would hear the same. Not so of who ended the round.
        const [all, isEnded] = [this.#waiting, signal.aborted];
        this.#waiting = all.filter((each) => isEnded && !each.signal.aborted);
        for (const { reject } of all.filter((each) => !isEnded || each.signal.aborted)) reject(error);
      }
    }
    this.#aborting = null;
  }

  #settle(results: ReadonlyMap<Request, Result>): void {
    const all = this.#waiting;
    this.#waiting = all.filter(({ request }) => !results.has(request));
    for (const { request, resolve } of all) {
      const result = results.get(request);
      if (result !== undefined) resolve(result);
    }
  }
}
