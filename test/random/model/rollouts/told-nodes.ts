/** What one life of a balancer was told of Nodes: whether each ends, and since when. Judged apart from the product's code. */
import { type Question } from './memory-network.ts';
import type { Told } from './told-slices.ts';

interface ToldNode {
  readonly metadata: { readonly name: string };
  readonly status?: { readonly conditions?: readonly (typeof endings)[number][] };
}

/** Conditions of a Node that ends, as the kubelet and administrators write them. */
export const endings = [
  { type: 'Ready', status: 'False', reason: 'KubeletNotReady', message: 'node is shutting down' },
  { type: 'MaintenanceInProgress', status: 'True', reason: 'Firmware', message: '' },
] as const;

export class ToldNodes {
  readonly #nowMs: () => number;
  readonly #nodeToSince = new Map<string, { readonly ends: boolean; readonly sinceMs: number }>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** What was answered to a question: a list, or a line of a watch. */
  take({ url }: Question, text: string): void {
    if (!url.pathname.endsWith('/nodes')) return;
    for (const { metadata, status } of listNodes(JSON.parse(text) as Told<ToldNode>)) {
      const conditions = JSON.stringify(status?.conditions ?? []);
      const ends = endings.some((ending) => conditions.includes(JSON.stringify(ending)));
      if (this.#nodeToSince.get(metadata.name)?.ends !== ends)
        this.#nodeToSince.set(metadata.name, { ends, sinceMs: this.#nowMs() });
    }
  }

  /** Whether a node ends, and has for so long; null where that is another answer than so long ago. */
  judge(node: string, forMs: number): boolean | null {
    const { ends, sinceMs } = this.#nodeToSince.get(node) ?? { ends: false, sinceMs: Infinity };
    return this.#nowMs() - sinceMs > forMs ? ends : null;
  }
}

function listNodes({ items, type, object }: Told<ToldNode>): readonly ToldNode[] {
  if (items !== undefined) return items;
  return object === undefined || type === 'BOOKMARK' || type === 'ERROR' ? [] : [object];
}
