import { type Budget, type Clock, type Bucket, fillBucket, takeToken, type Grant } from '../lib/clock.ts';
import type { Family } from '../lib/net.ts';
import type { Decision } from './decide/decision.ts';

const repairBudget: Budget = { capacity: 10, refillMs: 5000 };
const decisionBudget: Budget = { capacity: 20, refillMs: 1000 };

/** New connections hang for up to a second after each time: five are somebody's start or mistake, more are a rule conflict. */
const switchBudget: Budget = { capacity: 5, refillMs: 60_000 };

/**
 * How often the kernel may be written to (I9): repairs draw on one budget, changed decisions on another, so that a rule conflict
 * cannot hold up a decision. Each family's forwarding switch has one of its own.
 */
export class WriteBudget {
  readonly #clock: Clock;
  #repairs: Bucket;
  #decisions: Bucket;
  readonly #familyToSwitches = new Map<Family, Bucket>();
  #writtenFor = '';

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#repairs = fillBucket(repairBudget, clock.now());
    this.#decisions = fillBucket(decisionBudget, clock.now());
  }

  /** Whether the last rules that were written, or begun to be, were for other decisions. */
  isNew(decisions: readonly Decision[]): boolean {
    return describe(decisions) !== this.#writtenFor;
  }

  /** Answers how long to wait before rules for these decisions may be written; 0 is now, and then it is counted. */
  take(decisions: readonly Decision[]): number {
    const now = this.#clock.now();
    if (this.isNew(decisions)) {
      const { bucket, waitMs } = takeToken(decisionBudget, this.#decisions, now);
      this.#decisions = bucket;
      if (waitMs === 0) this.#writtenFor = describe(decisions);
      return waitMs;
    }
    const { bucket, waitMs } = takeToken(repairBudget, this.#repairs, now);
    this.#repairs = bucket;
    return waitMs;
  }

  /** How often rules for these decisions are written at most once the budget is used up: from one write to the next, in milliseconds. */
  getPaceMs(decisions: readonly Decision[]): number {
    return (this.isNew(decisions) ? decisionBudget : repairBudget).refillMs;
  }

  /** How long to wait before a family's forwarding may be switched on again; 0 is now. */
  waitToSwitch(family: Family): number {
    return this.#takeSwitch(family).waitMs;
  }

  /** To be called when a family's forwarding was off and has been switched on: that is counted. */
  noteSwitch(family: Family): void {
    this.#familyToSwitches.set(family, this.#takeSwitch(family).bucket);
  }

  #takeSwitch(family: Family): Grant {
    const now = this.#clock.now();
    return takeToken(switchBudget, this.#familyToSwitches.get(family) ?? fillBucket(switchBudget, now), now);
  }
}

function describe(decisions: readonly Decision[]): string {
  return JSON.stringify(
    decisions.map(({ vip, mode, backends, weights = [] }) => [vip, mode, backends, [...weights]]),
  );
}
