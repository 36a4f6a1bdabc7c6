import { classifyAddress } from '../../lib/address/scope.ts';
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

/** What a look has found. */
export interface AddressChange {
  /** The addresses that have come or gone. */
  readonly moved: ReadonlySet<string>;
  /** Whether `uplinks` or `strictTunnels` are others. */
  readonly areLinksOther: boolean;
}

/**
 * This host's own addresses. Those of Services come and go, and are left out. So are link-local ones: the host's end of each pod has one, and no
 * endpoint can have one.
 */
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

  /** Answers what has changed. The kernel is asked once a second at most. Rejects as it does. */
  async look(vips: ReadonlySet<string>): Promise<AddressChange> {
    const now = this.#ports.clock.now();
    if (now - this.#readAt >= paceMs) {
      const placed = await this.#ports.readAddresses();
      this.#read = placed.filter(
        (one) => classifyAddress({ family: one.family, text: one.address }) !== 'linkLocal',
      );
      this.#readAt = now;
    }
    const all = this.#read.map(({ address }) => address);
    const found = new Set(all.filter((address) => !vips.has(address)));
    const moved = new Set(
      [...found, ...this.#known].filter((one) => found.has(one) !== this.#known.has(one)),
    );
    const uplinks = listUplinks(this.#read);
    const areUplinksOther = JSON.stringify(uplinks) !== JSON.stringify(this.#uplinks);
    // Before anything is noted: what a look that fails has found is the next one's news.
    const areTunnelsOther = await this.#lookAtTunnels(now);
    // The same set while nothing has changed: who reads it keeps what it has made of it.
    if (moved.size > 0) this.#known = found;
    this.#uplinks = uplinks;
    return { moved, areLinksOther: areTunnelsOther || areUplinksOther };
  }

  async #lookAtTunnels(now: number): Promise<boolean> {
    if (now - this.#tunnelsReadAt < tunnelPaceMs) return false;
    const before = this.#strictTunnels.join();
    this.#strictTunnels = await this.#ports.listStrictTunnels();
    this.#tunnelsReadAt = now;
    return this.#strictTunnels.join() !== before;
  }
}
