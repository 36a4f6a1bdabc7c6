import { families } from '../../lib/address/address.ts';
import { type Cancel, type Clock } from '../../lib/control/clock.ts';
import { findSourceAddress } from '../../lib/probe/source-address.ts';

/** The address of a host seldom changes. */
const lookMs = 60_000;

/** At which other nodes reach this one: as given, else where this host sends from by its default routes. From `start` to `stop`. */
export class NodeAddresses {
  readonly #clock: Clock;
  readonly #onChange: () => void;
  #list: readonly string[];
  #cancel: Cancel = () => undefined;
  #isStopped = false;

  constructor(given: readonly string[], clock: Clock, onChange: () => void) {
    this.#list = given;
    this.#clock = clock;
    this.#onChange = onChange;
  }

  /** One of each family at most, unless more were given. Empty while none is known. */
  get list(): readonly string[] {
    return this.#list;
  }

  /** Begins to look, unless addresses were given. Not to be called twice. */
  start(): void {
    if (this.#list.length === 0) void this.#look();
  }

  /** Looks no more. */
  stop(): void {
    this.#isStopped = true;
    this.#cancel();
  }

  async #look(): Promise<void> {
    const found = (await Promise.all(families.map(findSourceAddress))).filter((one) => one !== null);
    if (this.#isStopped) return;
    this.#cancel = this.#clock.schedule(lookMs, () => void this.#look());
    // Without a route for a moment the host is where it was.
    if (found.length === 0 || found.join() === this.#list.join()) return;
    this.#list = found;
    this.#onChange();
  }
}
