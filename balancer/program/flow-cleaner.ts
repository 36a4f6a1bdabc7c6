/**
 * Has connections forget endpoints that are gone, and counts those of endpoints that drain, and of Services with the method `lc`.
 *
 * Goal: an endpoint's address is given to another pod soon; until then no connection may still lead there.
 * Tension: the kernel finds connections only by a walk through its whole table, 32 ms of a processor even where it is nearly empty.
 * Compromise: one walk for all endpoints that went meanwhile. The first goes at once; then it rests in proportion to what the
 * walk took, but for seconds at most. The same walk counts; a walk that only counts can wait as long as that takes.
 */
import { type Cancel, type Clock } from '../../lib/control/clock.ts';
import { type BalancedFlow, type ForgottenFlow, type SeenFlow } from '../../lib/kernel/port.ts';
import { type BalancerKernel } from '../../lib/kernel/real/balancer-tables.ts';
import { describeFlow } from '../../lib/kernel/real/describe-flow.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { findErrorCode } from '../../lib/text/errors.ts';
import { type Drains } from './drains.ts';
import { isUntranslated } from './gone-flows.ts';

/** What it needs of the world. */
export interface CleanerPorts {
  readonly kernel: Pick<BalancerKernel, 'forgetFlows'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Who wants to know how many connections there are. `end` is not called for a walk that fails. */
  readonly counter: Pick<Drains, 'isAny' | 'begin'>;
}

/** For each millisecond of work: so it takes a hundredth of a processor, unless `maxRestMs` is less. */
const restPerWork = 99;

/** So long an endpoint may wait that is gone. Pods' addresses are seldom given again within seconds. */
const maxRestMs = 5000;

/** Nobody reads numbers that change more often. */
const countEveryMs = 5000;

/** Why connections are forgotten, in words that follow their endpoint. */
export type FlowEnd =
  'which is gone' | 'whose drain timeout is over' | 'which was not served yet' | typeof silentNode;

/** Only those go that were never answered: their clients begin them again, and get another endpoint. */
export const silentNode = 'whose node does not answer';

/** Some 30 MB. Where more go within seconds, all connections to endpoints that are not there are chosen instead. */
const maxWaiting = 250_000;

/** One pass at a time, beside everything else. A failure is reported once, and tried again. */
export class FlowCleaner {
  readonly #ports: CleanerPorts;
  readonly #createStrayFilter: () => (flow: BalancedFlow) => boolean;
  /** Texts of flows to why they end, for the next pass. */
  #waiting = new Map<string, FlowEnd>();
  /** Those of the pass under way. */
  #sought = new Map<string, FlowEnd>();
  #isSweepDue = false;
  /** Texts of flows that are to stay since the sweep under way began; null while none is. As many as endpoints came meanwhile. */
  #kept: Set<string> | null = null;
  #work: Promise<void> | null = null;
  #cancel: Cancel = () => undefined;
  #plannedAt = Infinity;
  #restUntil = -Infinity;
  #countAt = -Infinity;
  #isStopped = false;
  #hasFailed = false;

  /** `createStrayFilter` answers what tells of a connection whether its endpoint is gone, as of now: for a sweep. */
  constructor(ports: CleanerPorts, createStrayFilter: () => (flow: BalancedFlow) => boolean) {
    this.#ports = ports;
    this.#createStrayFilter = createStrayFilter;
  }

  /** Takes connections to be forgotten. Returns at once. */
  add(flows: readonly BalancedFlow[], why: FlowEnd = 'which is gone'): void {
    if (flows.length === 0) return;
    for (const flow of flows) this.#waiting.set(describeFlow(flow), why);
    if (this.#waiting.size > maxWaiting) {
      // A sweep does not find those whose endpoint is still there.
      this.#waiting = new Map([...this.#waiting].filter(([, end]) => end !== 'which is gone'));
      this.#isSweepDue = true;
    }
    this.#plan();
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

  /** Has all connections forgotten of which the stray filter says so. Returns at once. */
  sweep(): void {
    this.#isSweepDue = true;
    this.#plan();
  }

  /** Has connections counted from time to time, as long as there are any to count. Returns at once. */
  count(): void {
    this.#plan();
  }

  /** Waits for the pass under way; the others stay. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel();
    await this.#work;
  }

  get #isIdle(): boolean {
    return this.#waiting.size === 0 && !this.#isSweepDue && !this.#ports.counter.isAny;
  }

  #plan(): void {
    if (this.#isStopped || this.#work !== null || this.#isIdle) return;
    const isCleaning = this.#waiting.size > 0 || this.#isSweepDue;
    const dueAt = isCleaning ? this.#restUntil : Math.max(this.#restUntil, this.#countAt);
    if (this.#plannedAt <= dueAt) return;
    this.#cancel();
    this.#plannedAt = dueAt;
    this.#cancel = this.#ports.clock.schedule(Math.max(0, dueAt - this.#ports.clock.now()), () => {
      this.#plannedAt = Infinity;
      if (this.#isIdle) return;
      this.#work = this.#pass().finally(() => {
        this.#work = null;
        this.#plan();
      });
    });
  }

  async #pass(): Promise<void> {
    const startedAt = this.#ports.clock.now();
    const [sought, isSweep] = [this.#waiting, this.#isSweepDue];
    [this.#sought, this.#waiting, this.#isSweepDue] = [sought, new Map<string, FlowEnd>(), false];
    this.#kept = isSweep ? new Set() : null;
    const hasWorked = await this.#forget(isSweep);
    this.#sought = new Map();
    this.#kept = null;
    if (!hasWorked) {
      this.#waiting = new Map([...sought, ...this.#waiting]);
      this.#isSweepDue ||= isSweep;
    }
    const endedAt = this.#ports.clock.now();
    const restMs = hasWorked ? (endedAt - startedAt) * restPerWork : maxRestMs;
    this.#restUntil = endedAt + Math.min(maxRestMs, restMs);
    this.#countAt = endedAt + Math.max(countEveryMs, restMs);
  }

  /** Answers whether it went well. */
  async #forget(isSweep: boolean): Promise<boolean> {
    const { kernel, logger, counter } = this.#ports;
    const isStray = isSweep ? this.#createStrayFilter() : () => false;
    const tally = counter.begin();
    try {
      const isAny = isSweep || [...this.#sought.values()].includes('which was not served yet');
      const found = await kernel.forgetFlows(isAny ? 'all' : 'translated', (flow) => {
        const text = describeFlow(flow);
        const isChosen = this.#isSought(text, flow) || (isStray(flow) && this.#kept?.has(text) !== true);
        if (!isChosen) tally?.see(text, flow);
        return isChosen;
      });
      for (const flow of found) this.#report(flow);
      tally?.end();
      this.#hasFailed = false;
      return true;
    } catch (error) {
      const fields = { code: findErrorCode(error) };
      if (!this.#hasFailed) logger.warn(`connections stay: ${(error as Error).message}`, fields);
      this.#hasFailed = true;
      return false;
    }
  }

  #isSought(text: string, { isAnswered }: SeenFlow): boolean {
    const end = this.#sought.get(text);
    return end !== undefined && !(end === silentNode && isAnswered);
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
