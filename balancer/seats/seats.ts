import {
  isSafePath,
  findRunning,
  reloadRunning,
  listAddresses,
  listSubnets,
  isUsable,
  type HostAddress,
  isWhole,
} from '../../lib/keepalived/read.ts';
import { VipnatError, findErrorCode } from '../../lib/errors.ts';
import { locateSeatFiles, type NoticeSource, NoticeReader } from '../../lib/keepalived/write.ts';
import { testConfiguration } from '../../lib/kernel/tools.ts';
import { readPlacedAddresses, findAddressUsers } from '../../lib/kernel/addresses.ts';
import { readOnLinkNetworks } from '../../lib/kernel/forwarding.ts';
import {
  readConfigurationFile,
  type ConfigurationPorts,
  ConfigurationKeeper,
  BalancerBeat,
} from './keepalived.ts';
import {
  listAlone,
  listAnnounced,
  planSeats as planSeatsOn,
  type SeatsPlan,
  type PlannedSeat,
  type PlacedAddress,
  type SeatsInput,
  type HostNetworks,
  renderSeats,
} from './plan.ts';
import { Fifo } from '../../lib/files.ts';
import { AddressConflicts, type FindAddressUsers, type HeldAddress } from './conflicts.ts';
import { TriggerQueue, type Requeue } from '../../lib/sync-queue.ts';
import { isDeepStrictEqual } from 'node:util';

type HostSeatsOptions = Pick<SeatsPorts, 'clock' | 'node' | 'logger' | 'onState' | 'onPlanned'> & {
  /** The folder that the balancer shares with its keepalived; whole path. */
  readonly runDir: string;
};

/**
 * The seats of this host, with its kernel, its network and the keepalived whose configuration is in `runDir`.
 * @throws VipnatError CONFIG_INVALID for a folder that cannot be named in keepalived.conf
 */
export function createHostSeats({ runDir, ...options }: HostSeatsOptions): Seats {
  if (!isSafePath(runDir)) {
    const what = `--run-dir ${runDir} cannot be written into keepalived.conf`;
    throw new VipnatError('CONFIG_INVALID', `${what}. Example: --run-dir /run/vipnat-lb`);
  }
  const files = locateSeatFiles(runDir);
  return new Seats({
    ...options,
    files,
    testConfiguration,
    findRunning: () => findRunning(files),
    reload: reloadRunning,
    readAddresses: readPlacedAddresses,
    readOnLinkNetworks,
    findAddressUsers: async (questions) => {
      const addresses = await readPlacedAddresses();
      const configured = new Set(listAddresses((await readConfigurationFile(files)) ?? ''));
      const own = [...listSubnets(addresses), ...listAlone(addresses, configured)];
      return await findAddressUsers(questions, own, options.clock);
    },
    notices: new Fifo(files.notices),
  });
}

/** The seats that a node may hold, by objects of the API and by the networks of this host. Rejects with NETLINK_FAILED. */
export async function planSeats(objects: SeatsInput, node: string): Promise<SeatsPlan> {
  const addresses = await readPlacedAddresses();
  const networks = { subnets: listSubnets(addresses), alone: listAlone(addresses, new Set()) };
  const onLink = (await readOnLinkNetworks()).filter(isUsable);
  return planSeatsOn(objects, { node, ...networks, onLink });
}

interface SeatsView {
  readonly hostAddresses: readonly HostAddress[];
  /** The same by their texts. */
  readonly here: ReadonlySet<string>;
  /** Those of the configuration that is there, in canonical text. */
  readonly configured: ReadonlySet<string>;
  /** Those that a node was known to hold, in canonical text. */
  readonly announced: ReadonlySet<string>;
  readonly isRunning: boolean;
}

/** Whether this node has a seat: whoever has its anchor. */
function isHeld({ anchor }: PlannedSeat, { hostAddresses }: SeatsView): boolean {
  return hostAddresses.some((one) => one.device === 'lo' && isWhole(one) && one.address === anchor.text);
}

/** The IPv4 addresses that this node holds for Services. Pure. */
function listHeld(seats: readonly PlannedSeat[], view: SeatsView): HeldAddress[] {
  const ipvs = findIpvsAddress(seats, view);
  return seats
    .filter((seat) => seat.anchor.family === 'ipv4' && isHeld(seat, view))
    .flatMap(({ anchor, addresses }) => {
      const held = addresses.filter(({ address: { text } }) => view.here.has(text));
      return held.map((one) => ({ ...one, anchor: anchor.text, shared: ipvs }));
    });
}

/** One that each node has whose kube-proxy is in mode ipvs: a ClusterIP. Services' addresses are there, too. */
function findIpvsAddress(seats: readonly PlannedSeat[], { hostAddresses }: SeatsView): string | undefined {
  const own = new Set(seats.flatMap(({ addresses }) => addresses.map(toAddressText)));
  const isClusterIp = ({ family, address, device }: HostAddress) =>
    device === 'kube-ipvs0' && family === 'ipv4' && !own.has(address);
  return hostAddresses.find(isClusterIp)?.address;
}

function toAddressText({ address }: PlacedAddress): string {
  return address.text;
}

/** The addresses of the seats that this node holds, and that no interface has: keepalived has not put them there yet. Pure. */
function listMissing(seats: readonly PlannedSeat[], view: SeatsView, used: readonly string[]): string[] {
  const toKey = (address: string, device: string) => `${address} ${device}`;
  const here = new Set(view.hostAddresses.map(({ address, device }) => toKey(address, device)));
  return seats
    .filter((seat) => isHeld(seat, view))
    .flatMap(({ addresses }) => addresses)
    .filter(({ address: { text }, device }) => !here.has(toKey(text, device)) && !used.includes(text))
    .map(toAddressText);
}

/**
 * The seats as they are to be written, without new addresses that may not be held yet. Who takes a seat over has all addresses of it, but
 * those that nobody was known to have: then this node asks first, if the seat comes to it.
 */
function limitSeats(seats: readonly PlannedSeat[], view: SeatsView, unannounced: AddressConflicts) {
  return addLeftovers(
    seats.map((seat) => {
      const isHere = isHeld(seat, view);
      const isToAsk = (one: PlacedAddress) =>
        isNew(one, view) && (isHere || !view.announced.has(toAddressText(one)));
      const addresses = seat.addresses.filter((one) => unannounced.mayHold(one, isToAsk(one)));
      return { ...seat, addresses };
    }),
    view,
  );
}

function isNew({ address: { text } }: PlacedAddress, { here, configured }: SeatsView): boolean {
  return !configured.has(text) && !here.has(text);
}

/**
 * While no keepalived runs, the configuration still has the addresses that a killed one left on the interfaces: the next one
 * removes what its configuration has, and nothing else (keepalived 2.2.7). Pure.
 */
function addLeftovers(seats: readonly PlannedSeat[], view: SeatsView): PlannedSeat[] {
  if (view.isRunning) return [...seats];
  const wanted = new Set(
    seats.flatMap(({ anchor, addresses }) => [anchor.text, ...addresses.map(toAddressText)]),
  );
  const leftovers = view.hostAddresses.filter(
    (one) => isWhole(one) && view.configured.has(one.address) && !wanted.has(one.address),
  );
  const [first, ...others] = seats;
  if (first === undefined) return [];
  const places = leftovers.map(({ family, address: text, device }) => ({
    address: { family, text },
    device,
  }));
  return [{ ...first, addresses: [...first.addresses, ...places] }, ...others];
}

interface SeatsPorts extends ConfigurationPorts {
  /** As the API names this node. */
  readonly node: string;
  /** All addresses of this host. Rejects with NETLINK_FAILED. */
  readonly readAddresses: () => Promise<readonly HostAddress[]>;
  /** The networks that routes of this host reach on its links. Rejects with NETLINK_FAILED. */
  readonly readOnLinkNetworks: () => Promise<readonly HostAddress[]>;
  readonly findAddressUsers: FindAddressUsers;
  readonly notices: NoticeSource;
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
  readonly unheld: SeatsPlan['unheld'];
  /** The version of the input up to which all addresses of these seats are on the interfaces; null where that is not known. */
  readonly announced: string | null;
}

/** Seat holders change without any notification. A check costs a millisecond for 1,000 addresses. */
const intervalMs = 500;

/** What keepalived is about to put on an interface is there after a moment, and somebody waits for it. After this long it is not about to. */
const soonMs = 100;
const expectedMs = 5000;

/** Where an address is in no subnet, routes are read so often: a host may have very many. */
const routesMs = 60_000;

/** Why to look before it is time. */
type Cause = 'notice' | 'objects';

/** Has keepalived hold seats, from `start` to `stop`. Which it holds, the kernel's addresses say: keepalived's words are for people. */
export class Seats {
  readonly #ports: SeatsPorts;
  readonly #configuration: ConfigurationKeeper;
  readonly #unannounced: AddressConflicts;
  readonly #notices: NoticeReader;
  readonly #announcement = new Announcement();
  /** Since when addresses are missing; null while none is. */
  #missingSince: number | null = null;
  #input: SeatsInput | null = null;
  #announced: ReadonlySet<string> = new Set();
  #planned: { input: SeatsInput; networks: HostNetworks; plan: SeatsPlan } | null = null;
  /** Of the last reading. */
  #onLink: readonly HostAddress[] = [];
  #routesReadAt = -Infinity;
  #configured: readonly [text: string, addresses: ReadonlySet<string>] = ['', new Set()];
  #state: SeatsState | null = null;
  /** The last one that `onPlanned` was called for. */
  #reported: SeatsInput | null = null;
  #problems: ReadonlySet<string> = new Set();
  readonly #beat: BalancerBeat;
  #isFailing = false;
  #isStopped = false;
  readonly #queue: TriggerQueue<Cause>;

  constructor(ports: SeatsPorts) {
    const { clock, findAddressUsers, notices, logger } = ports;
    this.#ports = ports;
    this.#configuration = new ConfigurationKeeper(ports);
    this.#beat = new BalancerBeat(ports);
    this.#unannounced = new AddressConflicts(findAddressUsers, clock, (address, mac) => {
      if (mac === null) logger.info(`no other host answers for ${address} any more`);
      else logger.warn(`another host (MAC ${mac}) answers for ${address}`);
    });
    this.#notices = new NoticeReader(notices, clock, ({ instance, state }) => {
      logger.debug(`keepalived reports ${state} for ${instance}`);
      this.#queue.requeueAfter('notice', 0);
    });
    // A burst of changes makes one file. Answers of the network take half a second, and no processor: nothing rests for them.
    this.#queue = new TriggerQueue({ clock, awaited: ['notice'], sync: () => this.#sync(), mostRestMs: 0 });
  }

  /** Begins to sync. Writes nothing before the first `update`: what an earlier process has left stays until then. */
  start(): void {
    this.#notices.start();
    this.#beat.start();
    this.#queue.requeueAfter('tick', 0);
  }

  /** Takes what the API has now, all of it. Returns immediately. */
  update(input: SeatsInput): void {
    if (input.virtualIps !== this.#input?.virtualIps) this.#announced = listAnnounced(input);
    this.#input = input;
    this.#queue.trigger('objects');
  }

  /** Takes whether an address of a seat is dead here without a balancer: then keepalived gives the seats up when this one has ended. Returns immediately. */
  setNeedsBalancer(needsBalancer: boolean): void {
    this.#beat.isNeeded = needsBalancer;
  }

  /** Whether keepalived looks if the balancer runs; null where that is not known. */
  get isWatched(): boolean | null {
    return this.#beat.guard.isWatched;
  }

  /** Ends when nothing is in progress. The seats stay where they are: keepalived still runs. No callback is called afterwards. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all([this.#queue.stop(), this.#notices.stop(), this.#beat.stop()]);
  }

  async #sync(): Promise<Requeue<Cause>> {
    let waitMs: number | null = null;
    try {
      waitMs = await this.#reconcile();
      // A sync that only waited for its turn to write is no sign that all is as it is wanted.
      if (waitMs === null && this.#isFailing) {
        this.#isFailing = false;
        this.#ports.logger.info('the seats of this node are kept again');
      }
    } catch (error) {
      const detail = `the seats of this node cannot be kept: ${(error as Error).message}. They stay as they are`;
      if (!this.#isFailing) this.#ports.logger.error(detail, { code: findErrorCode(error) });
      this.#isFailing = true;
      if (this.#input !== null) {
        // Nothing is known to be held.
        if (this.#state === null) this.#setState({ held: [], inUse: [], unheld: {}, announced: null });
        this.#reportPlanned(this.#input);
      }
    }
    const isExpecting =
      this.#missingSince !== null && this.#ports.clock.now() - this.#missingSince < expectedMs;
    return { cause: 'tick', delayMs: Math.min(isExpecting ? soonMs : intervalMs, waitMs ?? Infinity) };
  }

  /** Answers after how many milliseconds more is to be done; null for nothing. */
  async #reconcile(): Promise<number | null> {
    const { node, files, readAddresses } = this.#ports;
    const { text, isRunning } = await this.#configuration.read();
    const input = this.#input;
    if (input === null) return null;
    const hostAddresses = await readAddresses();
    const view = {
      hostAddresses,
      here: new Set(hostAddresses.map(({ address }) => address)),
      configured: this.#readConfigured(text ?? ''),
      announced: this.#announced,
      isRunning,
    };
    const plan = await this.#planOn(input, view);
    this.#noteState(input, plan, view);
    this.#reportPlanned(input);
    const own = plan.seats.filter((seat) => isHeld(seat, view)).flatMap(({ addresses }) => addresses);
    const unannounced = own.filter((one) => isNew(one, view));
    const hasMore = await this.#unannounced.ask(unannounced, listHeld(plan.seats, view));
    this.#noteState(input, plan, view);
    if (this.#isStopped) return null;
    await this.#beat.write();
    const seats = limitSeats(plan.seats, view, this.#unannounced);
    // Without a seat there is nothing for keepalived to do, and it runs without an instance all the same.
    const waitMs = await this.#configuration.keep(renderSeats(node, seats, files));
    return hasMore ? 0 : waitMs;
  }

  /** Most hosts have an address in each subnet that matters: their routes are not read. */
  async #planOn(input: SeatsInput, { hostAddresses, configured }: SeatsView): Promise<SeatsPlan> {
    const own = { subnets: listSubnets(hostAddresses), alone: listAlone(hostAddresses, configured) };
    const plan = this.#plan(input, { ...own, onLink: this.#onLink });
    const now = this.#ports.clock.now();
    const areNeeded = Object.keys(plan.unheld).length > 0 || this.#onLink.length > 0;
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
    const plan = planSeatsOn(input, { node: this.#ports.node, ...networks });
    this.#planned = { input, networks, plan };
    return plan;
  }

  #readConfigured(text: string): ReadonlySet<string> {
    if (this.#configured[0] !== text) this.#configured = [text, new Set(listAddresses(text))];
    return this.#configured[1];
  }

  #noteState({ version }: SeatsInput, { seats, problems, unheld }: SeatsPlan, view: SeatsView): void {
    const { logger } = this.#ports;
    if (this.#isStopped) return;
    for (const problem of problems.filter((one) => !this.#problems.has(one))) logger.warn(problem);
    this.#problems = new Set(problems);
    const held = seats.filter((seat) => isHeld(seat, view)).map(({ name }) => name);
    const inUse = this.#unannounced.used;
    const missing = listMissing(seats, view, inUse);
    this.#missingSince = missing.length === 0 ? null : (this.#missingSince ?? this.#ports.clock.now());
    const announced = this.#announcement.note(version ?? null, missing);
    this.#setState({ held, inUse, unheld, announced });
  }

  #setState(state: SeatsState): void {
    const { logger, onState } = this.#ports;
    if (this.#isStopped || isDeepStrictEqual(state, this.#state)) return;
    const before = this.#state?.held ?? [];
    this.#state = state;
    for (const seat of state.held.filter((one) => !before.includes(one)))
      logger.info(`this node holds seat ${seat}`);
    for (const seat of before.filter((one) => !state.held.includes(one)))
      logger.info(`this node no longer holds seat ${seat}`);
    onState(state);
  }

  #reportPlanned(input: SeatsInput): void {
    if (this.#isStopped || this.#reported === input) return;
    this.#reported = input;
    this.#ports.onPlanned(input);
  }
}

/** Finds up to which version of VirtualIPs all addresses of this node's seats are on its interfaces: also while more are always being added. */
class Announcement {
  /** Addresses that are missing, the one that was found so first before the others, to the version at which none of them was wanted. */
  readonly #missingToVersion = new Map<string, string | null>();
  #version: string | null = null;

  /** Takes which addresses are missing as of a version. Answers the version up to which none is; null where that is not known. */
  note(version: string | null, missing: readonly string[]): string | null {
    const now = new Set(missing);
    for (const text of this.#missingToVersion.keys()) if (!now.has(text)) this.#missingToVersion.delete(text);
    for (const text of now)
      if (!this.#missingToVersion.has(text)) this.#missingToVersion.set(text, this.#version);
    this.#version = version;
    const [oldest = version] = this.#missingToVersion.values();
    return oldest;
  }
}
