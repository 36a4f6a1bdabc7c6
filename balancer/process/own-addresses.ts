import { type Clock } from '../../lib/control/clock.ts';
import { type PlacedAddress } from '../../lib/kernel/netlink/addresses.ts';
import { listUplinks } from '../decide/uplinks.ts';

/** What it needs of the world. */
export interface AddressPorts {
  readonly clock: Clock;
  readonly readAddresses: () => Promise<readonly PlacedAddress[]>;
  /** See `listStrictTunnels`. */
  readonly listStrictTunnels: () => Promise<readonly string[]>;
}

/** The node that holds 1,000 addresses takes milliseconds for it, and endpoints change many times a second. */
const paceMs = 1000;

/** Somebody changes a switch of the kernel, or a network plugin makes its tunnel. */
const tunnelPaceMs = 60_000;

/** This host's own addresses. Those of Services come and go, and are left out. */
export class OwnAddresses {
  readonly #ports: AddressPorts;
  #read: readonly PlacedAddress[] = [];
  #readAt = -Infinity;
  #known: ReadonlySet<string> = new Set();
  #uplinks: readonly PlacedAddress[] | null = null;
  #strictTunnels: readonly string[] = [];
  #tunnelsReadAt = -Infinity;

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

  /** See `listStrictTunnels`, as of the last look but a minute. */
  get strictTunnels(): readonly string[] {
    return this.#strictTunnels;
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
    return (await this.#lookAtTunnels(now)) || !isSame || !areSame;
  }

  async #lookAtTunnels(now: number): Promise<boolean> {
    if (now - this.#tunnelsReadAt < tunnelPaceMs) return false;
    this.#tunnelsReadAt = now;
    const before = this.#strictTunnels.join();
    this.#strictTunnels = await this.#ports.listStrictTunnels();
    return this.#strictTunnels.join() !== before;
  }
}
