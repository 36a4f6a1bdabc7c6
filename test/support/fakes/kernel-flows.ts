import { type Endpoint, formatEndpoint } from '../../../lib/address/endpoint.ts';
import { type FlowSelection } from '../../../lib/kernel/port.ts';

/** The connections that a FakeKernel keeps track of. */
export class FakeFlows {
  #flows: FlowSelection[] = [];

  /** One more. */
  add(flow: FlowSelection): void {
    this.#flows.push(flow);
  }

  /** Forgets some; answers how many. */
  delete({ vip, backend, isHalfOpen }: FlowSelection): number {
    const kept = this.#flows.filter(
      (flow) => !isSame(flow.vip, vip) || !isSame(flow.backend, backend) || (isHalfOpen && !flow.isHalfOpen),
    );
    const deleted = this.#flows.length - kept.length;
    this.#flows = kept;
    return deleted;
  }

  /** How many of a VIP each backend has. */
  count(vip: Endpoint): Map<string, number> {
    const counts = new Map<string, number>();
    for (const flow of this.#flows.filter((one) => !one.isHalfOpen && isSame(one.vip, vip))) {
      const backend = formatEndpoint(flow.backend);
      counts.set(backend, (counts.get(backend) ?? 0) + 1);
    }
    return counts;
  }
}

function isSame(one: Endpoint, other: Endpoint): boolean {
  return formatEndpoint(one) === formatEndpoint(other);
}
