/** Which node is asked next, and when. */
import { type Random } from '../../lib/control/random.ts';

/** How often nodes are asked. */
export interface ProbePace {
  /** From one connect to a node to the next. */
  readonly intervalMs: number;
  /** To all nodes together: with more nodes the interval grows. */
  readonly perSecond: number;
}

/** A node of which something is doubtful is asked again after this, whatever the pace. */
export const doubtMs = 200;

/** The time between two connects grows or shrinks by this part, at most: nodes that start together are not asked together. */
const jitter = 0.1;

/** Never lets more begin than the pace allows, in any second: one after the other, and what was missed is not made up for. */
export class ProbeTurns {
  readonly #random: Random;
  /** When each is due; Infinity while it is being asked. */
  readonly #nodeToDueAt = new Map<string, number>();
  #pace: ProbePace;
  #freeAt = -Infinity;

  constructor(random: Random, pace: ProbePace) {
    this.#random = random;
    this.#pace = pace;
  }

  /** When the next connect may begin; Infinity while nobody waits for one. */
  get dueAt(): number {
    return Math.max(this.#freeAt, Math.min(...[Infinity, ...this.#nodeToDueAt.values()]));
  }

  /** Asks these from now on, and nobody else: new ones within an interval. */
  setNodes(nodes: ReadonlySet<string>, now: number): void {
    for (const node of this.#nodeToDueAt.keys()) if (!nodes.has(node)) this.#nodeToDueAt.delete(node);
    for (const node of nodes)
      if (!this.#nodeToDueAt.has(node)) this.#nodeToDueAt.set(node, now + this.#random() * doubtMs);
  }

  /** Asks at a pace: all within its interval. Answers whether it is another one than before. */
  setPace(pace: ProbePace, now: number): boolean {
    if (pace === this.#pace) return false;
    this.#pace = pace;
    const latest = now + this.#intervalMs;
    for (const [node, dueAt] of this.#nodeToDueAt)
      if (dueAt !== Infinity && dueAt > latest)
        this.#nodeToDueAt.set(node, now + this.#random() * this.#intervalMs);
    return true;
  }

  /** Answers who is to be asked now, and counts it as begun; null where nobody is. `ended` is to be called for it. */
  take(now: number): string | null {
    if (this.dueAt > now) return null;
    const [node] = [...this.#nodeToDueAt].reduce((first, one) => (one[1] < first[1] ? one : first));
    this.#nodeToDueAt.set(node, Infinity);
    this.#freeAt = now + 1000 / this.#pace.perSecond;
    return node;
  }

  /** A node was asked, and is due again: soon if something is doubtful. */
  ended(
    node: string,
    { askedAt, isDoubtful }: { readonly askedAt: number; readonly isDoubtful: boolean },
  ): void {
    if (!this.#nodeToDueAt.has(node)) return;
    const restMs = isDoubtful ? Math.min(doubtMs, this.#intervalMs) : this.#intervalMs;
    this.#nodeToDueAt.set(node, askedAt + restMs * (1 - this.#random() * jitter));
  }

  /** Asks a node now, unless it is being asked. */
  hurry(node: string, now: number): void {
    const dueAt = this.#nodeToDueAt.get(node) ?? Infinity;
    if (dueAt !== Infinity) this.#nodeToDueAt.set(node, Math.min(dueAt, now));
  }

  get #intervalMs(): number {
    const { intervalMs, perSecond } = this.#pace;
    return Math.max(intervalMs, (this.#nodeToDueAt.size * 1000) / perSecond);
  }
}
