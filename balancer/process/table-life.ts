import { type Clock } from '../../lib/control/clock.ts';
import { type Programmer } from '../program/programmer.ts';
import { aliveSeconds } from '../../lib/services/balancer-table.ts';

/** A third of the time after which the rules stop to count. */
const renewMs = 10_000;

/** So long a table may be older than what the API says, while nothing can be written: pods' addresses are given to others soon. */
const staleMs = 60_000;

/** Has the tables count as long as they are right. Packets go on to kube-proxy's rules otherwise. */
export class TableLife {
  readonly #clock: Clock;
  readonly #programmer: Pick<Programmer, 'renew'>;
  #renewedAt: number;
  #nextAt: number;
  #failingSince: number | null = null;

  constructor(clock: Clock, programmer: Pick<Programmer, 'renew'>) {
    this.#clock = clock;
    this.#programmer = programmer;
    // What a former life has renewed may count for as long.
    this.#renewedAt = clock.now();
    this.#nextAt = clock.now();
  }

  /** Whether the rules may count now. */
  get isOn(): boolean {
    return this.#clock.now() - this.#renewedAt < aliveSeconds * 1000;
  }

  /** Whether writing has failed for so long that the rules are let go. */
  get isStale(): boolean {
    return this.#failingSince !== null && this.#clock.now() - this.#failingSince >= staleMs;
  }

  /** In how long the next renewal is due, or the next look at whether there may be one. */
  get dueMs(): number {
    if (this.isStale) return renewMs;
    return Math.max(0, this.#nextAt - this.#clock.now());
  }

  /** Has them count for another 30 s, where that is due. Answers whether they had not counted. Rejects with what the kernel rejects with. */
  async renew(): Promise<boolean> {
    if (this.isStale || this.dueMs > 0) return false;
    const wasOn = this.isOn;
    await this.#programmer.renew();
    this.#renewedAt = this.#clock.now();
    this.#nextAt = this.#renewedAt + renewMs;
    return !wasOn;
  }

  /** To be told of each attempt to write. */
  recordOutcome(isDone: boolean): void {
    if (isDone) this.#failingSince = null;
    else this.#failingSince ??= this.#clock.now();
  }
}
