/**
 * Hears which VRIDs others on the networks of this node use.
 *
 * Goal: a VRID that another program uses is found before a seat suffers from it, or soon after.
 * Tension: a pod lacks the rights that tcpdump wants, and adverts come several times a second.
 * Compromise: the kernel notes who sends adverts, and forgets who is silent for 20 s. That is read every 30 s. Who was heard twice in a row counts:
 * so an advert of ours with a number that this node does not know yet, or no longer, is nobody else's.
 */
import { isDeepStrictEqual } from 'node:util';
import { families, type Family } from '../../lib/address/address.ts';
import { type Cancel, type Clock } from '../../lib/control/clock.ts';
import { type BalancerKernel } from '../../lib/kernel/real/balancer-tables.ts';
import { isNftRefusal } from '../../lib/kernel/real/nft-table.ts';
import { parseAnchor } from '../../lib/services/anchors.ts';
import { type HeardVrid, maxHeard } from '../../lib/services/node-report.ts';
import { type Seat } from '../../lib/services/objects.ts';
import { type PlannedSeat } from '../seats/plan-seats.ts';
import { type HeardAdvert, nameHearingTable, printHearing, readHearing } from './hearing-table.ts';

/** What hearing needs of the world. */
export interface HearingPorts {
  readonly clock: Clock;
  readonly kernel: Pick<BalancerKernel, 'listTable' | 'apply'>;
  /** Null while it is not known. */
  readonly listOwn: () => OwnSeats | null;
  /** Called when `heard` differs from before. */
  readonly onChange: () => void;
  readonly report: HearingListener;
}

/** By which adverts are known to be ours. */
export interface OwnSeats {
  /** All of the cluster, whichever node holds them. */
  readonly all: readonly Pick<Seat, 'anchor' | 'vrid'>[];
  /** Those that this node may hold. */
  readonly planned: readonly Pick<PlannedSeat, 'name' | 'anchor' | 'device' | 'vrid'>[];
}

/** Notified of what becomes of it. */
export interface HearingListener {
  /** nft or the kernel refuses the table, for the first time in a row: a sentence. It is tried again rarely. */
  impossible(family: Family, words: string): void;
  /** It failed for the first time in a row, and is tried again. */
  failed(error: unknown): void;
  /** Somebody uses the VRID of a seat of this node from now on. */
  clashes(heard: HeardVrid): void;
}

/** More than a sender takes to be forgotten. */
const roundMs = 30_000;

/** Most often a module of the kernel is missing, which somebody may load. The kernel may also have been short of memory. */
const refusedMs = 600_000;

/** From `start` to `stop`. The tables stay: the kernel notes 512 senders of each family at most. */
export class Hearing {
  readonly #ports: HearingPorts;
  /** Families whose table this life has written. */
  readonly #written = new Set<Family>();
  /** When nft or the kernel refused a family's table last. */
  readonly #refusedAt = new Map<Family, number>();
  /** As they were read last. */
  readonly #adverts = new Map<Family, readonly HeardAdvert[]>();
  /** Of the last round: adverts of others, as texts. */
  #before: ReadonlySet<string> = new Set();
  #heard: readonly HeardVrid[] = [];
  #isFailing = false;
  #isStopped = false;
  #cancel: Cancel = () => undefined;
  #round: Promise<void> = Promise.resolve();

  constructor(ports: HearingPorts) {
    this.#ports = ports;
  }

  /** Each VRID of a family once, sorted; those of seats of this node first, and no more than a report has. */
  get heard(): readonly HeardVrid[] {
    return this.#heard;
  }

  /** Begins to hear. */
  start(): void {
    this.#round = this.#listen();
  }

  /** Ends when nothing is under way. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel();
    await this.#round;
  }

  async #listen(): Promise<void> {
    const failures: unknown[] = [];
    for (const family of families) {
      try {
        this.#adverts.set(family, await this.#read(family));
      } catch (error) {
        failures.push(error);
        // One that cannot be read for long knows nothing.
        if (this.#isFailing) this.#adverts.delete(family);
      }
    }
    if (failures.length > 0 && !this.#isFailing) this.#ports.report.failed(failures[0]);
    this.#isFailing = failures.length > 0;
    this.#take([...this.#adverts.values()].flat());
    if (this.#isStopped) return;
    this.#cancel = this.#ports.clock.schedule(roundMs, () => {
      this.#round = this.#listen();
    });
  }

  async #read(family: Family): Promise<HeardAdvert[]> {
    const { clock, kernel } = this.#ports;
    if (clock.now() - (this.#refusedAt.get(family) ?? -Infinity) < refusedMs) return [];
    const text = this.#written.has(family) ? await kernel.listTable(nameHearingTable(family)) : '';
    const read = readHearing(text, family);
    if (read === null) await this.#write(family);
    return read ?? [];
  }

  async #write(family: Family): Promise<void> {
    const { clock, kernel, report } = this.#ports;
    try {
      await kernel.apply(printHearing(family));
      this.#written.add(family);
      this.#refusedAt.delete(family);
    } catch (error) {
      if (!isNftRefusal(error)) throw error;
      if (!this.#refusedAt.has(family)) report.impossible(family, (error as Error).message);
      this.#refusedAt.set(family, clock.now());
    }
  }

  #take(adverts: readonly HeardAdvert[]): void {
    const own = this.#ports.listOwn();
    if (own === null || this.#isStopped) return;
    const others = listOthers(adverts, own);
    const before = this.#heard;
    const again = [...others].filter(([text]) => this.#before.has(text));
    this.#before = new Set(others.keys());
    this.#heard = summarize(again.map(([, one]) => one));
    if (isDeepStrictEqual(this.#heard, before)) return;
    const known = new Set(before.map(({ seat }) => seat));
    for (const one of this.#heard)
      if (one.seat !== null && !known.has(one.seat)) this.#ports.report.clashes(one);
    this.#ports.onChange();
  }
}

/** By texts of number, sender and interface, each once. Seats are known by their anchors: other clusters have others, unless both numbers are the same. */
function listOthers(adverts: readonly HeardAdvert[], { all, planned }: OwnSeats): Map<string, HeardVrid> {
  const own = new Set(all.map(({ anchor, vrid }) => `${vrid} ${anchor}`));
  const isOthers = ({ vrid, first }: HeardAdvert) =>
    vrid > 0 && !(parseAnchor(first) !== null && own.has(`${vrid} ${first}`));
  const found = adverts.filter(isOthers).map(({ device, from, vrid }): HeardVrid => {
    const seat = planned.find(
      (one) =>
        one.vrid === vrid && one.device === device && (one.anchor.family === 'ipv6') === from.includes(':'),
    );
    return { vrid, from, device, seat: seat?.name ?? null };
  });
  return new Map(found.map((one) => [`${one.vrid} ${one.from} ${one.device}`, one]));
}

function summarize(all: readonly HeardVrid[]): HeardVrid[] {
  const toOrder = ({ vrid, from, device, seat }: HeardVrid) =>
    `${seat === null ? 1 : 0} ${String(vrid).padStart(3, '0')} ${from} ${device}`;
  const inOrder = all.toSorted((one, other) => (toOrder(one) < toOrder(other) ? -1 : 1));
  const firsts = new Map<string, HeardVrid>();
  for (const one of inOrder) {
    const key = `${one.vrid} ${one.from.includes(':')}`;
    if (!firsts.has(key)) firsts.set(key, one);
  }
  return [...firsts.values()].slice(0, maxHeard);
}
