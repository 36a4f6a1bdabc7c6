import {
  type Capabilities,
  type Balancer,
  type Listener,
  formatMember,
  type Owned,
  type LoadBalancerDriver,
  type Change,
  type DeviceState,
  type Progress,
  type BalancerId,
} from '../driver.ts';
import {
  type TargetActions,
  Shapes,
  type ConformanceTarget,
  documentationSites,
  testClusters,
} from './shapes.ts';
import { type Clock, sleep, scheduleLimit } from '../../lib/clock.ts';

/** One thing that drivers promise. */
export interface Check {
  /** For reports, scripts and `--only`: it never changes its meaning. */
  readonly name: string;
  /** For people. */
  readonly title: string;
  /** What the device and the target must be able to do. */
  readonly needs: readonly Need[];
  /** Rejects with a CheckFailed where the driver breaks the promise. The device is without balancers of the suite before and after it. */
  readonly run: (bench: Bench) => Promise<void>;
}

/** A capability, an action of the target, or what either has to have of something. */
export type Need =
  Exclude<keyof Capabilities, 'methods'> | 'two methods' | 'IPv6 addresses' | keyof TargetActions;

/** The needs that are not met. */
export function findUnmet(needs: readonly Need[], bench: Bench): readonly Need[] {
  const { capabilities, actions } = bench;
  return needs.filter((need) => {
    if (need === 'two methods') return capabilities.methods.length < 2;
    if (need === 'IPv6 addresses') return !bench.hasIpv6Addresses;
    return !(need in capabilities
      ? capabilities[need as keyof Capabilities]
      : actions[need as keyof TargetActions] !== undefined);
  });
}

/** A balancer as lines, which are the same for all that mean the same. */
export function describeBalancer({ id, addresses, listeners, method, affinityS }: Balancer): string[] {
  const name = `${id.cluster}/${id.namespace}/${id.name}/${id.uid}`;
  const affinity = affinityS === null ? 'no affinity' : `affinity of ${affinityS} s`;
  return [
    `${name} ${method}, ${affinity}`,
    ...addresses.map(({ text }) => `${name} at ${text}`),
    ...listeners.flatMap((listener) => describeListener(listener).map((line) => `${name} ${line}`)),
  ].sort();
}

function describeListener({ protocol, port, members }: Listener): string[] {
  const place = `${protocol}/${port}`;
  return [place, ...members.map((member) => `${place} to ${formatMember(member)} weight ${member.weight}`)];
}

/** How what a device has differs from what was wanted: one sentence; null where it does not. */
export function findDifference(owned: readonly Owned[], wanted: readonly Balancer[]): string | null {
  const there = owned.flatMap(({ balancer }) => describeBalancer(balancer)).sort();
  const meant = wanted.flatMap(describeBalancer).sort();
  const missing = subtract(meant, there);
  const superfluous = subtract(there, meant);
  if (missing.length === 0 && superfluous.length === 0) return null;
  const parts = [
    ...(missing.length === 0 ? [] : [`misses ${quoteSome(missing)}`]),
    ...(superfluous.length === 0 ? [] : [`has ${quoteSome(superfluous)} too much`]),
  ];
  return parts.join(', and ');
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
const maxFailures = 5;

/** How long a device may report `running`. */
const maxWaitMs = 600_000;

/** Between two tries of what failed. */
const retryMs = 1000;

/** What a subject is made of. */
interface SubjectParts {
  readonly driver: LoadBalancerDriver;
  readonly clock: Clock;
  /** Ends the whole suite. */
  readonly signal: AbortSignal;
  /** The calls so far, which grow. */
  readonly calls: readonly string[];
  /** Whether this driver's process has ended: then nothing is tried again. */
  readonly hasEnded: () => boolean;
}

/** A driver as checks use it: what hangs, and what rejects against its contract, fails the check. */
export class Subject {
  readonly #parts: SubjectParts;

  constructor(parts: SubjectParts) {
    this.#parts = parts;
  }

  /** The driver itself, for what goes against the rules. */
  get driver(): LoadBalancerDriver {
    return this.#parts.driver;
  }

  /** The names of all calls to units so far. */
  get calls(): readonly string[] {
    return this.#parts.calls;
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
    return await this.#bound('ensure', (signal) => this.driver.ensure(wanted, signal), more);
  }

  async remove(id: BalancerId): Promise<Progress> {
    return await this.#bound('remove', (signal) => this.driver.remove(id, signal));
  }

  /** Calls `ensure` until it is done, or until the driver's process has ended. */
  async settle(wanted: Balancer): Promise<void> {
    await this.#repeat('ensure', () => this.ensure(wanted));
  }

  /** Likewise with `remove`. */
  async settleRemoval(id: BalancerId): Promise<void> {
    await this.#repeat('remove', () => this.remove(id));
  }

  /** Fails unless the device has exactly these. */
  async expectOnly(wanted: readonly Balancer[], when: string): Promise<void> {
    const difference = findDifference(await this.list(), wanted);
    if (difference !== null) throw new CheckFailed(`${when}, list ${difference}`);
  }

  /** Fails where something is to be done for it. */
  async expectNoPlan(wanted: Balancer, when: string): Promise<void> {
    const changes = await this.plan(wanted);
    if (changes.length === 0) return;
    throw new CheckFailed(`${when}, plan has ${quoteSome(changes.map(describeChange))}`);
  }

  async #repeat(what: string, call: () => Promise<Progress>): Promise<void> {
    const { clock, hasEnded } = this.#parts;
    const endMs = clock.now() + maxWaitMs;
    let failures = 0;
    for (;;) {
      const progress = await call().catch((error: unknown) => this.#ignoreEnd(error));
      if (progress === null || hasEnded() || progress.result === 'done') return;
      failures = progress.result === 'failed' ? failures + 1 : 0;
      if (progress.result === 'refused' || failures > maxFailures || clock.now() > endMs)
        throw new CheckFailed(`${what} is not done, but ${describeProgress(progress)}`);
      await sleep(clock, progress.result === 'running' ? progress.retryInMs : retryMs);
    }
  }

  /** Null where it rejected because its process has ended. */
  #ignoreEnd(error: unknown): null {
    if (this.#parts.hasEnded()) return null;
    throw error;
  }

  async #bound<Answer>(
    what: string,
    call: (signal: AbortSignal) => Promise<Answer>,
    more?: AbortSignal,
  ): Promise<Answer> {
    const { clock, signal, hasEnded } = this.#parts;
    signal.throwIfAborted();
    let cancel: () => void = () => undefined;
    const limit = new Promise<never>((_, reject) => {
      cancel = scheduleLimit(clock, limitMs, () => {
        reject(new CheckFailed(`${what} has not ended after ${limitMs / 1000} s`));
      });
    });
    try {
      return await Promise.race([
        call(AbortSignal.any([signal, ...(more === undefined ? [] : [more])])),
        limit,
      ]);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof CheckFailed || hasEnded() || more?.aborted === true) throw error;
      throw new CheckFailed(`${what} rejects: ${describeError(error)}`, { cause: error });
    } finally {
      cancel();
    }
  }
}

/** For people. */
export function describeProgress(progress: Progress): string {
  return progress.result === 'done' ? 'done' : `${progress.result}: ${progress.why}`;
}

/** For people. */
export function describeChange({ object, before, after }: Change): string {
  if (before === null) return `+ ${object}: ${after ?? ''}`;
  return after === null ? `- ${object}: ${before}` : `~ ${object}: ${before} -> ${after}`;
}

/** Whatever a driver threw, for people. */
export function describeError(error: unknown): string {
  const { name, message, kind } = Object(error) as {
    readonly name?: unknown;
    readonly message?: unknown;
    readonly kind?: unknown;
  };
  if (typeof message !== 'string') return String(error);
  return name === 'DeviceError' && typeof kind === 'string' ? `${kind}: ${message}` : message;
}

/** How a driver is opened for a check. */
interface Opening {
  /** The first of the test's clusters unless given. */
  readonly cluster?: string;
  /** Right before its call number `at`, its process ends: neither this call nor any later one is sent. */
  readonly endAt?: number;
  /** Called right before each call, with its number from 1 on. */
  readonly beforeCall?: (at: number) => Promise<void> | void;
}

/** What ends a driver between two calls. */
export class ProcessEnd extends Error {
  override readonly name = 'ProcessEnd';

  constructor() {
    super("the driver's process has ended");
  }
}

/** No change of a small balancer takes so many calls: a driver that always makes one more call never comes through. */
const maxCalls = 1000;

/** What a check works with. */
export class Bench {
  readonly capabilities: Capabilities;
  /** Whether the target gives any. */
  readonly hasIpv6Addresses: boolean;
  readonly shapes: Shapes;
  readonly actions: TargetActions;
  readonly clock: Clock;
  readonly #target: ConformanceTarget;
  readonly #signal: AbortSignal;

  constructor(target: ConformanceTarget, capabilities: Capabilities, signal: AbortSignal) {
    const sites = target.sites ?? documentationSites;
    this.capabilities = capabilities;
    this.hasIpv6Addresses = sites.ipv6.length > 0;
    this.shapes = new Shapes(sites, capabilities);
    this.actions = target.actions ?? {};
    this.clock = target.clock;
    this.#target = target;
    this.#signal = signal;
  }

  /** A driver without memory of any other. */
  open({ cluster = testClusters[0], endAt = Infinity, beforeCall }: Opening = {}): Subject {
    const calls: string[] = [];
    const hasEnded = () => calls.length >= endAt;
    const driver = this.#target.open(cluster, {
      clock: this.clock,
      beforeCall: async (call) => {
        if (!hasEnded()) calls.push(call);
        if (hasEnded()) throw new ProcessEnd();
        await beforeCall?.(calls.length);
      },
    });
    return new Subject({ driver, clock: this.clock, signal: this.#signal, calls, hasEnded });
  }

  /** Tries it with what happens at the first call, at the second, and so on, until it answers that it made fewer calls. */
  async atEachCall(run: (at: number) => Promise<'happened' | 'not reached'>): Promise<void> {
    for (let at = 1; at <= maxCalls; at += 1) {
      try {
        if ((await run(at)) === 'not reached') return;
      } catch (error) {
        if (!(error instanceof CheckFailed)) throw error;
        throw new CheckFailed(`at call ${at}: ${error.message}`, { cause: error });
      }
    }
    throw new CheckFailed(`there is no end after ${maxCalls} calls`);
  }

  /** All objects of the device; null where the target cannot list them. */
  async listObjects(): Promise<readonly string[] | null> {
    return (await this.actions.listObjects?.()) ?? null;
  }

  /** Fails unless the device has exactly the objects that it had. */
  async expectObjects(before: readonly string[] | null, when: string): Promise<void> {
    const after = await this.listObjects();
    if (before === null || after === null) return;
    const left = subtract(after, before);
    if (left.length > 0) throw new CheckFailed(`${when}, the device still has ${quoteSome(left)}`);
    const lost = subtract(before, after);
    if (lost.length > 0) throw new CheckFailed(`${when}, the device no longer has ${quoteSome(lost)}`);
  }

  /** Fails unless the device has it, whole and once, and a driver without memory has nothing to do. */
  async expectSettled(wanted: Balancer, when: string): Promise<void> {
    const fresh = this.open();
    await fresh.expectOnly([wanted], when);
    await fresh.expectNoPlan(wanted, when);
  }
}

/** An action that the check needs, so that it is there. */
export function demand<Action>(action: Action | undefined): Action {
  if (action === undefined) throw new TypeError('a check ran without an action that it needs');
  return action;
}
