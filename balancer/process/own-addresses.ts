import { type Clock } from '../../lib/control/clock.ts';
import { type PlacedAddress } from '../../lib/kernel/netlink/addresses.ts';
import { listUplinks } from '../decide/uplinks.ts';

/** What it needs of the world. */
export interface AddressPorts {
  readonly clock: Clock;
  readonly readAddresses: () => Promise<readonly PlacedAddress[]>;
}

/** The node that holds 1,000 addresses takes milliseconds for it, and endpoints change many times a second. */
const paceMs = 1000;

/** This host's own addresses. Those of Services come and go, and are left out. */
export class OwnAddresses {
  readonly #ports: AddressPorts;
  #read: readonly PlacedAddress[] = [];
  #readAt = -Infinity;
  #known: ReadonlySet<string> = new Set();
  #uplinks: readonly PlacedAddress[] | null = null;

  constructor(ports: AddressPorts) {
    this.#ports = ports;
  }

  /** As of the last look. */
  get known(): ReadonlySet<string> {
    return this.#known;
  }

  /** See `listUplinks`, as of the last look. */
  get uplinks(): readonly PlacedAddress[] | null {
    return this.#uplinks;
  }

  /** Answers whether they are others than before. The kernel is asked once a second at most. Rejects as it does. */
  async look(vips: ReadonlySet<string>): Promise<boolean> {
    const now = this.#ports.clock.now();
    if (now - this.#readAt >= paceMs) {
      this.#read = await this.#ports.readAddresses();
      this.#readAt = now;
    }
    const all = this.#read.map(({ address }) => address);
    const found = new Set(all.filter((address) => !vips.has(address)));
    const isSame = found.size === this.#known.size && [...found].every((address) => this.#known.has(address));
    const uplinks = listUplinks(this.#read);
    const areSame = JSON.stringify(uplinks) === JSON.stringify(this.#uplinks);
    this.#known = found;
    this.#uplinks = uplinks;
    return !isSame || !areSame;
  }
}
