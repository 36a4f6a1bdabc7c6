import { type Endpoint, formatEndpoint, parseEndpoint } from '../lib/address/endpoint.ts';
import { type Kernel } from '../lib/kernel/port.ts';
import { type Decision } from './decide.ts';
import { type Health, type HealthView } from './health/usable.ts';

/** Who is told of what became of connections that hung. */
export interface FlowReport {
  /** Connections to a VIP were reset that hung on a dead apiserver: at least one. */
  flowsReset(vip: Endpoint, backend: Endpoint, count: number): void;
  /** They could not be. Their clients wait for their own time limits. */
  flowsNotReset(error: unknown): void;
}

/**
 * Resets what hangs on dead apiservers: clients get an answer to their next packet, instead of waiting for up to
 * 15 minutes. Each death is answered once for connections that were never established, and once for all.
 */
export class FlowResets {
  readonly #kernel: Pick<Kernel, 'resetFlows'>;
  readonly #report: FlowReport;
  readonly #done = new Map<string, Health['hanging']>();

  constructor(kernel: Pick<Kernel, 'resetFlows'>, report: FlowReport) {
    this.#kernel = kernel;
    this.#report = report;
  }

  /** Resets what hangs now and was not reset yet. To be called only while the kernel holds these decisions: a first packet that comes again is balanced anew. Never rejects. */
  async reset(decisions: readonly Decision[], health: HealthView): Promise<void> {
    for (const key of this.#done.keys()) {
      const [, backend = ''] = key.split(' ');
      if ((health.get(backend)?.hanging ?? 'none') === 'none') this.#done.delete(key);
    }
    const resets = decisions.flatMap((decision) => this.#findDue(decision, health));
    await Promise.all(resets.map((due) => this.#resetOne(due)));
  }

  #findDue({ vip, backends }: Decision, health: HealthView): Due[] {
    const used = new Set(backends.map(formatEndpoint));
    return [...health].flatMap(([text, { hanging }]) => {
      const backend = parseEndpoint(text);
      const done = this.#done.get(toKey(vip, text)) ?? 'none';
      return backend?.family !== vip.family ||
        used.has(text) ||
        hanging === 'none' ||
        [hanging, 'all'].includes(done)
        ? []
        : [{ vip, backend, isHalfOpen: hanging === 'half-open' }];
    });
  }

  async #resetOne({ vip, backend, isHalfOpen }: Due): Promise<void> {
    this.#done.set(toKey(vip, formatEndpoint(backend)), isHalfOpen ? 'half-open' : 'all');
    try {
      const count = await this.#kernel.resetFlows({ vip, backend, isHalfOpen });
      if (count > 0 && !isHalfOpen) this.#report.flowsReset(vip, backend, count);
    } catch (error) {
      this.#report.flowsNotReset(error);
    }
  }
}

interface Due {
  readonly vip: Endpoint;
  readonly backend: Endpoint;
  readonly isHalfOpen: boolean;
}

function toKey(vip: Endpoint, backend: string): string {
  return `${formatEndpoint(vip)} ${backend}`;
}
