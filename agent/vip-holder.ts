import type { Logger } from '../lib/telemetry/log.ts';
import type { EventRecorder } from '../lib/telemetry/events.ts';
import type { Notice, VrrpState } from '../lib/keepalived/write.ts';
import { type ListeningAddress, isReachedBy } from '../lib/kernel/host.ts';
import type { LoopObserver } from './report/events.ts';
import type { Assessment, Decision } from './decide/decision.ts';
import { canServe } from './decide/mode.ts';
import { isBalanced } from '../config/options.ts';
import type { LocalAddress } from '../lib/kernel/port.ts';
import { type Clock, Rounds } from '../lib/clock.ts';
import type { Endpoint } from '../lib/net.ts';
import type { DuplicateOwner } from '../lib/kernel/addresses.ts';

/** Logs the state that keepalived reports for an instance. */
export function reportNotice(logger: Logger, { instance, state }: Notice, before: VrrpState | null): void {
  const change = before === null ? `is ${state}` : `${before} -> ${state}`;
  logger[state === 'FAULT' ? 'warn' : 'info'](`keepalived: ${instance} ${change}`);
}

/** The dependencies of a judgement. */
export interface ServingPorts {
  /** What listens on this host; null where that cannot be read. */
  readonly readListening: () => Promise<readonly ListeningAddress[] | null>;
  readonly report: Pick<LoopObserver, 'listeningRead'>;
  /** Whether the VIPs are to leave this host, as it is drained; they are not where left out. */
  readonly isLeaving?: () => Promise<boolean>;
}

/** What is judged: an assessment, or what stands for one. */
interface Judged extends Pick<Assessment, 'health'> {
  readonly decisions: readonly Pick<Decision, 'vip' | 'mode' | 'backends'>[];
  readonly observation: Pick<Assessment['observation'], 'addresses'>;
}

/**
 * Whether this node may hold the VIPs after a sync, by the health that the decisions rest on: a later one may have lost just
 * those who were chosen. What listens here is read only in mode passthrough; unread, it is taken to listen.
 */
export async function judgeServing(
  { readListening, report, isLeaving: askLeaving }: ServingPorts,
  { decisions, observation: { addresses }, health }: Judged,
): Promise<boolean> {
  const isLeaving = (await askLeaving?.()) ?? false;
  const judge = (listening: readonly ListeningAddress[] | null) =>
    canServe({
      decisions,
      addresses,
      health,
      isLeaving,
      isListening: (vip) => listening === null || listening.some((socket) => isReachedBy(vip, socket)),
    });
  if (decisions.every(isBalanced)) return judge(null);
  const listening = await readListening();
  report.listeningRead(listening !== null);
  return judge(listening);
}

/** Whether other hosts can have the address too: nobody else is on a loopback or a dummy of kube-proxy's. */
function isOnLink({ device }: Pick<LocalAddress, 'device'>): boolean {
  return device !== 'lo' && device !== 'kube-ipvs0';
}

/**
 * Whether another host has the VIPs that this drained host has given up.
 *
 * Goal: a drain never leaves a VIP without a VIP holder.
 * Tension: another host's apiserver takes connections also where no keepalived runs on its host, and a move takes seconds.
 * Compromise: the link is asked (I15). Only an answer shows a VIP holder. No answer for twice as long as a move means that there is
 * none. What cannot be asked counts as no answer: a VIP on a drained host is better than no VIP.
 */

/** The dependencies of asking. */
export interface GivenUpVipsPorts {
  readonly askLink: AskDuplicateOwner;
  readonly clock: Clock;
  /** Called with the address of a VIP that nobody has, for as long as this stays followed once at most. */
  readonly onVacant: (vip: string) => void;
}

type SeenVips = Pick<Assessment, 'decisions' | 'observation'>;

/** keepalived gives a VIP up immediately. */
const firstMs = 1000;

const intervalMs = 5000;

/** How soon the next question follows one without an answer. */
const unansweredIntervalMs = 2500;

/** A move of the VIP, also off a master without power, takes 4 s at most. */
const vacantMs = 8000;

/** A question that was late may be alone in that time. */
const vacancyProofs = 3;

/** Without a link on which the VIP was seen, so many are asked: a host of pods has links without number. */
const maxLinks = 4;

/** Asks until it is stopped. */
export class GivenUpVips {
  readonly #ports: GivenUpVipsPorts;
  #seen: SeenVips | null = null;
  /** By VIP: the link where it was last here, or where another host answered. As many as VIPs are configured. */
  readonly #vipToDevice = new Map<string, string>();
  /** By VIP, of those that nobody answered for: since when, and how many times in a row. */
  readonly #unanswered = new Map<string, { readonly since: number; readonly count: number }>();
  #isFollowed = false;
  #askedAt = 0;
  readonly #rounds: Rounds;

  constructor(ports: GivenUpVipsPorts) {
    this.#ports = ports;
    this.#rounds = new Rounds(ports.clock, this.#askAll.bind(this), () => {
      const nextMs = this.#unanswered.size === 0 ? intervalMs : unansweredIntervalMs;
      return this.#isFollowed ? this.#askedAt + nextMs - ports.clock.now() : null;
    });
  }

  /** To be called with each sync. Returns immediately. */
  synced(seen: SeenVips): void {
    this.#seen = seen;
    for (const address of seen.observation.addresses.filter(isOnLink)) {
      if (seen.decisions.some(({ vip }) => vip.address === address.address))
        this.#vipToDevice.set(address.address, address.device);
    }
  }

  /** Begins to ask, or asks no more; nothing comes of a question in progress then. */
  follow(isFollowed: boolean): void {
    if (isFollowed === this.#isFollowed) return;
    this.#isFollowed = isFollowed;
    this.#unanswered.clear();
    this.#rounds.plan(isFollowed ? firstMs : null);
  }

  async #askAll(): Promise<void> {
    this.#askedAt = this.#ports.clock.now();
    if (this.#seen === null) return;
    const { decisions, observation } = this.#seen;
    const isHere = ({ address }: Endpoint) => observation.addresses.some((one) => one.address === address);
    for (const { vip } of decisions) {
      if (isHere(vip)) this.#unanswered.delete(vip.address);
      else {
        const askedAt = this.#ports.clock.now();
        this.#note(vip.address, askedAt, await this.#hasVipHolder(vip, observation.addresses));
      }
    }
  }

  async #hasVipHolder(vip: Endpoint, addresses: readonly LocalAddress[]): Promise<boolean> {
    for (const device of this.#listDevices(vip, addresses)) {
      const vipHolder = await this.#ask({ ...vip, device });
      if (vipHolder === null) continue;
      const own = addresses.find((one) => one.family === vip.family && one.device === vipHolder.device);
      // Who answers for an address of this host answers for every one (proxy ARP). For IPv6, a host receives no such answer.
      if (own !== undefined && vip.family === 'ipv4' && (await this.#ask(own))?.mac === vipHolder.mac)
        continue;
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

  async #ask({ family, address, device }: LocalAddress): Promise<DuplicateOwner | null> {
    return this.#isFollowed ? await this.#ports.askLink({ family, address, device }).catch(() => null) : null;
  }

  #note(vip: string, askedAt: number, hasVipHolder: boolean): void {
    if (!this.#isFollowed) return;
    if (hasVipHolder) {
      this.#unanswered.delete(vip);
      return;
    }
    const { since, count } = this.#unanswered.get(vip) ?? { since: askedAt, count: 0 };
    this.#unanswered.set(vip, { since, count: count + 1 });
    if (count + 1 < vacancyProofs || this.#ports.clock.now() - since < vacantMs) return;
    this.follow(false);
    this.#ports.onVacant(vip);
  }
}

/**
 * Whether another host answers for a VIP that this node holds.
 *
 * Goal: a host that has the VIP without VRRP, or a second master, is reported within seconds: clients come to one or the other.
 * Tension: a move has two VIP holders for a moment, a router may answer for every address, and every host gets an ARP question.
 * Compromise: only the VIP holder asks, only for IPv4, once in 5 s, and once more after an answer (I15). Two answers in a row by a host that
 * does not answer for this node's own address too are a conflict; two questions without an answer end it. IPv6 has no such question: the kernel
 * receives no answer for an address of its own.
 */

/** Asks the link of a device which other host has an address; IPv6 only of one that this host lacks. Answers null for nobody. */
export type AskDuplicateOwner = (question: LocalAddress) => Promise<DuplicateOwner | null>;

/** The dependencies of asking. */
export interface DuplicateOwnerPorts {
  readonly askDuplicateOwner: AskDuplicateOwner;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly events: EventRecorder;
}

/** The previous VIP holder gives up the address when it receives the new one's advert: within a second. */
const settleMs = 2000;

/** So many answers in a row are a conflict, and so many questions without an answer its end. */
const ownerProofs = 2;

/** Asks as long as this node holds a VIP. The log and events say when another host answers for one, and when none does any more. */
export class DuplicateOwners {
  readonly #ports: DuplicateOwnerPorts;
  readonly #vips: readonly string[];
  readonly #held = new Map<string, Held>();
  /** By address, also of those that left: one that comes and goes is asked for no more often. */
  readonly #askedAt = new Map<string, number>();
  #addresses: readonly LocalAddress[] = [];
  readonly #rounds: Rounds;
  #isFailing = false;

  constructor(ports: DuplicateOwnerPorts, vips: readonly Endpoint[]) {
    this.#ports = ports;
    this.#vips = [...new Set(vips.filter(({ family }) => family === 'ipv4').map(({ address }) => address))];
    this.#rounds = new Rounds(ports.clock, this.#ask.bind(this), () => {
      const next = this.#findNext();
      return next === undefined ? null : next.nextAt - ports.clock.now();
    });
  }

  /** By address, of all that can be asked for: the MAC of its other VIP holder, or null. */
  get answers(): ReadonlyMap<string, string | null> {
    return new Map([...this.#held].map(([address, { duplicateMac }]) => [address, duplicateMac]));
  }

  /** To be called with each sync. Returns immediately. */
  synced({ observation: { addresses } }: Pick<Assessment, 'observation'>): void {
    this.#addresses = addresses;
    for (const vip of this.#vips) {
      const device = addresses.find((one) => one.address === vip && isOnLink(one))?.device;
      if (device === this.#held.get(vip)?.device) continue;
      // The conflict of an address ends when the address goes.
      this.#held.delete(vip);
      if (device === undefined) continue;
      const earliest = Math.max(this.#ports.clock.now(), this.#askedAt.get(vip) ?? -Infinity);
      this.#held.set(vip, { address: vip, device, nextAt: earliest + settleMs, row: 0, duplicateMac: null });
    }
    this.#rounds.plan();
  }

  /** Asks no more; nothing comes of a question in progress. */
  stop(): void {
    void this.#rounds.stop();
  }

  #findNext(): Held | undefined {
    return [...this.#held.values()].toSorted((one, other) => one.nextAt - other.nextAt)[0];
  }

  /** One question at a time. */
  async #ask(): Promise<void> {
    const { askDuplicateOwner, clock } = this.#ports;
    const held = this.#findNext();
    if (held === undefined) return;
    this.#askedAt.set(held.address, clock.now());
    held.nextAt = clock.now() + intervalMs;
    try {
      const vipHolder = await askDuplicateOwner({ family: 'ipv4', ...held });
      const mac = vipHolder === null || (await this.#isForAll(vipHolder, held)) ? null : vipHolder.mac;
      this.#isFailing = false;
      if (!this.#rounds.isStopped && this.#held.get(held.address) === held) this.#note(held, mac);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const line = `vipnat cannot ask whether another host holds the virtual IP: ${reason}`;
      if (!this.#isFailing && !this.#rounds.isStopped) this.#ports.logger.debug(line);
      this.#isFailing = true;
    }
  }

  /** Who answers for an address of this node that no other host can have answers for every address (proxy ARP). */
  async #isForAll({ mac, device }: DuplicateOwner, { duplicateMac, row }: Held): Promise<boolean> {
    if (duplicateMac !== null || row + 1 !== ownerProofs) return false;
    const own = this.#addresses.find(
      (one) => one.family === 'ipv4' && one.device === device && !this.#vips.includes(one.address),
    );
    return own !== undefined && (await this.#ports.askDuplicateOwner(own))?.mac === mac;
  }

  #note(held: Held, mac: string | null): void {
    const isNews = (mac === null) !== (held.duplicateMac === null);
    held.row = isNews ? held.row + 1 : 0;
    if (held.row === 0) return;
    if (held.row < ownerProofs) {
      held.nextAt = this.#ports.clock.now() + settleMs;
      return;
    }
    held.row = 0;
    held.duplicateMac = mac;
    this.#report(held);
  }

  #report({ address, duplicateMac: mac }: Held): void {
    const { logger, events } = this.#ports;
    if (mac === null) {
      const line = `only this node holds ${address} again: no other host answers ARP for it`;
      logger.info(line);
      events.record('VipUncontested', line);
      return;
    }
    const line = `two hosts hold ${address}: this node, and the host with MAC ${mac}, which answers ARP for it`;
    logger.error(`${line}. Clients reach either host at random. vipnat doctor says what to do`);
    events.record('VipConflict', line);
  }
}

/** A VIP that this node holds. */
interface Held {
  readonly address: string;
  readonly device: string;
  /** When it is asked for next, by the Clock. */
  nextAt: number;
  /** How many answers in a row say other than `duplicateMac`. */
  row: number;
  duplicateMac: string | null;
}
