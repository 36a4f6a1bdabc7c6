/** Of the time between two calls of `tick`: more than this means that this process was held up, and heard nothing meanwhile. */
const maxTickMs = 2000;

interface HeardLease {
  readonly renewal: string;
  readonly durationMs: number;
  readonly silentMs: number;
}

/**
 * Which nodes' Leases live, by this process's own clock: no two clocks are compared. A Lease is over when it was not renewed for
 * its whole duration while its renewals could have been heard. So a node does not die of a pause of the controller, of a date
 * that jumps, or of an API that is away. A Lease that is seen for the first time counts as renewed at that moment.
 */
export class NodeLiveness {
  readonly #living = new Map<string, HeardLease>();
  /** Of Leases that are over: the last renewal that was heard. */
  readonly #over = new Map<string, string>();
  #tickedMs: number | null = null;

  /** A Lease as the informer has it. `renewal` differs after each renewal (its `renewTime` as text). Answers whether the node came to life. */
  heard(node: string, renewal: string, durationMs: number): boolean {
    const known = this.#living.get(node);
    if (known?.renewal === renewal || this.#over.get(node) === renewal) return false;
    this.#over.delete(node);
    this.#living.set(node, { renewal, durationMs, silentMs: 0 });
    return known === undefined;
  }

  /** The Lease was over before it was heard. */
  end(node: string): void {
    const renewal = this.#living.get(node)?.renewal;
    if (renewal === undefined) return;
    this.#living.delete(node);
    this.#over.set(node, renewal);
  }

  /** The Lease was deleted. */
  forget(node: string): void {
    this.#living.delete(node);
    this.#over.delete(node);
  }

  /**
   * To be called about each second with the clock's milliseconds, and whether the informer of Leases has a watch that is up. Answers
   * the nodes whose Lease is over since the last call. Of the time between two calls two seconds count at most, and none
   * without a watch.
   */
  tick(nowMs: number, isFollowed: boolean): readonly string[] {
    const passedMs = this.#tickedMs === null || !isFollowed ? 0 : Math.min(nowMs - this.#tickedMs, maxTickMs);
    this.#tickedMs = nowMs;
    for (const [node, lease] of this.#living)
      this.#living.set(node, { ...lease, silentMs: lease.silentMs + passedMs });
    const over = [...this.#living].filter(([, { silentMs, durationMs }]) => silentMs > durationMs);
    for (const [node, { renewal }] of over) {
      this.#living.delete(node);
      this.#over.set(node, renewal);
    }
    return over.map(([node]) => node);
  }

  /** The last renewal of a Lease that is over; null for any other. */
  getLastRenewal(node: string): string | null {
    return this.#over.get(node) ?? null;
  }

  /** Whether a node's Lease lives. */
  isLiving(node: string): boolean {
    return this.#living.has(node);
  }
}
