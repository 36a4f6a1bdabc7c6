import { isDeepStrictEqual } from 'node:util';
import { type Cancel } from '../../lib/control/clock.ts';
import { listAddresses } from '../../lib/keepalived/find.ts';
import { NoticeReader, type NoticeSource } from '../../lib/keepalived/notices.ts';
import { ServingKeeper } from '../../lib/keepalived/serving-keeper.ts';
import { type TrackFile } from '../../lib/keepalived/track-file.ts';
import { Announcement } from './announcement.ts';
import { ConfigurationKeeper, type ConfigurationPorts } from './configuration-keeper.ts';
import { type FindAddressUsers, Newcomers } from './newcomers.ts';
import { type HostNetworks, listAlone } from './place-address.ts';
import { planSeats, type SeatsInput, type SeatsPlan } from './plan-seats.ts';
import { renderSeats } from './render-seats.ts';
import { isHeld, limitSeats, listHeld, listMissing, listNewcomers, type SeatsView } from './wanted-seats.ts';
import { type HostAddress, isUsable, listSubnets } from '../../lib/keepalived/subnets.ts';

/**
 * Has this node's keepalived hold the seats that the controller has named, and tells which it holds. The kernel's addresses are the
 * truth about that: keepalived's own words are for people.
 */

/** What the seats of a node need of the world. */
export interface SeatsPorts extends ConfigurationPorts {
  /** As the API names this node. */
  readonly node: string;
  /** All addresses of this host. Rejects with NETLINK_FAILED. */
  readonly readAddresses: () => Promise<readonly HostAddress[]>;
  /** The networks that routes of this host reach on its links. Rejects with NETLINK_FAILED. */
  readonly readOnLinkNetworks: () => Promise<readonly HostAddress[]>;
  readonly findAddressUsers: FindAddressUsers;
  readonly notices: NoticeSource;
  readonly trackFile: TrackFile;
  /** Called with the first state, and whenever it differs from before. */
  readonly onState: (state: SeatsState) => void;
  /** Called for each input that was taken, once the state says what this node cannot hold of it, or that could not be found out. */
  readonly onPlanned: (input: SeatsInput) => void;
}

/** What this node says of its seats. */
export interface SeatsState {
  /** The seats that this node holds: `POOL/INDEX`, sorted. */
  readonly held: readonly string[];
  /** Addresses that another host on the network answers for; sorted. */
  readonly inUse: readonly string[];
  /** See SeatsPlan. */
  readonly unheld: SeatsPlan['unheld'];
  /** The version of the input up to which all addresses of these seats are on the interfaces; null where that is not known. */
  readonly announced: string | null;
}

/** Before anything is known. */
const nothingHeld: SeatsState = { held: [], inUse: [], unheld: {}, announced: null };

/** Who holds a seat changes without a word. A look costs a millisecond for 1,000 addresses. */
const intervalMs = 500;

/** What keepalived is about to put on an interface is there after a moment, and somebody waits for it. After this long it is not about to. */
const soonMs = 100;
const expectedMs = 5000;

/** Where an address is in no subnet, routes are read so often: a host may have very many. */
const routesMs = 60_000;

/** A burst of changes makes one file. */
const settleMs = 20;

/** Of one node, from `start` to `stop`. */
export class Seats {
  readonly #ports: SeatsPorts;
  readonly #configuration: ConfigurationKeeper;
  readonly #newcomers: Newcomers;
  readonly #notices: NoticeReader;
  readonly #serving: ServingKeeper;
  readonly #announcement = new Announcement();
  /** Since when addresses are missing; null while none is. */
  #missingSince: number | null = null;
  #input: SeatsInput | null = null;
  #planned: {
    readonly input: SeatsInput;
    readonly networks: HostNetworks;
    readonly plan: SeatsPlan;
  } | null = null;
  /** Of the last reading. */
  #onLink: readonly HostAddress[] = [];
  #routesReadAt = -Infinity;
  #configured: { readonly text: string; readonly addresses: ReadonlySet<string> } = {
    text: '',
    addresses: new Set(),
  };
  #state: SeatsState | null = null;
  /** The last one that `onPlanned` was called for. */
  #told: SeatsInput | null = null;
  #problems: ReadonlySet<string> = new Set();
  #isFailing = false;
  #isStopped = false;
  #isLooking = false;
  #dueAt = Infinity;
  #cancel: Cancel = () => undefined;
  #looking: Promise<void> = Promise.resolve();

  constructor(ports: SeatsPorts) {
    const { clock, findAddressUsers, notices, report, trackFile } = ports;
    this.#ports = ports;
    this.#configuration = new ConfigurationKeeper(ports);
    this.#newcomers = new Newcomers(findAddressUsers, clock, (address, mac) => {
      report.inUse(address, mac);
    });
    this.#notices = new NoticeReader(notices, clock, ({ instance, state }) => {
      report.stateChanged(instance, state);
      this.#lookIn(0);
    });
    this.#serving = new ServingKeeper(trackFile, clock, report);
  }

  /** Begins to look. Writes nothing before the first `update`: what a former life has left goes on until then. */
  start(): void {
    this.#notices.start();
    this.#lookIn(0);
  }

  /** Takes what the API has now, all of it. Returns at once. */
  update(input: SeatsInput): void {
    this.#input = input;
    this.#lookIn(settleMs);
  }

  /** Tells keepalived whether this node can serve at all: it gives all seats up where not. Returns at once. */
  setServing(isServing: boolean): void {
    this.#serving.keep(isServing);
  }

  /** Ends when nothing is under way. The seats stay where they are: keepalived goes on. No callback is called afterwards. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel();
    await Promise.all([this.#looking, this.#notices.stop(), this.#serving.release()]);
  }

  /** Plans a look, unless an earlier one is planned; after the one under way. */
  #lookIn(delayMs: number): void {
    const { clock } = this.#ports;
    const dueAt = clock.now() + delayMs;
    if (this.#isStopped || dueAt >= this.#dueAt) return;
    this.#dueAt = dueAt;
    if (this.#isLooking) return;
    this.#cancel();
    this.#cancel = clock.schedule(delayMs, () => {
      this.#looking = this.#look();
    });
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    this.#dueAt = Infinity;
    try {
      const waitMs = await this.#reconcile();
      if (waitMs === null) this.#recover();
      else this.#lookIn(waitMs);
    } catch (error) {
      if (!this.#isFailing) this.#ports.report.failed(error);
      this.#isFailing = true;
      // Nothing is known to be held.
      if (this.#input !== null && this.#state === null) this.#setState(nothingHeld);
      if (this.#input !== null) this.#tellPlanned(this.#input);
    }
    this.#isLooking = false;
    const { clock } = this.#ports;
    const isExpecting = this.#missingSince !== null && clock.now() - this.#missingSince < expectedMs;
    const delayMs = Math.min(isExpecting ? soonMs : intervalMs, Math.max(0, this.#dueAt - clock.now()));
    this.#dueAt = Infinity;
    this.#lookIn(delayMs);
  }

  /** All is as it is to be. A look that only waited for its turn to write does not count. */
  #recover(): void {
    if (this.#isFailing) this.#ports.report.failed(null);
    this.#isFailing = false;
  }

  /** Answers after how many milliseconds more is to be done; null for nothing. */
  async #reconcile(): Promise<number | null> {
    const { node, files, readAddresses } = this.#ports;
    const { text, isRunning } = await this.#configuration.look();
    const input = this.#input;
    if (input === null) return null;
    const hostAddresses = await readAddresses();
    const view = {
      hostAddresses,
      here: new Set(hostAddresses.map(({ address }) => address)),
      configured: this.#readConfigured(text ?? ''),
      isRunning,
    };
    const plan = await this.#planOn(input, view);
    this.#noteState(input, plan, view);
    this.#tellPlanned(input);
    const [newcomers, heldNow] = [listNewcomers(plan.seats, view), listHeld(plan.seats, view)];
    const hasMore = await this.#newcomers.ask(newcomers, heldNow);
    this.#noteState(input, plan, view);
    if (this.#isStopped) return null;
    const seats = limitSeats(plan.seats, view, this.#newcomers);
    // Without a seat there is nothing for keepalived to do, and it runs without an instance all the same.
    const waitMs = await this.#configuration.keep(renderSeats(node, seats, files));
    return hasMore ? 0 : waitMs;
  }

  /** Most hosts have an address in each subnet that matters: their routes are not read. */
  async #planOn(input: SeatsInput, { hostAddresses, configured }: SeatsView): Promise<SeatsPlan> {
    const own = { subnets: listSubnets(hostAddresses), alone: listAlone(hostAddresses, configured) };
    const plan = this.#plan(input, { ...own, onLink: this.#onLink });
    const now = this.#ports.clock.now();
    const areNeeded = plan.problems.length > 0 || this.#onLink.length > 0;
    if (!areNeeded || now - this.#routesReadAt < routesMs) return plan;
    this.#onLink = (await this.#ports.readOnLinkNetworks()).filter(isUsable);
    this.#routesReadAt = now;
    return this.#plan(input, { ...own, onLink: this.#onLink });
  }

  /** Most looks find what the one before has found: with 1,000 addresses a plan costs more than all else. */
  #plan(input: SeatsInput, networks: HostNetworks): SeatsPlan {
    const known = this.#planned;
    const isSame = known?.input.pools === input.pools && known.input.virtualIps === input.virtualIps;
    if (isSame && isDeepStrictEqual(known.networks, networks)) return known.plan;
    const plan = planSeats(input, { node: this.#ports.node, ...networks });
    this.#planned = { input, networks, plan };
    return plan;
  }

  #readConfigured(text: string): ReadonlySet<string> {
    if (this.#configured.text !== text) this.#configured = { text, addresses: new Set(listAddresses(text)) };
    return this.#configured.addresses;
  }

  #noteState({ version }: SeatsInput, { seats, problems, unheld }: SeatsPlan, view: SeatsView): void {
    const { report } = this.#ports;
    if (this.#isStopped) return;
    for (const problem of problems.filter((one) => !this.#problems.has(one))) report.leftOut(problem);
    this.#problems = new Set(problems);
    const held = seats.filter((seat) => isHeld(seat, view)).map(({ name }) => name);
    const inUse = this.#newcomers.used;
    const missing = listMissing(seats, view, inUse);
    this.#missingSince = missing.length === 0 ? null : (this.#missingSince ?? this.#ports.clock.now());
    const announced = this.#announcement.note(version ?? null, missing);
    this.#setState({ held, inUse, unheld, announced });
  }

  #setState(state: SeatsState): void {
    const { report, onState } = this.#ports;
    if (this.#isStopped || isDeepStrictEqual(state, this.#state)) return;
    const before = this.#state?.held ?? [];
    this.#state = state;
    for (const seat of state.held.filter((one) => !before.includes(one))) report.held(seat, true);
    for (const seat of before.filter((one) => !state.held.includes(one))) report.held(seat, false);
    onState(state);
  }

  #tellPlanned(input: SeatsInput): void {
    if (this.#isStopped || this.#told === input) return;
    this.#told = input;
    this.#ports.onPlanned(input);
  }
}
