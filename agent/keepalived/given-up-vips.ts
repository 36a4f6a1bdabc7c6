/**
 * Whether another host has the VIPs that this drained host has given up.
 *
 * Goal: a drain never leaves a VIP without a holder.
 * Tension: another host's apiserver takes connections also where no keepalived runs beside it, and a move takes seconds.
 * Compromise: the link is asked (I15). Only an answer shows a holder, and silence for twice as long as a move says that there is
 * none. What cannot be asked is silent: a VIP on a drained host is better than no VIP.
 */
import { type Cancel, type Clock } from '../../lib/control/clock.ts';
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { type OtherHolder } from '../../lib/kernel/host/other-holder.ts';
import { type LocalAddress } from '../../lib/kernel/port.ts';
import { type Assessment } from '../decide/assess.ts';
import { isOnLink } from './on-link.ts';
import { type AskOtherHolder } from './other-holders.ts';

/** What asking needs of the world. */
export interface GivenUpVipsPorts {
  /** Asks the link of a device which other host has an address. */
  readonly askLink: AskOtherHolder;
  readonly clock: Clock;
  /** Called with the address of a VIP that nobody has, for as long as this stays followed once at most. */
  readonly onVacant: (vip: string) => void;
}

/** What counts of a look. */
export type SeenVips = Pick<Assessment, 'decisions' | 'observation'>;

/** keepalived gives a VIP up at once. */
const firstMs = 1000;

const intervalMs = 5000;

/** How soon the next question follows a silence. */
const silentIntervalMs = 2500;

/** A move of the VIP, also off a master without power, takes 4 s at most. */
const vacantMs = 8000;

/** A question that was late may be alone in that time. */
const proofs = 3;

/** Without a link on which the VIP was seen, so many are asked: a host of pods has links without number. */
const maxLinks = 4;

/** Asks as long as it is told to. */
export class GivenUpVips {
  readonly #ports: GivenUpVipsPorts;
  #seen: SeenVips | null = null;
  /** By VIP: the link where it was last here, or where another host answered. As many as VIPs are configured. */
  readonly #vipToDevice = new Map<string, string>();
  /** By VIP, of those that nobody answered for: since when, and how many times in a row. */
  readonly #silences = new Map<string, { readonly since: number; readonly count: number }>();
  #isFollowed = false;
  #isAsking = false;
  #cancel: Cancel = () => undefined;

  constructor(ports: GivenUpVipsPorts) {
    this.#ports = ports;
  }

  /** To be called with each look. Returns at once. */
  looked(seen: SeenVips): void {
    this.#seen = seen;
    for (const address of seen.observation.addresses.filter(isOnLink)) {
      if (seen.decisions.some(({ vip }) => vip.address === address.address))
        this.#vipToDevice.set(address.address, address.device);
    }
  }

  /** Begins to ask, or asks no more; nothing comes of a question under way then. */
  follow(isFollowed: boolean): void {
    if (isFollowed === this.#isFollowed) return;
    this.#isFollowed = isFollowed;
    this.#silences.clear();
    this.#schedule(firstMs);
  }

  #schedule(delayMs: number): void {
    this.#cancel();
    if (!this.#isFollowed || this.#isAsking) return;
    const { clock } = this.#ports;
    this.#cancel = clock.schedule(delayMs, () => {
      const startedAt = clock.now();
      this.#isAsking = true;
      void this.#askAll().finally(() => {
        this.#isAsking = false;
        const nextMs = this.#silences.size === 0 ? intervalMs : silentIntervalMs;
        this.#schedule(Math.max(0, startedAt + nextMs - clock.now()));
      });
    });
  }

  async #askAll(): Promise<void> {
    if (this.#seen === null) return;
    const { decisions, observation } = this.#seen;
    const isHere = ({ address }: Endpoint) => observation.addresses.some((one) => one.address === address);
    for (const { vip } of decisions) {
      if (isHere(vip)) this.#silences.delete(vip.address);
      else {
        const askedAt = this.#ports.clock.now();
        this.#note(vip.address, { askedAt, hasHolder: await this.#hasHolder(vip, observation.addresses) });
      }
    }
  }

  async #hasHolder(vip: Endpoint, addresses: readonly LocalAddress[]): Promise<boolean> {
    for (const device of this.#listDevices(vip, addresses)) {
      const holder = await this.#ask({ ...vip, device });
      if (holder === null) continue;
      const own = addresses.find((one) => one.family === vip.family && one.device === holder.device);
      // Who answers for an address of this host answers for every one (proxy ARP). For IPv6, a host hears no such answer.
      if (own !== undefined && vip.family === 'ipv4' && (await this.#ask(own))?.mac === holder.mac) continue;
      this.#vipToDevice.set(vip.address, device);
      return true;
    }
    return false;
  }

  #listDevices({ address, family }: Endpoint, addresses: readonly LocalAddress[]): readonly string[] {
    const known = this.#vipToDevice.get(address);
    if (known !== undefined) return [known];
    const onLink = addresses.filter((one) => one.family === family && isOnLink(one));
    return [...new Set(onLink.map(({ device }) => device))].slice(0, maxLinks);
  }

  async #ask({ family, address, device }: LocalAddress): Promise<OtherHolder | null> {
    return this.#isFollowed ? await this.#ports.askLink({ family, address, device }).catch(() => null) : null;
  }

  #note(
    vip: string,
    { askedAt, hasHolder }: { readonly askedAt: number; readonly hasHolder: boolean },
  ): void {
    if (!this.#isFollowed) return;
    if (hasHolder) {
      this.#silences.delete(vip);
      return;
    }
    const { since, count } = this.#silences.get(vip) ?? { since: askedAt, count: 0 };
    this.#silences.set(vip, { since, count: count + 1 });
    if (count + 1 < proofs || this.#ports.clock.now() - since < vacantMs) return;
    this.follow(false);
    this.#ports.onVacant(vip);
  }
}
