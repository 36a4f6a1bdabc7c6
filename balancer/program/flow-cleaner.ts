/**
 * Has connections forget endpoints that are gone.
 *
 * Goal: an endpoint's address is given to another pod soon; until then no connection may still lead there.
 * Tension: the kernel finds connections only by a walk through its whole table, 32 ms of a processor even where it is nearly empty.
 * Compromise: one walk for all endpoints that went meanwhile. The first goes at once; then it rests in proportion to what the
 * walk took, but for seconds at most.
 */
import { type Cancel, type Clock } from '../../lib/control/clock.ts';
import { type BalancedFlow } from '../../lib/kernel/port.ts';
import { type BalancerKernel } from '../../lib/kernel/real/balancer-tables.ts';
import { describeFlow } from '../../lib/kernel/real/describe-flow.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { findErrorCode } from '../../lib/text/errors.ts';

/** What it needs of the world. */
export interface CleanerPorts {
  readonly kernel: Pick<BalancerKernel, 'forgetFlows'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** For each millisecond of work: so it takes a hundredth of a processor, unless `maxRestMs` is less. */
const restPerWork = 99;

/** So long an endpoint may wait that is gone. Pods' addresses are seldom given again within seconds. */
const maxRestMs = 5000;

/** Some 30 MB. Where more go within seconds, all connections to endpoints that are not there are chosen instead. */
const maxWaiting = 250_000;

/** One pass at a time, beside everything else. A failure is reported once, and tried again. */
export class FlowCleaner {
  readonly #ports: CleanerPorts;
  readonly #createStrayFilter: () => (flow: BalancedFlow) => boolean;
  /** Texts of flows, for the next pass. */
  #waiting = new Set<string>();
  /** Those of the pass under way. */
  #sought = new Set<string>();
  #isSweepDue = false;
  #work: Promise<void> | null = null;
  #cancel: Cancel | null = null;
  #restUntil = -Infinity;
  #isStopped = false;
  #hasFailed = false;

  /** `createStrayFilter` answers what tells of a connection whether its endpoint is gone, as of now: for a sweep. */
  constructor(ports: CleanerPorts, createStrayFilter: () => (flow: BalancedFlow) => boolean) {
    this.#ports = ports;
    this.#createStrayFilter = createStrayFilter;
  }

  /** Takes connections to be forgotten. Returns at once. */
  add(flows: readonly BalancedFlow[]): void {
    if (flows.length === 0) return;
    for (const flow of flows) this.#waiting.add(describeFlow(flow));
    if (this.#waiting.size > maxWaiting) {
      this.#waiting.clear();
      this.#isSweepDue = true;
    }
    this.#plan();
  }

  /** Takes connections that are to stay, as their endpoint is back. */
  keep(flows: readonly BalancedFlow[]): void {
    if (this.#waiting.size === 0 && this.#sought.size === 0) return;
    for (const text of flows.map(describeFlow)) {
      this.#waiting.delete(text);
      this.#sought.delete(text);
    }
  }

  /** Has all connections to endpoints that are not there forgotten. Returns at once. */
  sweep(): void {
    this.#isSweepDue = true;
    this.#plan();
  }

  /** Waits for the pass under way; the others stay. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel?.();
    await this.#work;
  }

  #plan(): void {
    const isIdle = this.#waiting.size === 0 && !this.#isSweepDue;
    if (isIdle || this.#isStopped || this.#work !== null || this.#cancel !== null) return;
    const waitMs = Math.max(0, this.#restUntil - this.#ports.clock.now());
    this.#cancel = this.#ports.clock.schedule(waitMs, () => {
      this.#cancel = null;
      this.#work = this.#pass().finally(() => {
        this.#work = null;
        this.#plan();
      });
    });
  }

  async #pass(): Promise<void> {
    const startedAt = this.#ports.clock.now();
    const [sought, isSweep] = [this.#waiting, this.#isSweepDue];
    [this.#sought, this.#waiting, this.#isSweepDue] = [sought, new Set(), false];
    const hasWorked = await this.#forget(isSweep);
    this.#sought = new Set();
    if (!hasWorked) {
      this.#waiting = new Set([...sought, ...this.#waiting]);
      this.#isSweepDue ||= isSweep;
    }
    const endedAt = this.#ports.clock.now();
    const restMs = hasWorked ? (endedAt - startedAt) * restPerWork : maxRestMs;
    this.#restUntil = endedAt + Math.min(maxRestMs, restMs);
  }

  /** Answers whether it went well. */
  async #forget(isSweep: boolean): Promise<boolean> {
    const { kernel, logger } = this.#ports;
    const isStray = isSweep ? this.#createStrayFilter() : () => false;
    try {
      const found = await kernel.forgetFlows((flow) => this.#sought.has(describeFlow(flow)) || isStray(flow));
      for (const { vip, backend, count } of found) {
        const words = `${formatEndpoint(vip)} to ${formatEndpoint(backend)}, which is gone`;
        logger.info(`${count} connections of ${words}, are forgotten`);
      }
      this.#hasFailed = false;
      return true;
    } catch (error) {
      const fields = { code: findErrorCode(error) };
      if (!this.#hasFailed) logger.warn(`connections stay: ${(error as Error).message}`, fields);
      this.#hasFailed = true;
      return false;
    }
  }
}
