import { type Clock, scheduleLimit, sleep } from '../../control/clock.ts';
import {
  type Balancer,
  type BalancerId,
  type Change,
  type DeviceState,
  type LoadBalancerDriver,
  type Owned,
  type Progress,
} from '../driver.ts';
import { CheckFailed } from './check-failed.ts';
import { findDifference, quoteSome } from './compare.ts';

/** Longer than any device takes for one call of a driver: what has not ended by then hangs. */
const limitMs = 120_000;

/** How often an undisturbed device may fail in a row: requests get lost in any network. */
const maxFailures = 5;

/** How long a device may be on its way. */
const patienceMs = 600_000;

/** Between two tries of what failed. */
const retryMs = 1000;

/** What a subject is made of. */
export interface SubjectParts {
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
    const endMs = clock.now() + patienceMs;
    let failures = 0;
    for (;;) {
      const progress = await call().catch((error: unknown) => this.#forgiveEnd(error));
      if (progress === null || hasEnded() || progress.result === 'done') return;
      failures = progress.result === 'failed' ? failures + 1 : 0;
      if (progress.result === 'refused' || failures > maxFailures || clock.now() > endMs)
        throw new CheckFailed(`${what} is not done, but ${describeProgress(progress)}`);
      await sleep(clock, progress.result === 'running' ? progress.retryInMs : retryMs);
    }
  }

  /** Null where it rejected because its process has ended. */
  #forgiveEnd(error: unknown): null {
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
