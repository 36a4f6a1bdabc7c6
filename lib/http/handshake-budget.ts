import { type Clock } from '../control/clock.ts';
import { type Allowance, Budget } from './budget.ts';

/**
 * A handshake takes half a millisecond of a processor, so all of them take a thirtieth of one. At once, there may be twice as many as there may be
 * connections: API servers that start again connect for each question.
 */
const ofAll: Allowance = { capacity: 512, ofSecond: 64 };

/** One address leaves half of it to others. */
const ofAddress: Allowance = { capacity: 256, ofSecond: 32 };

/** How many TLS connections may begin: anybody may connect, and each handshake costs the process a signature. */
export class HandshakeBudget {
  readonly #clock: Clock;
  readonly #all: Budget;
  /** Addresses of which a full budget is not known. There are no more than there may be connections at once. */
  readonly #addressToBudget = new Map<string, Budget>();

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#all = new Budget(ofAll, clock);
  }

  /** Whether one more connection of this address may begin now. It counts as soon as it may. */
  take(address: string): boolean {
    for (const [other, { isFull }] of this.#addressToBudget) if (isFull) this.#addressToBudget.delete(other);
    const own = this.#addressToBudget.get(address) ?? new Budget(ofAddress, this.#clock);
    if (this.#all.left < 1 || !own.take(1)) return false;
    this.#addressToBudget.set(address, own);
    return this.#all.take(1);
  }
}
