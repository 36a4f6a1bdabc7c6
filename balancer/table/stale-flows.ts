import { type PortBalance, protocolToNumber, type End, nameEnd } from '../services/backends.ts';
import type { BalancedFlow, SeenFlow, ForgottenFlow } from '../../lib/kernel/port.ts';
import { describeFlow } from '../../lib/kernel/conntrack.ts';
import { formatEndpoint } from '../../lib/net.ts';
import type { BalancerKernel } from '../../lib/kernel/kernel.ts';
import { type Clock, Rounds } from '../../lib/clock.ts';
import type { Logger } from '../../lib/telemetry/log.ts';
import { findErrorCode } from '../../lib/errors.ts';
import type { DrainingEndpoint } from '../../lib/api/node.ts';

/**
 * The flows of one Service that its balances before allowed, and those now do not: their endpoint is gone, and its address will be another pod's.
 * TCP and SCTP: an endpoint that ends keeps its connections until its EndpointSlice does not have it any more. UDP has no
 * connection to keep: a client still sends to where it was sent, so it is sent elsewhere as soon as the endpoint takes none.
 */
export const listGoneFlows: CompareFlows = (before, after) =>
  listNew(after, before, (balance) => toFlows(balance, listEnds(balance)));

/** Takes the balances of one Service before and after a change. */
type CompareFlows = (before: readonly PortBalance[], after: readonly PortBalance[]) => BalancedFlow[];

/**
 * The flows of one Service to endpoints that take no new connection now, and took some before: whatever the reason. One that was never
 * answered would otherwise be where each SYN of its client goes, for two minutes. Not of UDP: those are gone. Nor where others decide.
 */
export const listClosedFlows: CompareFlows = (before, after) =>
  listNew(before, after, (balance) => {
    if (balance.protocol === 'UDP' || !balance.isHere) return [];
    const taking = new Set(balance.backends.map(nameEnd));
    return toFlows(
      balance,
      balance.present.filter((end) => !taking.has(nameEnd(end))),
    );
  });

/**
 * The flows to ports of one Service that began before these were served, and so go where they asked: to this host, or back to the one that
 * holds the address. Of UDP and SCTP, whose clients still send. Those of TCP ended with a refusal.
 */
export const listEarlyFlows: CompareFlows = (before, after) =>
  listNew(before, after, (balance) =>
    isServed(balance)
      ? balance.addresses.flatMap((address) => toFlows(balance, [{ address, port: balance.port }], [address]))
      : [],
  );

function listNew(
  before: readonly PortBalance[],
  after: readonly PortBalance[],
  list: (balance: PortBalance) => readonly BalancedFlow[],
): BalancedFlow[] {
  const known = new Set(before.flatMap(list).map(describeFlow));
  return after.flatMap(list).filter((flow) => !known.has(describeFlow(flow)));
}

/** Whether what comes without a connection goes elsewhere. */
function isServed({ protocol, isHere, backends, relay }: PortBalance): boolean {
  return protocol !== 'TCP' && ((isHere && backends.length > 0) || relay !== null);
}

/** Whether the connections of a flow go where they asked. */
function isUntranslated({ vip, backend }: BalancedFlow): boolean {
  return vip.address === backend.address && vip.port === backend.port;
}

/**
 * Answers what tells of a connection that the kernel has whether it is to a port that is balanced, and was sent to an endpoint that
 * the port does not have. A life before this one, or kube-proxy, sent it there; the endpoint went while nobody looked. So is one to a
 * port that is not balanced any more: those are the former ones, `ADDRESS . PROTOCOL . PORT` as the table has them. And so is one that goes
 * where it asked, see `listEarlyFlows`.
 */
export function createStrayFilter(
  balances: Iterable<readonly PortBalance[]>,
  formerPorts: ReadonlySet<string>,
): (flow: BalancedFlow) => boolean {
  const portToBalance = new Map<string, PortBalance>();
  for (const balance of [...balances].flat()) {
    const { family, addresses, protocol, port } = balance;
    for (const address of addresses)
      portToBalance.set(`${protocol.toLowerCase()} ${formatEndpoint({ family, address, port })}`, balance);
  }
  return (flow) => {
    const { protocol, vip, backend } = flow;
    const balance = portToBalance.get(`${protocol} ${formatEndpoint(vip)}`);
    if (isUntranslated(flow)) return balance !== undefined && isServed(balance);
    if (balance === undefined) {
      const number = protocolToNumber.get(protocol.toUpperCase()) ?? '';
      return formerPorts.has(`${vip.address} . ${number} . ${vip.port}`);
    }
    return !listEnds(balance).some(
      ({ address, port }) => address === backend.address && port === backend.port,
    );
  };
}

function listEnds({ protocol, backends, present }: PortBalance): PortBalance['present'] {
  return protocol === 'UDP' ? backends : present;
}

/** The flows of a port to some ends, at all its addresses or some. */
export function toFlows(
  { family, addresses: all, protocol, port }: PortBalance,
  ends: readonly End[],
  addresses: readonly string[] = all,
): BalancedFlow[] {
  return addresses.flatMap((address) =>
    ends.map((end) => ({
      protocol: protocol.toLowerCase() as BalancedFlow['protocol'],
      vip: { family, address, port },
      backend: { family, address: end.address, port: end.port },
    })),
  );
}

/** What the caller supplies. */
export interface CleanerPorts {
  readonly kernel: Pick<BalancerKernel, 'forgetFlows'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** When this host last came to hold an address of a Service, or lost it. */
  readonly turnedAt: (vip: string) => number;
  /** Who wants to know how many connections there are: one pass counts for all. `end` is not called for a pass that fails. */
  readonly counters: readonly Pick<Drains, 'isAny' | 'begin'>[];
}

/** For each millisecond of work: so it takes a hundredth of a processor, unless `maxRestMs` is less. */
const restPerWork = 99;

/** So long an endpoint may wait that is gone. Pods' addresses are seldom given again within seconds. */
const maxRestMs = 5000;

/** Nobody reads numbers that change more often. */
const countEveryMs = 5000;

/** Why connections are forgotten, in words that follow their endpoint. */
type FlowEnd =
  'which is gone' | 'whose drain timeout is over' | 'which was not served yet' | typeof takesNone;

/** Only those go that were never answered: their clients begin them again, and get another endpoint. */
export const takesNone = 'which takes no new ones';

/** Some 30 MB. Where more go within seconds, all connections to endpoints that are not there are chosen instead. */
const maxWaiting = 250_000;

/**
 * Has connections forget endpoints that are gone, and counts those of endpoints that drain, and of Services with the method `lc`.
 * One pass at a time, parallel to everything else. A failure is reported once, and tried again.
 *
 * Goal: an endpoint's address is given to another pod soon; until then no connection may still lead there.
 * Tension: the kernel finds connections only by reading its whole table, 32 ms of a processor even where it is nearly empty.
 * Compromise: one pass for all endpoints that went meanwhile. The first runs immediately; the next one waits in proportion to what the
 * pass took, but for seconds at most. The same pass counts; a pass that only counts can wait as long as that takes.
 */
export class FlowCleaner {
  readonly #ports: CleanerPorts;
  readonly #createStrayFilter: () => (flow: BalancedFlow) => boolean;
  /** Texts of flows to why they end, for the next pass. */
  #waiting = new Map<string, FlowEnd>();
  /** Those of the pass in progress. */
  #sought = new Map<string, FlowEnd>();
  #isSweepDue = false;
  /** Texts of flows that are to stay since the sweep in progress began; null while none is. As many as endpoints came meanwhile. */
  #kept: Set<string> | null = null;
  readonly #passes: Rounds;
  #restUntil = -Infinity;
  #countAt = -Infinity;
  #hasFailed = false;

  /** `createStrayFilter` answers what tells of a connection whether its endpoint is gone, as of now: for a sweep. */
  constructor(ports: CleanerPorts, createStrayFilter: () => (flow: BalancedFlow) => boolean) {
    this.#ports = ports;
    this.#createStrayFilter = createStrayFilter;
    this.#passes = new Rounds(ports.clock, this.#pass.bind(this), this.#findDelay.bind(this));
  }

  /** Takes connections to be forgotten. Returns immediately. */
  add(flows: readonly BalancedFlow[], why: FlowEnd = 'which is gone'): void {
    if (flows.length === 0) return;
    for (const flow of flows) this.#note(describeFlow(flow), why);
    if (this.#waiting.size > maxWaiting) {
      // A sweep does not find those whose endpoint is still there.
      this.#waiting = new Map([...this.#waiting].filter(([, end]) => end !== 'which is gone'));
      this.#isSweepDue = true;
    }
    this.#passes.hasten();
  }

  /** Takes connections that are to stay, as their endpoint is back. */
  keep(flows: readonly BalancedFlow[]): void {
    if (this.#waiting.size === 0 && this.#sought.size === 0 && this.#kept === null) return;
    for (const text of flows.map(describeFlow)) {
      this.#kept?.add(text);
      this.#waiting.delete(text);
      this.#sought.delete(text);
    }
  }

  /** Has all connections forgotten that the stray filter names. Returns immediately. */
  sweep(): void {
    this.#isSweepDue = true;
    this.#passes.hasten();
  }

  /** Has connections counted from time to time, as long as there are any to count. Returns immediately. */
  count(): void {
    this.#passes.hasten();
  }

  /** Waits for the pass in progress; the others stay. */
  async stop(): Promise<void> {
    await this.#passes.stop();
  }

  /** Whoever is to lose all connections loses all. */
  #note(text: string, why: FlowEnd): void {
    if (why !== takesNone || !this.#waiting.has(text)) this.#waiting.set(text, why);
  }

  get #isIdle(): boolean {
    const isCounting = this.#ports.counters.some(({ isAny }) => isAny);
    return this.#waiting.size === 0 && !this.#isSweepDue && !isCounting;
  }

  #findDelay(): number | null {
    if (this.#isIdle) return null;
    const isCleaning = this.#waiting.size > 0 || this.#isSweepDue;
    const dueAt = isCleaning ? this.#restUntil : Math.max(this.#restUntil, this.#countAt);
    return dueAt - this.#ports.clock.now();
  }

  async #pass(): Promise<void> {
    if (this.#isIdle) return;
    const startedAt = this.#ports.clock.now();
    const [sought, isSweep] = [this.#waiting, this.#isSweepDue];
    [this.#sought, this.#waiting, this.#isSweepDue] = [sought, new Map<string, FlowEnd>(), false];
    this.#kept = isSweep ? new Set() : null;
    const hasWorked = await this.#forget(isSweep);
    this.#sought = new Map();
    this.#kept = null;
    if (!hasWorked) {
      for (const [text, why] of sought) this.#note(text, why);
      this.#isSweepDue ||= isSweep;
    }
    const endedAt = this.#ports.clock.now();
    const restMs = hasWorked ? (endedAt - startedAt) * restPerWork : maxRestMs;
    this.#restUntil = endedAt + Math.min(maxRestMs, restMs);
    this.#countAt = endedAt + Math.max(countEveryMs, restMs);
  }

  /** Answers whether it went well. */
  async #forget(isSweep: boolean): Promise<boolean> {
    const { kernel, logger, counters } = this.#ports;
    const isStray = isSweep ? this.#createStrayFilter() : () => false;
    const tallies = counters.map((counter) => counter.begin());
    try {
      const isAny = isSweep || [...this.#sought.values()].includes('which was not served yet');
      const found = await kernel.forgetFlows(isAny ? 'all' : 'translated', (flow) => {
        const text = describeFlow(flow);
        const end = this.#sought.get(text);
        const isSought = end !== undefined && !(end === takesNone && flow.isAnswered);
        const isChosen = isSought || (isStray(flow) && this.#kept?.has(text) !== true);
        if (isChosen) return true;
        const isOpen = flow.isOpen && this.#isOfThisTerm(flow);
        for (const tally of tallies) tally?.see(text, { ...flow, isOpen });
        return false;
      });
      for (const flow of found) this.#report(flow);
      for (const tally of tallies) tally?.end();
      this.#hasFailed = false;
      return true;
    } catch (error) {
      const fields = { code: findErrorCode(error) };
      if (!this.#hasFailed) logger.warn(`connections stay: ${(error as Error).message}`, fields);
      this.#hasFailed = true;
      return false;
    }
  }

  /** One whose last packet is older may continue at another node, or have ended there. It counts again when it sends. */
  #isOfThisTerm({ vip, idleMs = 0 }: SeenFlow): boolean {
    const { clock, turnedAt } = this.#ports;
    return clock.now() - idleMs >= turnedAt(vip.address);
  }

  #report(flow: ForgottenFlow): void {
    const { vip, backend, count } = flow;
    const stray: FlowEnd = isUntranslated(flow) ? 'which was not served yet' : 'which is gone';
    const why = this.#sought.get(describeFlow(flow)) ?? stray;
    this.#ports.logger.info(
      `${count} connections of ${formatEndpoint(vip)} to ${formatEndpoint(backend)}, ${why}, are forgotten`,
    );
  }
}

/** A timer of Node.js takes 24 days at most. */
const maxWaitMs = 3_600_000;

interface Drain {
  readonly service: string;
  readonly address: string;
  readonly sinceMs: number;
  readonly since: string;
  readonly drainMs: number | null;
  readonly flows: readonly BalancedFlow[];
  isCut: boolean;
  connections: number | null;
  /** Whether connections are known that do not count, see FlowCleaner. */
  hasOthers: boolean;
}

interface DrainPorts {
  readonly clock: Clock;
  /** Ends connections whose time is over. */
  readonly cut: (flows: readonly BalancedFlow[]) => void;
  /** Has connections stay that were to be cut. */
  readonly keep: (flows: readonly BalancedFlow[]) => void;
  /** Called when what is to be said has changed. */
  readonly onChange: () => void;
}

/** How many connections a pass through the kernel's table has seen. */
export interface Tally {
  see(text: string, flow: SeenFlow): void;
  end(): void;
}

/**
 * The endpoints that take no new connection, and how many open ones they have. Endpoints of all Services that drain on this node.
 *
 * Goal: people see who drains, and connections end when their time is over.
 * Tension: EndpointSlices do not say since when an endpoint ends.
 * Compromise: this process counts from when its kernel sent no new connection there. A process that restarts counts from zero: a connection
 * that lives longer is less harm than one that ends early, and a pod ends when its own grace period is over anyway.
 */
export class Drains {
  readonly #ports: DrainPorts;
  readonly #serviceToDrains = new Map<string, ReadonlyMap<string, Drain>>();
  #reported: readonly DrainingEndpoint[] | null = null;
  readonly #cuts: Rounds;

  constructor(ports: DrainPorts) {
    this.#ports = ports;
    const findDelay = () => this.#findDelay(this.#all());
    this.#cuts = new Rounds(ports.clock, () => this.#cutDue(this.#all()), findDelay);
  }

  get isAny(): boolean {
    return this.#serviceToDrains.size > 0;
  }

  /** All of them, those with the most connections first. The same array while nothing has happened to them. */
  get list(): readonly DrainingEndpoint[] {
    return (this.#reported ??= this.#all()
      .map(({ service, address, since, connections }) => ({ service, endpoint: address, since, connections }))
      .sort((one, other) => (other.connections ?? 0) - (one.connections ?? 0)));
  }

  /** Those without any connection. */
  listUnused(): readonly Pick<Drain, 'service' | 'address'>[] {
    return this.#all().filter(({ connections, hasOthers }) => connections === 0 && !hasOthers);
  }

  /** Takes how the kernel balances a Service from now on. */
  take(service: string, balances: readonly PortBalance[]): void {
    const before = this.#serviceToDrains.get(service) ?? new Map<string, Drain>();
    const now = this.#list(service, balances, before);
    if (before.size + now.size === 0) return;
    if (now.size === 0) this.#serviceToDrains.delete(service);
    else this.#serviceToDrains.set(service, now);
    // One that serves again keeps what is not cut yet.
    for (const [address, { flows }] of before) if (!now.has(address)) this.#ports.keep(flows);
    void this.#cutDue(now.values());
    this.#cuts.hasten(this.#findDelay([...now.values()]));
    this.#change();
  }

  /** Begins to count; null where nothing drains. */
  begin(): Tally | null {
    if (!this.isAny) return null;
    const textToDrain = new Map<string, Drain>();
    for (const drain of this.#all())
      for (const flow of drain.flows) textToDrain.set(describeFlow(flow), drain);
    const others = new Set<Drain>();
    const counts = new Map<Drain, number>();
    return {
      see: (text, { isOpen, isEstablished }) => {
        const drain = textToDrain.get(text);
        if (drain !== undefined && isEstablished && !isOpen) others.add(drain);
        if (drain !== undefined && isOpen) counts.set(drain, (counts.get(drain) ?? 0) + 1);
      },
      end: () => {
        let isOther = false;
        for (const drain of new Set(textToDrain.values())) {
          const count = counts.get(drain) ?? 0;
          isOther ||= drain.connections !== count;
          [drain.connections, drain.hasOthers] = [count, others.has(drain)];
        }
        if (isOther) this.#change();
      },
    };
  }

  stop(): void {
    void this.#cuts.stop();
  }

  /** Those that drained before stay: their time does not begin again. */
  #list(service: string, balances: readonly PortBalance[], before: ReadonlyMap<string, Drain>) {
    const { clock } = this.#ports;
    const drains = new Map<string, Drain>();
    for (const balance of balances.filter(({ protocol }) => protocol === 'TCP')) {
      for (const end of balance.draining) {
        const { address } = end;
        const { isCut, sinceMs, since, connections, hasOthers, drainMs } = before.get(address) ?? {
          ...{ isCut: false, sinceMs: clock.now(), since: clock.date().toISOString() },
          ...{ connections: null, hasOthers: false, drainMs: null },
        };
        const flows = [...(drains.get(address)?.flows ?? []), ...toFlows(balance, [end])];
        drains.set(address, {
          ...{ service, address, sinceMs, since, connections, hasOthers, flows, drainMs: balance.drainMs },
          // The owner may change the time while it runs.
          isCut: isCut && drainMs === balance.drainMs,
        });
      }
    }
    return drains;
  }

  #change(): void {
    this.#reported = null;
    this.#ports.onChange();
  }

  #all(): Drain[] {
    return [...this.#serviceToDrains.values()].flatMap((drains) => [...drains.values()]);
  }

  /** Cuts those whose time is over. */
  #cutDue(drains: Iterable<Drain>): Promise<void> {
    for (const drain of drains) {
      if (this.#findRest(drain) > 0) continue;
      drain.isCut = true;
      this.#ports.cut(drain.flows);
    }
    return Promise.resolve();
  }

  /** How much of its time is left; Infinity for one that is not cut, or was. */
  #findRest({ drainMs, isCut, sinceMs }: Drain): number {
    return drainMs === null || isCut ? Infinity : sinceMs + drainMs - this.#ports.clock.now();
  }

  #findDelay(drains: readonly Drain[]): number | null {
    const restMs = drains.reduce((least, drain) => Math.min(least, this.#findRest(drain)), Infinity);
    return restMs === Infinity ? null : Math.min(restMs, maxWaitMs);
  }
}
