import { type Clock } from '../../lib/control/clock.ts';

/** The third failure in a row is told: two can be another's writes at the same moment. */
const toldFailures = 2;

/** An event is kept for an hour. */
const toldAgainMs = 3_600_000;

/** As many keys as can fail at a time before one that was told may be told early. */
const maxKeys = 10_000;

interface Told {
  readonly atMs: number;
  /** How many failures in a row there were before. */
  readonly failures: number;
}

/** Which failures of a key are told: the third in a row, and once an hour as long as the row goes on. */
export class ToldFailures {
  readonly #clock: Clock;
  readonly #keyToTold = new Map<string, Told>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `failures` failures of this key came right before this one. Fewer than before mean that it had an end in between. */
  isToTell(key: string, failures: number): boolean {
    if (failures < toldFailures) return false;
    const now = this.#clock.now();
    const told = this.#keyToTold.get(key);
    const isOld = told === undefined || failures < told.failures || now - told.atMs >= toldAgainMs;
    this.#keyToTold.delete(key);
    this.#keyToTold.set(key, { atMs: isOld ? now : told.atMs, failures });
    const [oldest] = this.#keyToTold.keys();
    if (this.#keyToTold.size > maxKeys && oldest !== undefined) this.#keyToTold.delete(oldest);
    return isOld;
  }

  /** The row of a key has an end. */
  end(key: string): void {
    this.#keyToTold.delete(key);
  }
}
