import { type BalancedFlow } from '../../lib/kernel/port.ts';
import { type BalancerKernel } from '../../lib/kernel/real/balancer-tables.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { findErrorCode } from '../../lib/text/errors.ts';

/** A kernel with 100,000 connections takes 50 ms for each: what is older than these has run out before its turn. */
const maxWaiting = 10_000;

/** Has connections forget endpoints that are gone, one endpoint at a time, beside everything else. A failure is reported once and keeps nothing. */
export class FlowCleaner {
  readonly #kernel: Pick<BalancerKernel, 'deleteFlows' | 'listFlows'>;
  readonly #logger: Logger;
  #waiting: BalancedFlow[] = [];
  #work: Promise<void> | null = null;
  #sweep: Promise<void> | null = null;
  #hasFailed = false;

  constructor(kernel: Pick<BalancerKernel, 'deleteFlows' | 'listFlows'>, logger: Logger) {
    this.#kernel = kernel;
    this.#logger = logger;
  }

  /** Takes connections to be forgotten. Returns at once. */
  add(flows: readonly BalancedFlow[]): void {
    this.#waiting = [...this.#waiting, ...flows].slice(-maxWaiting);
    if (this.#waiting.length > 0) this.#work ??= this.#run().finally(() => (this.#work = null));
  }

  /** Has all connections forgotten that the kernel has and `select` chooses. Returns at once; one at a time. */
  sweep(select: (flows: readonly BalancedFlow[]) => readonly BalancedFlow[]): void {
    this.#sweep ??= this.#list(select).finally(() => (this.#sweep = null));
  }

  /** Waits for the one under way; the others stay. */
  async stop(): Promise<void> {
    await this.#sweep;
    this.#waiting = [];
    await this.#work;
  }

  async #list(select: (flows: readonly BalancedFlow[]) => readonly BalancedFlow[]): Promise<void> {
    try {
      this.add(select(await this.#kernel.listFlows()));
    } catch (error) {
      this.#fail(error);
    }
  }

  async #run(): Promise<void> {
    for (let flow = this.#waiting.shift(); flow !== undefined; flow = this.#waiting.shift()) {
      await this.#clean(flow);
    }
  }

  async #clean(flow: BalancedFlow): Promise<void> {
    try {
      const count = await this.#kernel.deleteFlows(flow);
      const words = `${formatEndpoint(flow.vip)} to ${formatEndpoint(flow.backend)}, which is gone`;
      if (count > 0) this.#logger.info(`${count} connections of ${words}, are forgotten`);
      this.#hasFailed = false;
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    const fields = { code: findErrorCode(error) };
    if (!this.#hasFailed) this.#logger.warn(`connections stay: ${(error as Error).message}`, fields);
    this.#hasFailed = true;
  }
}
