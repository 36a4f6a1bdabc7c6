import {
  type Capabilities,
  type Balancer,
  type Listener,
  type Member,
  describeBalancer,
  type Owned,
  type DriverContext,
  type LoadBalancerDriver,
  type Change,
  type DeviceState,
  type Progress,
  type BalancerId,
} from '../driver.ts';
import { type Clock, sleep, scheduleLimit } from '../../lib/clock.ts';
import { type Sites, Shapes, documentationSites, testClusters } from './shapes.ts';

/** One thing that drivers promise. */
export interface Check {
  /** For reports, scripts and `--only`: it never changes its meaning. */
  readonly name: string;
  /** For people. */
  readonly title: string;
  /** What the device and the target must be able to do. */
  readonly needs: readonly Need[];
  /** Rejects with a CheckFailed where the driver breaks the promise. The device is without balancers of the suite before and after it. */
  readonly run: (bench: Bench, shapes: Shapes) => Promise<void>;
}

/** Checks by their names. One that needs nothing does not say so. */
export function toChecks(
  rows: Readonly<Record<string, Pick<Check, 'title' | 'run'> & Partial<Check>>>,
): readonly Check[] {
  return Object.entries(rows).map(([name, row]) => ({ name, needs: [], ...row }));
}

/** A capability, an action of the target, or what either has to have of something. */
export type Need =
  Exclude<keyof Capabilities, 'methods'> | 'two methods' | 'IPv6 addresses' | keyof TargetActions;

/** The needs that are not met. */
export function findUnmet(needs: readonly Need[], { capabilities, actions, shapes }: Bench): readonly Need[] {
  const met: Readonly<Partial<Record<Need, unknown>>> = {
    ...{ ...capabilities, ...actions },
    ...{ 'two methods': capabilities.methods.length > 1, 'IPv6 addresses': shapes.sites.ipv6.length > 0 },
  };
  return needs.filter((need) => met[need] === undefined || met[need] === false);
}

/** How what a device has differs from what was wanted: one sentence; null where it does not. */
export function findDifference(owned: readonly Owned[], wanted: readonly Balancer[]): string | null {
  const there = owned.flatMap(({ balancer }) => describeBalancer(balancer)).sort();
  const meant = wanted.flatMap(describeBalancer).sort();
  const [missing, superfluous] = [subtract(meant, there), subtract(there, meant)];
  const parts = [
    ...(missing.length === 0 ? [] : [`misses ${quoteSome(missing)}`]),
    ...(superfluous.length === 0 ? [] : [`has ${quoteSome(superfluous)} too much`]),
  ];
  return parts.length === 0 ? null : parts.join(', and ');
}

/** What is more often in one list than in the other. */
export function subtract(texts: readonly string[], others: readonly string[]): string[] {
  const left = [...others];
  return texts.filter((text) => {
    const at = left.indexOf(text);
    if (at === -1) return true;
    left.splice(at, 1);
    return false;
  });
}

/** The first few of them. */
export function quoteSome(texts: readonly string[]): string {
  const shown = texts.slice(0, 3).map((text) => `"${text}"`);
  return texts.length > shown.length ? `${shown.join(', ')} and ${texts.length - 3} more` : shown.join(', ');
}

/** The driver does not do what it promises. */
export class CheckFailed extends Error {
  override readonly name = 'CheckFailed';
}

/** Longer than any device takes for one call of a driver: what has not ended by then hangs. */
const limitMs = 120_000;

/** How often an undisturbed device may fail in a row: requests get lost in any network. */
export const maxFailures = 5;

/** How long a device may report `running`. */
const maxWaitMs = 600_000;

/** Devices do what they have accepted, also after the process has ended, within this time. */
const acceptedMs = 1000;

/** Between two tries of what failed. */
export const retryMs = 1000;

/** What a call's name begins with, by docs/drivers.md, where it changes the device. */
const writes = 'POST|PUT|PATCH|DELETE|write';
export const writingCall = new RegExp(`^(?:${writes})\\b`, 'i');

/** Likewise for any call. */
const verbs = `GET|HEAD|LIST|read|${writes}`;
const knownCall = new RegExp(`^(?:${verbs})\\b`, 'i');

interface SubjectParts {
  readonly driver: LoadBalancerDriver;
  readonly clock: Clock;
  /** Ends the whole suite. */
  readonly signal: AbortSignal;
  readonly calls: readonly string[];
  /** Whether this driver's process has ended: then nothing is tried again. */
  readonly hasEnded: () => boolean;
}

/** A driver as checks use it: what hangs, and what rejects against its contract, fails the check. */
export class Subject {
  /** The driver itself, for what goes against the rules. */
  readonly driver: LoadBalancerDriver;
  /** The names of all calls to units so far, which grow. */
  readonly calls: readonly string[];
  readonly #parts: SubjectParts;

  constructor(parts: SubjectParts) {
    this.driver = parts.driver;
    this.calls = parts.calls;
    this.#parts = parts;
  }

  async list(): Promise<readonly Owned[]> {
    return await this.#bound('list', (signal) => this.driver.list(signal));
  }

  async plan(wanted: Balancer): Promise<readonly Change[]> {
    return await this.#bound('plan', (signal) => this.driver.plan(wanted, signal));
  }

  async readState(): Promise<DeviceState> {
    return await this.#bound('readState', (signal) => this.driver.readState(signal));
  }

  /** Ends also by `more`; then it may reject with anything. */
  async ensure(wanted: Balancer, more?: AbortSignal): Promise<Progress> {
    const progress = await this.#bound('ensure', (signal) => this.driver.ensure(wanted, signal), more);
    return expectProgress('ensure', progress);
  }

  /** Whatever comes of it, but not `running` any more. */
  async ensureToEnd(wanted: Balancer): Promise<Progress> {
    const endMs = this.#parts.clock.now() + maxWaitMs;
    for (;;) {
      const progress = await this.ensure(wanted);
      if (progress.result !== 'running') return progress;
      if (this.#parts.clock.now() > endMs) throw new CheckFailed(`ensure has no end: ${progress.why}`);
      await sleep(this.#parts.clock, progress.retryInMs);
    }
  }

  async remove(id: BalancerId): Promise<Progress> {
    return expectProgress('remove', await this.#bound('remove', (signal) => this.driver.remove(id, signal)));
  }

  /** Calls `ensure` until it is done, or until the driver's process has ended. */
  async settle(wanted: Balancer): Promise<void> {
    await this.#repeat('ensure', () => this.ensure(wanted));
  }

  /** Likewise with `remove`. */
  async settleRemoval(id: BalancerId): Promise<void> {
    await this.#repeat('remove', () => this.remove(id));
  }

  /** Fails unless the device has exactly these of the cluster, and these of another cluster of its name. */
  async expectOnly(wanted: readonly Balancer[], when: string, others?: readonly Balancer[]): Promise<void> {
    const isOther = ({ otherCluster }: Owned) => otherCluster !== undefined;
    const { yes = [], no = [] } = Object.groupBy(await this.list(), (one) => (isOther(one) ? 'yes' : 'no'));
    const difference = findDifference(no, wanted) ?? findDifference(yes, others ?? []);
    if (difference !== null) throw new CheckFailed(`${when}, list ${difference}`);
  }

  /** Fails where something is to be done for it. */
  async expectNoPlan(wanted: Balancer, when: string): Promise<void> {
    const changes = (await this.plan(wanted)).map((change) => describeChange(change));
    if (changes.length > 0) throw new CheckFailed(`${when}, plan has ${quoteSome(changes)}`);
  }

  async #repeat(what: string, call: () => Promise<Progress>): Promise<void> {
    const { clock, hasEnded } = this.#parts;
    const endMs = clock.now() + maxWaitMs;
    let failures = 0;
    for (;;) {
      const progress = await call().catch((error: unknown) => {
        if (hasEnded()) return null;
        throw error;
      });
      if (progress === null || hasEnded() || progress.result === 'done') return;
      failures = progress.result === 'failed' ? failures + 1 : 0;
      if (progress.result === 'refused' || failures > maxFailures || clock.now() > endMs)
        throw new CheckFailed(`${what} is not done, but ${describeProgress(progress)}`);
      await sleep(clock, progress.result === 'running' ? progress.retryInMs : retryMs);
    }
  }

  /** The driver's own answer or error, unless it hangs. */
  async ask<Answer>(
    what: string,
    call: (signal: AbortSignal) => Promise<Answer>,
    more?: AbortSignal,
  ): Promise<Answer> {
    const { clock, signal } = this.#parts;
    const limit = Promise.withResolvers<never>();
    const cancel = scheduleLimit(clock, limitMs, () => {
      const last = quoteSome(this.calls.slice(-1)) || 'none';
      limit.reject(
        new CheckFailed(`${what} has not ended after ${limitMs / 1000} s; its last call: ${last}`),
      );
    });
    const answer = call(AbortSignal.any([signal, more ?? signal]));
    return await Promise.race([answer, limit.promise]).finally(cancel);
  }

  async #bound<Answer>(what: string, call: (signal: AbortSignal) => Promise<Answer>, more?: AbortSignal) {
    const { signal, hasEnded } = this.#parts;
    signal.throwIfAborted();
    try {
      const answer = await this.ask(what, call, more);
      const unknown = this.calls.find((name) => !knownCall.test(name));
      if (unknown === undefined) return answer;
      throw new CheckFailed(`the call "${unknown}" begins with none of ${verbs.replaceAll('|', ', ')}`);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof CheckFailed || hasEnded() || more?.aborted === true) throw error;
      throw new CheckFailed(`${what} rejects: ${describeError(error)}`, { cause: error });
    }
  }
}

const results = ['done', 'running', 'refused', 'failed'];

/** Of any other result a controller knows nothing; without a number, it would ask again without a pause. */
function expectProgress(what: string, progress: Progress): Progress {
  if (!results.includes((Object(progress) as Partial<Progress>).result ?? ''))
    throw new CheckFailed(
      `${what} answers ${JSON.stringify(progress)}, without a result of ${results.join(', ')}`,
    );
  if (progress.result !== 'running' || Number.isFinite(progress.retryInMs)) return progress;
  throw new CheckFailed(`${what} is running without a number as retryInMs`);
}

/** For people. */
export function describeProgress(progress: Progress): string {
  return progress.result === 'done' ? 'done' : `${progress.result}: ${progress.why}`;
}

/** For people. */
export function describeChange({ object, before, after }: Change, arrow: '->' | '→' = '->'): string {
  if (before === null) return `+ ${object}: ${after ?? ''}`;
  return after === null ? `- ${object}: ${before}` : `~ ${object}: ${before} ${arrow} ${after}`;
}

/** Whatever a driver threw, for people. */
export function describeError(error: unknown): string {
  const { name, message, kind } = Object(error) as Partial<Record<'name' | 'message' | 'kind', unknown>>;
  if (typeof message !== 'string') return String(error);
  return name === 'DeviceError' && typeof kind === 'string' ? `${kind}: ${message}` : message;
}

interface Opening {
  /** The first of the test's clusters unless given. */
  readonly cluster?: string;
  /** As its settings have it. */
  readonly identity?: string;
  /** Right before its call number `at`, its process ends: neither this call nor any later one is sent. */
  readonly endAt?: number;
  /** Called right before each call, with its number from 1 on. */
  readonly beforeCall?: (at: number) => Promise<void> | void;
}

/** What ends a driver between two calls. */
export class ProcessEnd extends Error {
  override readonly name = 'ProcessEnd';
  override readonly message = "the driver's process has ended";
}

/** No change of a small balancer takes so many calls: a driver that always makes one more call never comes through. */
const maxCalls = 1000;

/** What a check works with. */
export class Bench {
  readonly capabilities: Capabilities;
  readonly shapes: Shapes;
  readonly actions: TargetActions;
  readonly clock: Clock;
  readonly #target: ConformanceTarget;
  readonly #signal: AbortSignal;

  constructor(target: ConformanceTarget, capabilities: Capabilities, signal: AbortSignal) {
    this.capabilities = capabilities;
    this.shapes = new Shapes(target.sites ?? documentationSites, capabilities);
    this.actions = target.actions ?? {};
    this.clock = target.clock;
    this.#target = target;
    this.#signal = signal;
  }

  /** A driver without memory of any other. */
  open({ cluster = testClusters[0], endAt = Infinity, beforeCall: act, identity }: Opening = {}): Subject {
    const calls: string[] = [];
    const hasEnded = () => calls.length >= endAt;
    const beforeCall = async (call: string) => {
      if (!hasEnded()) calls.push(call);
      if (hasEnded()) throw new ProcessEnd();
      await act?.(calls.length);
    };
    const driver = this.#target.open(cluster, { clock: this.clock, beforeCall }, identity);
    return new Subject({ driver, clock: this.clock, signal: this.#signal, calls, hasEnded });
  }

  /** Tries it with what happens at the first call of the subject that it answers, at the second, and so on, until that made fewer calls. */
  async atEachCall(run: (at: number) => Promise<Subject>): Promise<void> {
    for (let at = 1; at <= maxCalls; at += 1) {
      try {
        if ((await run(at)).calls.length < at) return;
      } catch (error) {
        if (!(error instanceof CheckFailed)) throw error;
        throw new CheckFailed(`at call ${at}: ${error.message}`, { cause: error });
      }
    }
    throw new CheckFailed(`there is no end after ${maxCalls} calls`);
  }

  /** Of what the device has right now, and once it has done what it had accepted. */
  async judgeTwice(judge: (owned: readonly Owned[]) => void): Promise<void> {
    judge(await this.open().list());
    await sleep(this.clock, acceptedMs);
    judge(await this.open().list());
  }

  /** All objects of the device; null where the target cannot list them. */
  async listObjects(): Promise<readonly string[] | null> {
    return (await this.actions.listObjects?.()) ?? null;
  }

  /** Fails unless the device has exactly the objects that it had. */
  async expectObjects(before: readonly string[] | null, when: string): Promise<void> {
    const after = await this.listObjects();
    if (before === null || after === null) return;
    const [left, lost] = [subtract(after, before), subtract(before, after)];
    if (left.length > 0) throw new CheckFailed(`${when}, the device still has ${quoteSome(left)}`);
    if (lost.length > 0) throw new CheckFailed(`${when}, the device no longer has ${quoteSome(lost)}`);
  }

  /** Removes it by a driver without memory, and fails unless the device has no balancer then, and exactly these objects. */
  async expectRemoval(id: BalancerId, before: readonly string[] | null, when: string): Promise<void> {
    await this.open().settleRemoval(id);
    await this.open().expectOnly([], when);
    await this.expectObjects(before, when);
  }

  /** Lets a driver without memory make it so, and fails unless it is. */
  async bring(wanted: Balancer, when: string): Promise<void> {
    await this.open().settle(wanted);
    await this.expectSettled(wanted, when);
  }

  /** Fails unless the device has it and these others, whole and once, and a driver without memory has nothing to do for it. */
  async expectSettled(wanted: Balancer, when: string, others: readonly Balancer[] = []): Promise<void> {
    const fresh = this.open();
    await fresh.expectOnly([wanted, ...others], when);
    await fresh.expectNoPlan(wanted, when);
  }
}

/** An action that the check needs, so that it is there. */
export function demand<Action>(action: Action | undefined): Action {
  if (action === undefined) throw new TypeError('a check ran without an action that it needs');
  return action;
}

/** What the suite tries: a device, and a driver of it. */
export interface ConformanceTarget {
  /** Makes a driver of the device for a cluster. Each of them is as a process of its own: no two share any memory. */
  readonly open: (cluster: string, context: DriverContext, identity?: string) => LoadBalancerDriver;
  readonly clock: Clock;
  /** Where the suite may put balancers; `documentationSites` unless given. */
  readonly sites?: Sites;
  /** What it can do to its device in addition to the driver; an action that is missing is not tried. */
  readonly actions?: TargetActions;
}

/** What happens to devices. Each ends when it has happened. */
export interface TargetActions {
  /** Another unit of the pair becomes the active one. */
  readonly switchRole?: () => Promise<void>;
  /** The active unit starts again, with what it has saved. */
  readonly restart?: () => Promise<void>;
  /** The device loses all its configuration. */
  readonly forget?: () => Promise<void>;
  /** No unit answers any more, until what this answers is called. */
  readonly disconnect?: () => Promise<Undo>;
  /** The device refuses all that would change it, until what this answers is called. */
  readonly refuseWrites?: () => Promise<Undo>;
  /** The device does what the next request says, and its answer gets lost. */
  readonly loseNextAnswer?: () => Promise<void>;
  /** The device takes requests and answers none of them, until what this answers is called. */
  readonly holdAnswers?: () => Promise<Undo>;
  /** All objects of the device, whoever's, as texts that differ where anything of them does. Sessions and counters are not in it. */
  readonly listObjects?: () => Promise<readonly string[]>;
  /** Another user makes an object on the device. */
  readonly createForeign?: () => Promise<ForeignObject>;
  /** Another user changes something, and does not apply it. */
  readonly changePending?: () => Promise<PendingChange>;
  /** A client connects to this listener at the balancer's one address. All members of `sites` answer, from the beginning to the end. */
  readonly connect?: (balancer: Balancer, listener: Listener, signal: AbortSignal) => Promise<Reached>;
  /** A client connects to a balancer's first listener, which sends it to one of its members. */
  readonly openSession?: (balancer: Balancer) => Promise<Session>;
}

/** The member that answered, as `formatMember` writes it; null for none, undefined where nobody can tell. */
export type Reached = string | null | undefined;

type Undo = () => Promise<void>;

/** An object of another user. */
interface ForeignObject {
  /** A text that differs where anything of it does. */
  readonly read: () => Promise<string>;
  readonly remove: () => Promise<void>;
}

/** A change of another user that waits to be applied. */
export interface PendingChange {
  /** Whether it still waits as it was made. */
  readonly isPending: () => Promise<boolean>;
  readonly revert: () => Promise<void>;
}

/** A client's open connection. */
export interface Session {
  /** At which member it ends. */
  readonly member: Pick<Member, 'address' | 'port'>;
  readonly isOpen: () => Promise<boolean>;
  readonly close: () => Promise<void>;
}

export { type Sites, documentationSites } from './shapes.ts';
