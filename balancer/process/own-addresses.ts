import { type Clock } from '../../lib/control/clock.ts';
import { type LocalAddress } from '../../lib/kernel/port.ts';

/** What it needs of the world. */
export interface AddressPorts {
  readonly clock: Clock;
  readonly readAddresses: () => Promise<readonly LocalAddress[]>;
}

/** The node that holds 1,000 addresses takes milliseconds for it, and endpoints change many times a second. */
const paceMs = 1000;

/** This host's own addresses. Those of Services come and go, and are left out. */
export class OwnAddresses {
  readonly #ports: AddressPorts;
  #read: readonly string[] = [];
  #readAt = -Infinity;
  #known: ReadonlySet<string> = new Set();

  constructor(ports: AddressPorts) {
    this.#ports = ports;
  }

  /** As of the last look. */
  get known(): ReadonlySet<string> {
    return this.#known;
  }

  /** Answers whether they are others than before. The kernel is asked once a second at most. Rejects as it does. */
  async look(vips: ReadonlySet<string>): Promise<boolean> {
    const now = this.#ports.clock.now();
    if (now - this.#readAt >= paceMs) {
      this.#read = (await this.#ports.readAddresses()).map(({ address }) => address);
      this.#readAt = now;
    }
    const found = new Set(this.#read.filter((address) => !vips.has(address)));
    const isSame = found.size === this.#known.size && [...found].every((address) => this.#known.has(address));
    this.#known = found;
    return !isSame;
  }
}
