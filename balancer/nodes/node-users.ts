import { type EndpointSlice } from '../../lib/services/services.ts';
import { noOutages, type NodeOutages } from '../decide/node-outages.ts';

/** Which Services have endpoints on which nodes. */
export class NodeUsers {
  readonly #serviceToNodes = new Map<string, ReadonlySet<string>>();
  #nodes: ReadonlySet<string> | null = null;
  #outages = noOutages;

  /** The nodes of all Services. The same set while no Service has changed its nodes. */
  get nodes(): ReadonlySet<string> {
    return (this.#nodes ??= new Set([...this.#serviceToNodes.values()].flatMap((nodes) => [...nodes])));
  }

  /** Takes the endpoints of a Service; none for one that is not balanced. */
  note(service: string, slices: readonly EndpointSlice[]): void {
    const endpoints = slices.flatMap((slice) => slice.endpoints ?? []);
    const nodes = new Set(endpoints.flatMap(({ nodeName }) => nodeName ?? []));
    const before = this.#serviceToNodes.get(service) ?? new Set();
    if (before.size === nodes.size && [...nodes].every((node) => before.has(node))) return;
    this.#nodes = null;
    if (nodes.size === 0) this.#serviceToNodes.delete(service);
    else this.#serviceToNodes.set(service, nodes);
  }

  /** Takes the nodes that do not answer now. Answers the Services that may be balanced otherwise because of that. */
  take(outages: NodeOutages): string[] {
    const nodes = new Set([...this.#outages.out, ...outages.out]);
    this.#outages = outages;
    return [...this.#serviceToNodes].flatMap(([service, own]) =>
      [...nodes].some((node) => own.has(node)) ? [service] : [],
    );
  }
}
