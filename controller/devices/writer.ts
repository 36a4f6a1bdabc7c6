/**
 * Makes one device what Services want of it, from `start` to `stop`: nobody else changes anything there for this cluster.
 *
 * Goal: whatever happened to the device, to this process or between both, the device is what the Services say.
 * Tension: a device has no events, takes seconds, and forgets; Services change faster than it does.
 * Compromise: what is wanted is reckoned from the objects at each turn, and the driver reads before it writes. Nothing is remembered that `list` does
 * not find again: memory only saves calls, and keeps what drains.
 */
import {
  type SessionOptions,
  DeviceSession,
  type Failure,
  type DeviceStatus,
  limitUnresponsive,
  NotLeadingError,
  describeFailure,
  describeState,
  describeOthers,
  type SeenUnits,
  readUnits,
  dropFormerFinalizer,
} from './session.ts';
import type { Random } from '../../lib/clock.ts';
import { type ClusterView, findService } from '../cache/cache.ts';
import { type DeviceReport, type DeviceBalancer, toBalancerKey } from '../cache/known.ts';
import { type LoadBalancerDevice, listCurrentOwners } from '../../lib/api/device.ts';
import { KeyedQueue, SharedLock, type QueueStatistics, type TurnResult } from '../../lib/queue.ts';
import { HeldBalancer, listDrains } from './held.ts';
import { toBalancerId, toWanted, type Wanted, judgeService, isAbsentAtOlder } from './wanted.ts';
import type { BalancerId, DeviceState, Owned, Progress, LoadBalancerDriver } from '../../devices/driver.ts';
import { findErrorCode } from '../../lib/errors.ts';
import { toPrintableLine } from '../../lib/text.ts';

/** The dependencies of a writer, and its listeners. */
export interface WriterOptions extends Omit<SessionOptions, 'onCall'> {
  readonly random: Random;
  readonly view: () => ClusterView;
  /** What it knows of the device; null for nothing any more. */
  readonly onReport: (device: string, report: DeviceReport | null) => void;
  /** What it knows of one Service there; null for nothing any more. */
  readonly onBalancer: (key: string, balancer: DeviceBalancer | null) => void;
  /** A fault of vipnat itself. */
  readonly onError: (key: string, error: unknown) => void;
}

/** The key of a turn that reads the device itself: no Service's is empty. */
const deviceKey = '';

/** A unit that fails is known after that, at the latest. */
const pollMs = 30_000;

/** Everything is compared with the device again after that, and the Secret is read again. */
const resyncMs = 5 * 60_000;

/** A Service that is gone without its finalizer: somebody took that away. Until then a list may be old. */
const garbageMs = 60_000;

/** The third failure in a row is reported: a pair that changes its roles fails one or two. */
const reportedFailures = 2;

/** An ensure that runs for so long is reported. */
const longMs = 30_000;

const tooLong = 'it does not answer in two minutes';

/** One device's. */
export class DeviceWriter {
  /** As it was when this began. */
  readonly device: LoadBalancerDevice;
  readonly name: string;
  /** As its options have it. */
  readonly conflict: string | null;
  /** How many requests went to its units. */
  calls = 0;
  readonly #options: WriterOptions;
  readonly #session: DeviceSession;
  readonly #queue: KeyedQueue;
  readonly #uidToHeld = new Map<string, HeldBalancer>();
  /** Each ends a turn in progress. */
  readonly #aborting = new Set<AbortController>();
  /** Changes are made at the same time where the driver takes them so. A list in the middle of one would show half of it. */
  readonly #lock = new SharedLock();
  #listing: Promise<void> | null = null;
  #calledMs = 0;
  #hasStarted = false;
  #isStopped = false;
  #listedMs: number | null = null;
  #renewedMs: number;
  /** Why the credentials could not be read again; null where they could. */
  #unread: Failure | null = null;
  /** That another cluster writes there under the same name; null for none. */
  #shared: Failure | null = null;
  /** What the device said last; null before that. */
  #deviceStatus: DeviceStatus | null = null;
  /** As the last check that was answered found them; null before one was. */
  #seen: SeenUnits | null = null;
  /** Services to compare with the device, after all that have news; and those of them whose turn comes. */
  readonly #toCompare = new Set<string>();
  readonly #comparing = new Set<string>();
  /** Why the device takes no credentials; null where it does. An account has few tries: checks have them, and no Service. */
  #refusal: string | null = null;
  #reportedMs = -Infinity;
  /** What makes a date of a moment of the clock, always the same. */
  readonly #dateOffsetMs: number;

  constructor(device: LoadBalancerDevice, options: WriterOptions) {
    const { clock, random, onError } = options;
    this.device = device;
    this.name = device.metadata.name;
    this.conflict = options.conflict;
    this.#options = options;
    this.#session = new DeviceSession(device, {
      ...options,
      writeMs: () => (this.#isStopped ? 0 : options.writeMs()),
      onCall: () => {
        this.calls += 1;
        this.#calledMs = clock.now();
      },
    });
    this.#renewedMs = clock.now();
    this.#dateOffsetMs = clock.date().getTime() - clock.now();
    this.#queue = new KeyedQueue({
      ...{ clock, random, workers: () => this.#session.changesAtOnce },
      toGroup: (uid) => this.#uidToHeld.get(uid)?.id.namespace ?? deviceKey,
      work: (uid, failures) => this.#turn(uid, failures),
      onError: (uid, error) => {
        onError(uid === deviceKey ? this.name : toBalancerKey(this.name, uid), error);
      },
    });
  }

  /** How its queue does. */
  get statistics(): QueueStatistics {
    return this.#queue.statistics;
  }

  /** Begins: the device is read, and each Service that it may have something of. */
  start(): void {
    this.#hasStarted = true;
    this.#queue.add(deviceKey);
    for (const key of this.#options.view().deviceToServices.get(this.name) ?? []) this.#holdAll(key);
    this.#compareAll();
  }

  /** Something has changed that concerns the Service `NAMESPACE/NAME`, or one that had the name. Before `start` it is not news. */
  consider(key: string): void {
    if (this.#hasStarted) for (const { id } of this.#holdAll(key)) this.#queue.add(id.uid);
  }

  /** Begins nothing more, and ends when the call in progress has. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const aborting of this.#aborting) aborting.abort();
    await this.#queue.stop();
  }

  #holdAll(key: string): HeldBalancer[] {
    const view = this.#options.view();
    const service = view.services.get(key);
    const isConcerned = view.deviceToServices.get(this.name)?.has(key) === true;
    const own = service !== undefined && isConcerned ? [toBalancerId(service, this.device)] : [];
    const balancers = [...(view.serviceToBalancers.get(key) ?? [])].flatMap(
      (each) => view.deviceBalancers.get(each) ?? [],
    );
    const known = balancers.filter(({ device }) => device === this.name).map(({ id }) => id);
    return [...own, ...known].map((id) => this.#hold(id));
  }

  #hold(id: BalancerId): HeldBalancer {
    const known = this.#uidToHeld.get(id.uid) ?? new HeldBalancer(id);
    this.#uidToHeld.set(id.uid, known);
    return known;
  }

  async #turn(uid: string, failures: number): Promise<TurnResult> {
    const aborting = new AbortController();
    this.#aborting.add(aborting);
    // Its turn compares it, for whatever reason it has one.
    this.#toCompare.delete(uid);
    const limit = limitUnresponsive(this.#options.clock, () => this.#calledMs, aborting);
    try {
      if (uid === deviceKey) return await this.#sync(aborting.signal);
      return await this.#settle(uid, failures, aborting.signal);
    } catch (error) {
      // The next leader continues from the device's state.
      if (error instanceof NotLeadingError || this.#isStopped) return { kind: 'again', afterMs: 1000 };
      return this.#fail(uid, failures, limit.isOver ? tooLong : this.#describe(error).message);
    } finally {
      limit.cancel();
      this.#aborting.delete(aborting);
      this.#comparing.delete(uid);
      this.#compareNext();
    }
  }

  /** Reads how the device does, and what it has where that is due. Never fails: it is read again anyway. */
  async #sync(signal: AbortSignal): Promise<TurnResult> {
    const { random, clock } = this.#options;
    try {
      if (this.#unread !== null || clock.now() - this.#renewedMs >= resyncMs) await this.#renew();
      const driver = await this.#session.open();
      const all = [...this.#uidToHeld.values()];
      if (this.#listedMs === null || clock.now() - this.#listedMs >= resyncMs) {
        await this.#list(signal);
        this.#compareAll();
      } else if (driver.capabilities.sessions && all.some(({ isDraining }) => isDraining))
        this.#count(await this.#lock.share(() => driver.list(signal)));
      const state = await this.#readState(driver, signal);
      this.#report(describeState(state, this.#unread, this.#shared));
      this.#noteState(state);
      this.#admit();
    } catch (error) {
      if (error instanceof NotLeadingError || this.#isStopped) return { kind: 'again', afterMs: 1000 };
      await this.#noteFailure(error);
    }
    return { kind: 'again', afterMs: pollMs * (0.9 + random() / 5) };
  }

  /** No unit answers: who comes back, and cannot tell what it has, is to be compared. */
  async #noteFailure(error: unknown): Promise<void> {
    const failure = this.#describe(error);
    if (this.#seen !== null) this.#seen = { ...this.#seen, lacking: [] };
    // Other credentials, or another CA, may help with any of them.
    await this.#renew();
    this.#report({ units: [], foreignChanges: [], isReady: false, ...failure });
  }

  /**
   * Everything is compared where a unit newly lacks something, or the active one says so, or another one is active than before: it may have
   * missed changes, and none may come. Any change brings a standby to what the active one has.
   */
  #noteState({ units }: DeviceState): void {
    const before = this.#seen;
    const now = (this.#seen = readUnits(units, before));
    if (before === null) return;
    // While all is compared, the unit may say so once more.
    const isEmpty = now.isEmpty && this.#toCompare.size === 0;
    if (now.isNewlyBehind) this.#recheck();
    else if (isEmpty) this.#compareAll();
    else if (units.some(({ isInSync }) => isInSync === false)) {
      // With any Service a driver brings each unit to what the active one has.
      const held = [...this.#uidToHeld.values()].find(({ isThere }) => isThere);
      if (held !== undefined) this.#compare(held);
    }
  }

  /** A change was made at another unit than the one that was active: it may have missed changes. The next check compares nothing for it again. */
  #noteActive(active: string | null = null): void {
    const before = this.#seen?.active ?? active;
    if (this.#seen === null || active === null || before === active) return;
    this.#seen = { ...this.#seen, active };
    this.#recheck();
  }

  /** A unit that has missed changes may still have what nobody knows of: all is listed before it is compared. */
  #recheck(): void {
    if (this.#listedMs !== null) this.#listedMs = -Infinity;
    this.#queue.add(deviceKey);
  }

  /** What the units say. One that may lack something learns what it is to have, as soon as all was compared; until it has that, all is compared again. */
  async #readState(driver: LoadBalancerDriver, signal: AbortSignal): Promise<DeviceState> {
    const state = await driver.readState(signal);
    const { depth, working } = this.#queue.statistics;
    const isUnknown = state.units.some(({ role, isInSync }) => role === 'active' && isInSync === null);
    if (driver.confirm === undefined || !isUnknown || depth > 0 || working > 1) return state;
    const served = [...this.#uidToHeld.values()].filter(({ isServing }) => isServing).map(({ id }) => id);
    const result = await this.#lock.share(async () => (await driver.confirm?.(served, signal))?.result);
    if (result === 'done') return await driver.readState(signal);
    this.#compareAll();
    return state;
  }

  /** Where that is not possible, the credentials that are known are as good as before. */
  async #renew(): Promise<void> {
    this.#renewedMs = this.#options.clock.now();
    try {
      // Two drivers at the same time would write each in the middle of the other's change.
      const areOther = await this.#lock.alone(() => this.#session.renew());
      this.#unread = null;
      if (areOther) this.#admit();
    } catch (error) {
      // An API that does not answer is reported elsewhere.
      if (findErrorCode(error) !== 'API_UNREACHABLE') this.#unread = describeFailure(error);
    }
  }

  #report(deviceStatus: DeviceStatus): void {
    this.#deviceStatus = deviceStatus;
    this.#reportedMs = this.#options.clock.now();
    const { generation } = this.device.metadata;
    const there = [...this.#uidToHeld.values()].filter(({ isThere }) => isThere).length;
    // One that is not used has nothing of its own, and keeps no address from another device.
    const balancers = this.#listedMs === null && this.conflict === null ? null : there;
    const draining = listDrains(this.#uidToHeld.values(), this.#dateOffsetMs);
    this.#options.onReport(this.name, { generation, ...deviceStatus, balancers, draining });
  }

  /** What the device has of this cluster, whoever wrote it. Who asks meanwhile gets the same answer. */
  #list(signal: AbortSignal): Promise<void> {
    this.#listing ??= this.#lock.alone(() => this.#readList(signal)).finally(() => (this.#listing = null));
    return this.#listing;
  }

  /** Each Service is compared with the device. */
  #compareAll(): void {
    for (const held of this.#uidToHeld.values()) this.#compare(held);
  }

  #compare(held: HeldBalancer): void {
    held.markStale();
    this.#toCompare.add(held.id.uid);
    this.#compareNext();
  }

  /** No more of them than the driver takes together wait for a turn: news come right after these. */
  #compareNext(): void {
    for (const uid of this.#toCompare) {
      if (this.#comparing.size >= this.#session.changesAtOnce) return;
      this.#toCompare.delete(uid);
      this.#comparing.add(uid);
      this.#queue.add(uid);
    }
  }

  async #readList(signal: AbortSignal): Promise<void> {
    const driver = await this.#session.open();
    const all = await driver.list(signal);
    this.#shared = describeOthers(all, this.device);
    const owned = all.filter(({ otherCluster }) => otherCluster === undefined);
    const now = (this.#listedMs = this.#options.clock.now());
    this.#count(owned);
    const uidToBalancer = new Map(owned.map(({ balancer }) => [balancer.id.uid, balancer]));
    for (const [uid, balancer] of uidToBalancer) {
      const held = this.#hold(balancer.id);
      held.find(balancer, now);
      this.#toCompare.add(uid);
      // Its addresses are nobody else's from now on, whatever comes before its turn.
      this.#notify(uid, {});
    }
    for (const [uid, held] of this.#uidToHeld) {
      if (!held.isThere || uidToBalancer.has(uid)) continue;
      held.isThere = false;
      this.#compare(held);
    }
  }

  /** Open connections. What else the list has is compared when all is. */
  #count(owned: readonly Owned[]): void {
    for (const { balancer, memberToSessions } of owned) {
      const held = this.#uidToHeld.get(balancer.id.uid);
      if (held !== undefined) held.sessions = memberToSessions;
    }
  }

  async #settle(uid: string, failures: number, signal: AbortSignal): Promise<TurnResult> {
    const held = this.#uidToHeld.get(uid);
    if (held === undefined) return { kind: 'done' };
    if (this.#refusal !== null) {
      this.#fail(uid, reportedFailures, this.#refusal);
      return { kind: 'again', afterMs: pollMs };
    }
    if (isAbsentAtOlder(held.id, this, this.#options.view())) return this.#noteAbsent(held);
    if (this.#listedMs === null) await this.#list(signal);
    return await this.#lock.share(() => this.#decide(held, failures, signal));
  }

  async #decide(held: HeldBalancer, failures: number, signal: AbortSignal): Promise<TurnResult> {
    const { clock } = this.#options;
    const driver = await this.#session.open();
    const view = this.#options.view();
    const service = findService(held.id, view);
    const intent = judgeService(service, { device: this.device, isThere: held.isThere, view });
    if (intent === 'clear' && !held.isCleared) {
      const goneMs = held.noteGone(service === undefined, clock.now());
      if (goneMs !== null && goneMs < garbageMs)
        return { kind: 'again', afterMs: Math.ceil(garbageMs - goneMs) };
      return await this.#clear(held, { driver, signal, failures });
    }
    if (intent !== 'have' || service === undefined) return this.#leave(held);
    const { addresses: present, members: former } = held;
    const query = { service, device: this.device, capabilities: driver.capabilities, present, former };
    const wanted = toWanted({ ...query, nowMs: clock.now() }, view);
    return await this.#have(held, wanted, { driver, signal, failures });
  }

  /** Nothing is to be done; what was said of what is not there any more is forgotten with its Service, or its finalizer. */
  #leave(held: HeldBalancer): TurnResult {
    const service = findService(held.id, this.#options.view());
    const isOwner = service !== undefined && listCurrentOwners(service).includes(this.name);
    if (held.isThere || isOwner) return { kind: 'done' };
    this.#uidToHeld.delete(held.id.uid);
    this.#options.onBalancer(toBalancerKey(this.name, held.id.uid), null);
    return { kind: 'done' };
  }

  async #have(held: HeldBalancer, wanted: Wanted, call: Call): Promise<TurnResult> {
    const { clock } = this.#options;
    const { uid } = held.id;
    const { balancer, problem, remark, gated } = wanted;
    if (balancer === null) return await this.#close(held, wanted, call);
    if (held.isDue(balancer)) {
      // Before the first call: nobody else gets the address from now on.
      held.begin(balancer, clock.now());
      this.#notify(uid, { remark, deviceStatus: held.isServing ? 'serves' : 'unknown' });
      const progress = await call.driver.ensure(balancer, call.signal);
      if (progress.result !== 'done') return this.#wait(held, progress, call.failures);
      this.#noteActive(progress.unit);
      held.done(balancer, clock.now());
    }
    this.#notify(uid, { deviceStatus: 'serves', gated });
    await this.#takeOver(held);
    this.#notify(uid, { deviceStatus: 'serves', problem, remark });
    // Between two checks of the device, for those who watch a rollout.
    const isDue = held.isDraining && clock.now() - this.#reportedMs >= unrestMs;
    if (isDue && this.#deviceStatus !== null) this.#report(this.#deviceStatus);
    const isUnrest = held.isDraining || problem !== null;
    return isUnrest ? { kind: 'again', afterMs: unrestMs } : { kind: 'done' };
  }

  /** What can be served no longer goes; the Service's status keeps the address, so that nobody else gets it. */
  async #close(held: HeldBalancer, { problem, remark, gated }: Wanted, call: Call): Promise<TurnResult> {
    const isLeft = held.isThere && problem?.reason === 'NotSupported';
    const result = isLeft ? await this.#clear(held, call) : null;
    if (result !== null && held.isThere) return result;
    this.#notify(held.id.uid, { problem, remark, gated });
    return { kind: 'again', afterMs: unrestMs };
  }

  async #clear(held: HeldBalancer, { driver, signal, failures }: Call): Promise<TurnResult> {
    held.begin(null, this.#options.clock.now());
    const progress = await driver.remove(held.id, signal);
    if (progress.result !== 'done') return this.#wait(held, progress, failures);
    this.#noteActive(progress.unit);
    return this.#noteAbsent(held);
  }

  #noteAbsent(held: HeldBalancer): TurnResult {
    held.clear();
    this.#notify(held.id.uid, { deviceStatus: 'absent', problem: null, remark: null, gated: [] });
    // Where its Service is gone, nobody has to learn of it.
    return this.#leave(held);
  }

  /** What is not done is tried again. */
  #wait(held: HeldBalancer, progress: Exclude<Progress, { result: 'done' }>, failures: number): TurnResult {
    const { uid } = held.id;
    const why = toPrintableLine(progress.why);
    if (progress.result === 'running') {
      const message = `The device ${this.name}: ${why}.`;
      if (held.runsMs(this.#options.clock.now()) >= longMs)
        this.#notify(uid, { problem: { reason: 'WaitingForDevice', message } });
      return { kind: 'again', afterMs: Math.min(Math.max(progress.retryInMs, 50), pollMs) };
    }
    if (progress.result === 'failed') {
      if (progress.kind === 'unauthorized') this.#refusal = why;
      return this.#fail(uid, failures, why);
    }
    const message = `The device ${this.name} refuses: ${why}. vipnat tries again within 5 minutes.`;
    this.#notify(uid, { problem: { reason: 'DeviceRefused', message } });
    return { kind: 'again', afterMs: held.refuse() };
  }

  #fail(uid: string, failures: number, why: string): TurnResult {
    const message = `The device ${this.name} does not do what this Service wants: ${why}. vipnat tries again.`;
    if (uid !== deviceKey && failures >= reportedFailures)
      this.#notify(uid, { problem: { reason: 'DeviceFailed', message } });
    return { kind: 'failed' };
  }

  #describe(error: unknown): Failure {
    const failure = describeFailure(error);
    if (failure.reason === 'Unauthorized') this.#refusal = failure.message;
    return failure;
  }

  /** It takes the credentials, or there are others. */
  #admit(): void {
    if (this.#refusal === null) return;
    this.#refusal = null;
    this.#compareAll();
  }

  /** What another controller has put on the Service's Endpoints goes first: the Service's own finalizer says that it is still to be done. */
  async #takeOver(held: HeldBalancer): Promise<void> {
    const service = findService(held.id, this.#options.view());
    if (held.isTakenOver || service === undefined) return;
    held.isTakenOver = await dropFormerFinalizer(this.#options.client, service.metadata, this.#options);
  }

  #notify(uid: string, parts: Partial<DeviceBalancer>): void {
    const held = this.#uidToHeld.get(uid);
    if (held === undefined) return;
    const key = toBalancerKey(this.name, uid);
    const before = this.#options.view().deviceBalancers.get(key);
    const after: DeviceBalancer = {
      ...{ deviceStatus: 'unknown', problem: null, remark: null, gated: [], ...before, ...parts },
      ...{ device: this.name, id: held.id, addresses: held.reserved, isTakenOver: held.isTakenOver },
    };
    if (JSON.stringify(before) !== JSON.stringify(after)) this.#options.onBalancer(key, after);
  }
}

/** Members that drain, and addresses that others have, are checked so often. */
const unrestMs = 10_000;

/** How a device is called in one turn. */
interface Call {
  readonly driver: LoadBalancerDriver;
  readonly signal: AbortSignal;
  readonly failures: number;
}
