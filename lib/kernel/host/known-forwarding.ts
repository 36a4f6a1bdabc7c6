import { type Family } from '../../address/address.ts';
import { type Forwarding } from '../port.ts';

/**
 * What this process knows of the kernel's forwarding switches: what it saw last, or switched on itself since. So its
 * own write counts as no change, and a foreign one does that takes the write back before anybody has looked.
 */
export class KnownForwarding {
  #known: Forwarding | null = null;
  #changes = 0;

  /** To be called after an own write that switched a family on. */
  noteOn(family: Family): void {
    if (this.#known !== null) this.#known = { ...this.#known, [family]: true };
  }

  /** To be called with what is there now. Answers how many times that was not what was known; the first time does not count. */
  see(now: Forwarding): number {
    const { ipv4, ipv6 } = this.#known ?? now;
    if (ipv4 !== now.ipv4 || ipv6 !== now.ipv6) this.#changes += 1;
    this.#known = now;
    return this.#changes;
  }
}
