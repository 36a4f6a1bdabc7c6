/**
 * Whether another host answers for a VIP that this node holds.
 *
 * Goal: a host that has the VIP without VRRP, or a second master, is told within seconds: clients come to one or the other.
 * Tension: a move has two holders for a moment, a router may answer for every address, and ARP is everybody's time.
 * Compromise: only the holder asks, only for IPv4, once in 5 s, and once more after an answer (I15). Two answers in a row by a host that
 * does not answer for this node's own address too are a conflict; two silences end it. IPv6 has no such question: the kernel
 * hears no answer for an address of its own.
 */
import { type Cancel, type Clock } from '../../lib/control/clock.ts';
import { type OtherHolder } from '../../lib/kernel/host/other-holder.ts';
import { type LocalAddress } from '../../lib/kernel/port.ts';
import { type Endpoint } from '../../lib/address/endpoint.ts';
import { type Assessment } from '../decide/assess.ts';
import { isOnLink } from './on-link.ts';

/** Asks the link of a device which other host has an address; IPv6 only of one that this host lacks. Answers null for nobody. */
export type AskOtherHolder = (question: LocalAddress) => Promise<OtherHolder | null>;

/** Notified of VIPs that two hosts have. */
export interface OtherHolderListener {
  /** Another host answers for an address that this node holds. */
  contested(address: string, mac: string): void;
  /** It does not any more. */
  uncontested(address: string): void;
  /** It could not be asked, for the first time in a row. */
  notAsked(error: unknown): void;
}

/** What asking needs of the world. */
export interface OtherHolderPorts {
  readonly askOtherHolder: AskOtherHolder;
  readonly clock: Clock;
  readonly report: OtherHolderListener;
}

/** A holder of before gives up the address when it hears the new one: within a second. */
const settleMs = 2000;
const intervalMs = 5000;

/** So many answers in a row are a conflict, and so many silences its end. */
const proofs = 2;

/** Asks as long as this node holds a VIP. */
export class OtherHolders {
  readonly #ports: OtherHolderPorts;
  readonly #vips: readonly string[];
  readonly #held = new Map<string, Held>();
  /** By address, also of those that left: one that comes and goes is asked for no more often. */
  readonly #askedAt = new Map<string, number>();
  #addresses: readonly LocalAddress[] = [];
  #cancel: Cancel = () => undefined;
  #isAsking = false;
  #isStopped = false;
  #isFailing = false;

  constructor(ports: OtherHolderPorts, vips: readonly Endpoint[]) {
    this.#ports = ports;
    this.#vips = [...new Set(vips.filter(({ family }) => family === 'ipv4').map(({ address }) => address))];
  }

  /** By address, of all that can be asked for: the MAC of its other holder, or null. */
  get answers(): ReadonlyMap<string, string | null> {
    return new Map([...this.#held].map(([address, { rival }]) => [address, rival]));
  }

  /** To be called with each look. Returns at once. */
  looked({ observation: { addresses } }: Pick<Assessment, 'observation'>): void {
    this.#addresses = addresses;
    for (const vip of this.#vips) {
      const device = addresses.find((one) => one.address === vip && isOnLink(one))?.device;
      if (device === this.#held.get(vip)?.device) continue;
      // An address that goes takes its conflict along.
      this.#held.delete(vip);
      if (device !== undefined) this.#held.set(vip, this.#begin(vip, device));
    }
    this.#goOn();
  }

  /** Asks no more; nothing comes of a question under way. */
  stop(): void {
    this.#isStopped = true;
    this.#cancel();
  }

  #begin(address: string, device: string): Held {
    const earliest = Math.max(this.#ports.clock.now(), this.#askedAt.get(address) ?? -Infinity);
    return { address, device, nextAt: earliest + settleMs, row: 0, rival: null };
  }

  /** One question at a time. */
  #goOn(): void {
    this.#cancel();
    if (this.#isStopped || this.#isAsking) return;
    const [next] = [...this.#held.values()].toSorted((one, other) => one.nextAt - other.nextAt);
    if (next === undefined) return;
    this.#cancel = this.#ports.clock.schedule(Math.max(0, next.nextAt - this.#ports.clock.now()), () => {
      this.#isAsking = true;
      void this.#ask(next).finally(() => {
        this.#isAsking = false;
        this.#goOn();
      });
    });
  }

  async #ask(held: Held): Promise<void> {
    const { askOtherHolder, clock, report } = this.#ports;
    this.#askedAt.set(held.address, clock.now());
    held.nextAt = clock.now() + intervalMs;
    try {
      const holder = await askOtherHolder({ family: 'ipv4', ...held });
      const mac = holder === null || (await this.#isForAll(holder, held)) ? null : holder.mac;
      this.#isFailing = false;
      if (!this.#isStopped && this.#held.get(held.address) === held) this.#note(held, mac);
    } catch (error) {
      if (!this.#isFailing && !this.#isStopped) report.notAsked(error);
      this.#isFailing = true;
    }
  }

  /** Who answers for an address of this node that no other host can have answers for every address (proxy ARP). */
  async #isForAll({ mac, device }: OtherHolder, { rival, row }: Held): Promise<boolean> {
    if (rival !== null || row + 1 !== proofs) return false;
    const own = this.#addresses.find(
      (one) => one.family === 'ipv4' && one.device === device && !this.#vips.includes(one.address),
    );
    return own !== undefined && (await this.#ports.askOtherHolder(own))?.mac === mac;
  }

  #note(held: Held, mac: string | null): void {
    const { clock, report } = this.#ports;
    const isNews = (mac === null) !== (held.rival === null);
    held.row = isNews ? held.row + 1 : 0;
    if (held.row === 0) return;
    if (held.row < proofs) {
      held.nextAt = clock.now() + settleMs;
      return;
    }
    held.row = 0;
    held.rival = mac;
    if (mac === null) report.uncontested(held.address);
    else report.contested(held.address, mac);
  }
}

/** A VIP that this node holds. */
interface Held {
  readonly address: string;
  readonly device: string;
  /** When it is asked for next, by the Clock. */
  nextAt: number;
  /** How many answers in a row say other than `rival`. */
  row: number;
  rival: string | null;
}
