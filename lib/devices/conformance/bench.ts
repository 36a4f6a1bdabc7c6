import { type Clock } from '../../control/clock.ts';
import { type Balancer, type Capabilities } from '../driver.ts';
import { CheckFailed } from './check-failed.ts';
import { quoteSome, subtract } from './compare.ts';
import { Shapes } from './shapes.ts';
import { Subject } from './subject.ts';
import { type ConformanceTarget, documentationSites, type TargetActions, testClusters } from './target.ts';

/** How a driver is opened for a check. */
export interface Opening {
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
