import { type Clock } from '../../control/clock.ts';

/** A call that waited so long in vain is not made again by changes for a while. Reads make it all the same. */
const slowMs = 1000;
const leftOutMs = 10_000;

/** The units that have let a call wait in vain. */
export class SilentUnits {
  readonly #clock: Clock;
  readonly #unitToUntilMs = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get areLeftOut(): boolean {
    return [...this.#unitToUntilMs.keys()].some((unit) => this.isLeftOut(unit));
  }

  isLeftOut(unit: string): boolean {
    return this.#clock.now() < (this.#unitToUntilMs.get(unit) ?? -Infinity);
  }

  /** Does what calls the unit, and keeps in mind whether that was in vain. */
  async watch<Result>(unit: string, call: () => Promise<Result>): Promise<Result> {
    const startMs = this.#clock.now();
    try {
      const result = await call();
      this.#unitToUntilMs.delete(unit);
      return result;
    } catch (error) {
      const nowMs = this.#clock.now();
      if (nowMs - startMs >= slowMs) this.#unitToUntilMs.set(unit, nowMs + leftOutMs);
      throw error;
    }
  }
}
