import type { BalancerKernel } from '../lib/kernel/kernel.ts';
import { type Clock, Rounds, backOff } from '../lib/clock.ts';
import type { BalancerCounter, BalancerProgress } from './report.ts';
import type { NodeReport, AwaitedVersion } from '../lib/api/node.ts';
import { Programmer, IsolatedWrites } from './table/programmer.ts';
import { aliveSeconds, maxKeys, tableName } from '../lib/api/balancer.ts';
import type { Balances } from './services/backends.ts';
import { FollowedObjects, type FollowOptions } from './services/follow.ts';
import { SettledBalances } from './table/shares.ts';
import { ForwardKeeper } from './table/forward.ts';
import { TriggerQueue, type OwnCause, type Requeue } from '../lib/sync-queue.ts';
import { SyncLog } from './log.ts';
import { Decider, type DecidePorts } from './decide.ts';
import type { Watch } from '../lib/kernel/port.ts';
import { toVipnatError } from '../lib/errors.ts';

/** What the caller supplies. */
export interface BalancerPorts extends Omit<DecidePorts, 'listMemories'>, Omit<FollowOptions, 'onChange'> {
  readonly kernel: BalancerKernel;
  /** Called after each sync with what holds then, whether or not all could be written. */
  readonly onView: (view: BalancerView) => void;
  readonly observer: BalancerCounter;
  /** Reads when the leading controller has renewed its Lease, see createRenewalReader. */
  readonly readElection: () => Promise<string | null>;
  /** Whether a kube-proxy serves this node. True where that cannot be known. Never rejects. */
  readonly hasKubeProxy: () => Promise<boolean>;
}

/** What this node has to do with, and what its kernel has of it. */
export interface BalancerView
  extends
    Pick<NodeReport, 'programmed' | 'mode'>,
    Pick<FollowedObjects, 'pools' | 'virtualIps'>,
    Pick<SettledBalances, 'draining'>,
    Pick<Decider, 'left' | 'dropping'> {
  /** For what the controller waits. */
  readonly awaited: readonly AwaitedVersion[];
  /** Whether something is dead on this node while its tables do not count. */
  readonly needsTables: boolean;
}

/** A third of the time after which the rules stop to count. */
const renewMs = 10_000;

/** So long a table may be older than what the API says, while nothing can be written: pods' addresses are given to others soon. */
const staleMs = 60_000;

/** Has the tables count as long as they are right. Otherwise kube-proxy's rules apply to packets. */
export class TableLife {
  readonly #clock: Clock;
  readonly #programmer: Pick<Programmer, 'renew'>;
  #renewedAt: number;
  #nextAt: number;
  #failingSince: number | null = null;

  constructor(clock: Clock, programmer: Pick<Programmer, 'renew'>) {
    this.#clock = clock;
    this.#programmer = programmer;
    // What a former life has renewed may count for as long.
    this.#renewedAt = clock.now();
    this.#nextAt = clock.now();
  }

  /** Whether the rules may count now. */
  get isOn(): boolean {
    return this.#clock.now() - this.#renewedAt < aliveSeconds * 1000;
  }

  /** Whether writing has failed for so long that the rules are let go. */
  get isStale(): boolean {
    return this.#failingSince !== null && this.#clock.now() - this.#failingSince >= staleMs;
  }

  /** In how long the next renewal is due, or the next check whether there may be one. */
  get dueMs(): number {
    if (this.isStale) return renewMs;
    return Math.max(0, this.#nextAt - this.#clock.now());
  }

  /** Has them count for another 30 s, where that is due. Answers whether they had not counted. Rejects with what the kernel rejects with. */
  async renew(): Promise<boolean> {
    if (this.isStale || this.dueMs > 0) return false;
    const wasOn = this.isOn;
    await this.#programmer.renew();
    this.#renewedAt = this.#clock.now();
    this.#nextAt = this.#renewedAt + renewMs;
    return !wasOn;
  }

  recordOutcome(isDone: boolean): void {
    if (isDone) this.#failingSince = null;
    else this.#failingSince ??= this.#clock.now();
  }
}

/** For so long changes are written as they come. */
const burstMs = 500;

/** iptables-nft-save 1.8.9 takes 0.012 ms for a rule, three times that on a busy host; a rule to a chain counts twice. */
const gapPerRuleMs = 0.04;

/** Between the writes of a burst there is as much anyway. */
const leastGapMs = 50;

/** With more rules, other programs may take longer. */
const mostGapMs = 2000;

/** Where rules cannot be counted: there are too many, or the host is too busy, to do so in a second. */
const unknownGapMs = 1000;

/** Foreign rules grow slowly. */
const countEveryMs = 30_000;

/**
 * When changes may be written. Rejects never.
 *
 * Goal: a change is in the kernel some milliseconds later.
 * Tension: iptables-nft-save begins again whenever anybody has written to nftables meanwhile (1.8.9). With ten writes a second, it never
 * ends on a host with 17,000 rules: kube-proxy hangs, and `vipnat run` repairs nothing.
 * Compromise: changes are written immediately for half a second. Then there is a gap in which all other rules can be listed twice. A host
 * with few rules needs no gap.
 */
export class WriteGaps {
  readonly #clock: Clock;
  readonly #countRules: () => Promise<number>;
  #gapMs: number | null = null;
  #countedAt = -Infinity;
  #burstSince = -Infinity;
  #wroteAt = -Infinity;

  /** `countRules` answers how many rules others have. */
  constructor(clock: Clock, countRules: () => Promise<number>) {
    this.#clock = clock;
    this.#countRules = countRules;
  }

  /** In how long changes may be written; 0 is now. */
  get waitMs(): number {
    const now = this.#clock.now();
    const isInBurst = now - this.#burstSince < burstMs;
    return isInBurst ? 0 : Math.max(0, this.#wroteAt + (this.#gapMs ?? 0) - now);
  }

  /** To be called after each write of changes. */
  async noteWrite(): Promise<void> {
    const now = this.#clock.now();
    if (now - this.#burstSince >= burstMs) this.#burstSince = now;
    if (now - this.#countedAt >= countEveryMs) await this.#measure(now);
    this.#wroteAt = this.#clock.now();
  }

  async #measure(now: number): Promise<void> {
    this.#countedAt = now;
    const [count] = await Promise.allSettled([this.#countRules()]);
    if (count.status === 'rejected') {
      this.#gapMs ??= unknownGapMs;
      return;
    }
    const gapMs = Math.min(mostGapMs, count.value * gapPerRuleMs);
    this.#gapMs = gapMs < leastGapMs ? 0 : gapMs;
  }
}

/** Between two reads. With 1,000 nodes, these are 100 a second while pods wait for gates. */
const electionReadMs = 10_000;

/** Reads in a row that find the same renewal. If a controller crashes, another one leads after 18 s. */
const mostRepeats = 2;

/**
 * Whether a controller leads: then it renews the Lease of its election every two seconds.
 *
 * Goal: an early word ends with the controller that said it.
 * Tension: all balancers would read the same Lease, and an API that does not answer says nothing of the controller.
 * Compromise: it is read only while something depends on a controller. Reads are counted, and no time, so a process that was stopped for a while
 * knows nothing yet. After a read that failed, counting begins again, and what was known stays.
 */
export class ControllerWatch {
  readonly #ports: Pick<BalancerPorts, 'clock' | 'logger' | 'readElection'>;
  readonly #onChange: () => void;
  #isNeeded = false;
  /** The last one that was read; undefined for none. */
  #renewal: string | null | undefined = undefined;
  #repeats = 0;
  readonly #reads: Rounds;

  /** `onChange` is called when `isAway` has changed. */
  constructor(ports: Pick<BalancerPorts, 'clock' | 'logger' | 'readElection'>, onChange: () => void) {
    this.#ports = ports;
    this.#onChange = onChange;
    const findDelay = () => (this.#isNeeded ? electionReadMs : null);
    this.#reads = new Rounds(ports.clock, this.#read.bind(this), findDelay);
  }

  /** Whether no controller has renewed the Lease for 20 s. False while nobody needs to know. */
  get isAway(): boolean {
    return this.#repeats >= mostRepeats;
  }

  /** Takes whether something depends on it. */
  need(isNeeded: boolean): void {
    if (isNeeded === this.#isNeeded) return;
    this.#isNeeded = isNeeded;
    this.#take(undefined);
    // By the time of its own clock: nodes need it at the same moment, and did not start together.
    this.#reads.plan(isNeeded ? electionReadMs - (this.#ports.clock.now() % electionReadMs) : null);
  }

  async #read(): Promise<void> {
    const [read] = await Promise.allSettled([this.#ports.readElection()]);
    if (!this.#isNeeded) return;
    if (read.status === 'fulfilled') this.#take(read.value);
    else if (!this.isAway) this.#take(undefined);
  }

  #take(renewal: string | null | undefined): void {
    const wasAway = this.isAway;
    this.#repeats = renewal !== undefined && renewal === this.#renewal ? this.#repeats + 1 : 0;
    this.#renewal = renewal;
    if (this.isAway === wasAway) return;
    if (this.isAway)
      this.#ports.logger.warn(
        'no controller leads: pods that are not ready for Kubernetes get no connection while others are ready',
      );
    this.#onChange();
  }
}

type Cause = 'objects' | 'tables';

/** Listing 1,000 Services with 100 endpoints each takes a second of a processor, and 114 MB. */
const compareMs = 600_000;

/** A first write of 1,000 Services takes seconds. Changes after it wait for half a second of its rest at most: 2 s may be owed. */
const mostRestMs = 2500;

/** A flood fills a memory in seconds, and the usual clients in a quarter of an hour. With 1,000 Services the kernel lists thousands of sets. */
const memoriesPaceMs = 60_000;

/** Each is a series of a metric. */
const mostNamed = 10;

/** After a failure. */
const firstRetryMs = 200;
const maxRetryMs = 8000;

/**
 * The balancer of one node: objects of the API into the tables of this host's kernel. Runs from `start` to `stop`. The tables stay when it stops.
 *
 * Goal: what the API says is in the kernel some milliseconds later; the kernel works on without the API and without this process.
 * Tension: a table that is not maintained sends connections to addresses that other pods get.
 * Compromise: while the API is unreachable, the table is kept as it is. Without this process it stops to count after 30 s, and then
 * kube-proxy's rules apply to packets.
 */
export class Balancer {
  readonly #ports: BalancerPorts;
  readonly #objects: FollowedObjects;
  readonly #programmer: Programmer;
  readonly #writes: IsolatedWrites;
  readonly #settled: SettledBalances;
  readonly #forwards: ForwardKeeper;
  readonly #queue: TriggerQueue<Cause>;
  readonly #log: SyncLog;
  readonly #life: TableLife;
  readonly #gaps: WriteGaps;
  readonly #decider: Decider;
  readonly #controller: ControllerWatch;
  #watch: Watch | null = null;
  /** Wanted, and not yet in the kernel. */
  #pending = new Map<string, Balances>();
  #comparedAt = -Infinity;
  #failures = 0;
  #programmed: NodeReport['programmed'] | null = null;
  /** When the first change came that is not in the kernel yet; null while none is missing. */
  #changedAt: number | null = null;
  #syncedAt: Date | null = null;
  #hasKubeProxy = true;
  #proxyAskedAt = -Infinity;
  #memories: BalancerProgress['memories'] = new Map();
  #memoriesReadAt = -Infinity;

  constructor(ports: BalancerPorts) {
    this.#ports = ports;
    this.#log = new SyncLog(ports.logger);
    this.#programmer = new Programmer(ports.kernel);
    this.#writes = new IsolatedWrites({ ...ports, keepAlive: () => this.#keepAlive() }, this.#programmer);
    this.#life = new TableLife(ports.clock, this.#programmer);
    this.#gaps = new WriteGaps(ports.clock, () => ports.kernel.countRules(tableName));
    this.#objects = new FollowedObjects({
      ...ports,
      onChange: () => {
        this.#changedAt ??= this.#ports.clock.now();
        this.#queue.trigger('objects');
      },
    });
    this.#settled = new SettledBalances({
      ...ports,
      listFormerPorts: () => this.#programmer.listFound(this.#objects.index.listAddresses(this.#isLeft)),
      turnedAt: (vip) => this.#decider.addresses.turnedAt(vip),
      onDrains: () => {
        this.#dropUnused();
        this.#report();
      },
      onShares: this.#objects.touch.bind(this.#objects),
    });
    this.#forwards = new ForwardKeeper(ports);
    this.#queue = new TriggerQueue<Cause>({
      clock: ports.clock,
      awaited: ['objects'],
      sync: (causes) => this.#sync(causes),
      mostRestMs,
    });
    const listMemories = () => ports.kernel.listMemories(tableName);
    this.#decider = new Decider({ ...ports, listMemories }, this.#objects, this.#log);
    this.#controller = new ControllerWatch(ports, () => {
      const { early } = this.#objects.index;
      early.isControllerAway = this.#controller.isAway;
      this.#objects.touch(early.dependent);
    });
  }

  /** Services in the tables, what the tables hold, and whether the API is followed. */
  get progress(): BalancerProgress {
    const { isFollowing, kinds, unreadable } = this.#objects;
    const [services, elements] = [this.#settled.balances.size, this.#programmer.elementCount];
    const left = [...this.#left.keys()];
    const { zone, endings } = this.#objects.index.nodes;
    const { isAway: isControllerAway } = this.#controller;
    const { kept } = this.#decider;
    const followed = { isFollowing, kinds, unreadable, zone, endings, kept, isControllerAway };
    const [{ behindMs }, memories] = [this, this.#memories];
    return { services, elements, left, memories, ...followed, syncedAt: this.#syncedAt, behindMs };
  }

  /** See `BalancerProgress`. Each heartbeat asks for it, so nothing else is gathered. */
  get behindMs(): number {
    return this.#queue.behindMs;
  }

  /** To be called when other nodes answer no more, or again. */
  noteOutages(): void {
    this.#decider.noteOutages();
  }

  start(): void {
    this.#objects.start();
    this.#watch = this.#ports.kernel.watchGeneration({
      clock: this.#ports.clock,
      onChange: this.#queue.trigger.bind(this.#queue, 'tables'),
      onProblem: ({ message, code }) => {
        this.#ports.logger.warn(message, { code });
      },
    });
    this.#queue.requeueAfter('tick', 0);
  }

  async stop(): Promise<void> {
    this.#objects.stop();
    this.#decider.stop();
    await this.#watch?.stop();
    await this.#queue.stop();
    await this.#settled.stop();
    await this.#forwards.stop();
    // A sync that was in progress may have asked for it.
    this.#controller.need(false);
  }

  async #sync(causes: readonly (Cause | OwnCause)[]): Promise<Requeue<Cause>> {
    // Asked once: what is left out for a gap that ends meanwhile is not to wait for the tick.
    const gapMs = this.#gaps.waitMs;
    try {
      await this.#keepTables(causes.includes('tables'));
      if (gapMs === 0) await this.#writeChanges();
      if (this.#objects.hasSynced) this.#forwards.keep(this.#objects.index.vips, causes.includes('tables'));
      this.#failures = 0;
      this.#syncedAt = this.#ports.clock.date();
    } catch (error) {
      this.#failures += 1;
      const problem = toVipnatError(error, 'INTERNAL_ERROR', 'balancing Services');
      this.#ports.observer.failed(problem.code);
      this.#log.failed(problem);
    }
    const isDone = this.#failures === 0 && !this.#objects.isIncomplete;
    if (isDone) this.#log.done();
    this.#life.recordOutcome(isDone);
    if (this.#life.isStale) this.#log.letGo();
    this.#askProxy();
    void this.#readMemories();
    this.#report();
    if (this.#failures > 0)
      return { cause: 'retry', delayMs: backOff(this.#failures - 1, firstRetryMs, maxRetryMs) };
    return { cause: 'tick', delayMs: Math.min(this.#life.dueMs, gapMs || this.#writes.dueMs) };
  }

  /** The next sync has the answer. */
  #askProxy(): void {
    if (this.#ports.clock.now() - this.#proxyAskedAt < renewMs) return;
    this.#proxyAskedAt = this.#ports.clock.now();
    void this.#ports.hasKubeProxy().then((isThere) => (this.#hasKubeProxy = isThere));
  }

  /** One that is full remembers nobody else, and nothing but this tells. What was read last stays if the kernel does not answer. */
  async #readMemories(): Promise<void> {
    const { clock, kernel } = this.#ports;
    if (clock.now() - this.#memoriesReadAt < memoriesPaceMs) return;
    this.#memoriesReadAt = clock.now();
    const [read] = await Promise.allSettled([kernel.listMemories(tableName)]);
    if (read.status === 'rejected') return;
    const used = [...read.value].flatMap(([name, count]) =>
      count === null ? [] : [[name, count / maxKeys] as const],
    );
    this.#memories = new Map(used.sort(([, one], [, other]) => other - one).slice(0, mostNamed));
  }

  /** What was written stays as it is, and counts. */
  async #keepTables(isReported: boolean): Promise<void> {
    await this.#keepAlive();
    if (!isReported || !this.#programmer.isKnown || (await this.#programmer.areOwn())) return;
    this.#ports.observer.repaired();
    this.#ports.logger.warn('another program removed or replaced a table of vipnat: vipnat writes it again');
  }

  async #keepAlive(): Promise<void> {
    if (await this.#life.renew()) this.#settled.sweep();
  }

  async #writeChanges(): Promise<void> {
    if (!this.#objects.hasSynced) return;
    const [{ versions }, changedAt] = [this.#objects, this.#changedAt];
    this.#changedAt = null;
    try {
      await this.#program(changedAt);
    } catch (error) {
      this.#changedAt = changedAt ?? this.#changedAt;
      throw error;
    }
    this.#programmed = versions;
  }

  async #program(changedAt: number | null): Promise<void> {
    await this.#decide();
    const now = this.#ports.clock.now();
    const wasKnown = this.#programmer.isKnown;
    const isDue = now - this.#comparedAt >= compareMs;
    const written = await this.#writes.update(this.#pending);
    // Whatever becomes of the comparison, the kernel has these.
    this.#pending = new Map();
    this.#settle(written);
    // An update of tables that were not known has compared them, unless all that changed is set aside.
    if (!this.#programmer.isKnown || (isDue && wasKnown)) this.#settle(await this.#compare());
    if (isDue || !wasKnown) this.#comparedAt = now;
    if (!wasKnown) this.#settled.sweep();
    if (written.size === 0) return;
    this.#ports.observer.programmed(written.size, this.#ports.clock.now() - (changedAt ?? now));
    await this.#gaps.noteWrite();
  }

  /** Notes how the Services that have changed are to be balanced. */
  async #decide(): Promise<void> {
    for (const [service, balances] of await this.#decider.decide()) {
      const isKnown =
        this.#settled.balances.has(service) || this.#pending.has(service) || this.#writes.isRefused(service);
      if (balances.length > 0 || isKnown)
        this.#pending.set(
          service,
          balances.map((balance) => this.#settled.shares.share(balance)),
        );
    }
  }

  /** Answers the Services that are not in the tables any more. */
  async #compare(): Promise<ReadonlyMap<string, Balances>> {
    const { drifted, gone } = await this.#writes.compare();
    for (const family of drifted) {
      this.#ports.observer.repaired();
      this.#ports.logger.warn(`vipnat repaired its table of ${family}: another program had changed it`);
    }
    return gone;
  }

  /** The Services that are kube-proxy's although nobody asks for that, to why. */
  get #left(): ReadonlyMap<string, string> {
    return new Map([...this.#decider.left, ...this.#writes.refused]);
  }

  readonly #isLeft = (service: string) => this.#writes.isRefused(service) || this.#decider.isLeft(service);

  /** The kernel has it. */
  #settle(changes: ReadonlyMap<string, Balances>): void {
    this.#log.balanced(changes);
    this.#log.notTaken(this.#writes.refused);
    this.#settled.settle(changes, this.#isLeft);
  }

  /** Of endpoints that slices have lost, nobody says when they end: where nobody is connected any more, it does not matter. */
  #dropUnused(): void {
    const names = new Set(this.#settled.unused.map(({ service, address }) => `${service} ${address}`));
    const services = this.#objects.index.left.drop((service, address) => names.has(`${service} ${address}`));
    if (services.length > 0) this.#objects.touch(services);
  }

  /** Nothing before the first time: a former life's word counts until then. */
  #report(): void {
    const [{ pools, virtualIps, versions, hasSynced, index }, { isOn }] = [this.#objects, this.#life];
    // kube-proxy follows the API itself.
    const programmed = isOn || !hasSynced ? this.#programmed : versions;
    if (programmed === null) return;
    const [{ draining }, awaited, left] = [this.#settled, index.listAwaited(virtualIps), this.#left];
    const { dropping } = this.#decider;
    // Without tables, kube-proxy serves: it sends no client of policy Local on to other nodes.
    const needsTables = index.isAnyLocal || !this.#hasKubeProxy;
    this.#controller.need(index.early.dependent.length > 0);
    const mode: NodeReport['mode'] = isOn ? 'direct' : needsTables ? 'none' : 'kube-proxy';
    const own = { mode, needsTables, programmed, left, dropping };
    this.#ports.onView({ ...own, pools, virtualIps, draining, awaited });
  }
}
