/**
 * Whether the balancers of nodes that were away have reported since.
 *
 * Goal: known within a second or two on a node that has clients for these pods.
 * Tension: Leases are not watched (node-directory.ts), and all nodes wait for the same one.
 * Compromise: its Lease alone is read: once when the node goes out, and again and again while it is awaited, at a pace that the caller chooses.
 */
import { type Cancel, type Clock } from '../../lib/control/clock.ts';
import { type Random } from '../../lib/control/random.ts';
import { isReturning, type NodeState } from './node-state.ts';

/** What it needs of the world, and its listener. */
export interface ReportsPorts {
  readonly clock: Clock;
  readonly random: Random;
  /** Reads when a node's balancer has renewed its Lease, as text; null where there is none. May reject. */
  readonly readRenewal: (node: string) => Promise<string | null>;
  /** From one read for a node that is awaited to the next, in milliseconds. Half of it at least passes. */
  readonly paceMs: () => number;
  /** Called when a node that is awaited has reported. It is not awaited any more. */
  readonly onReport: (node: string) => void;
}

/** Reads of many nodes about the same one are spread over so long. A machine takes longer to start. */
const spreadMs = 2000;

interface Watched {
  /** The renewal that was read last; undefined before the first one was. */
  renewal: string | null | undefined;
  isAwaited: boolean;
  cancel: Cancel;
}

/** Of nodes that are out. */
export class NodeReports {
  readonly #ports: ReportsPorts;
  readonly #nodeToWatched = new Map<string, Watched>();

  constructor(ports: ReportsPorts) {
    this.#ports = ports;
  }

  /** Takes how a node's state has changed. Answers whether its report is awaited from now on. */
  follow(node: string, before: NodeState, after: NodeState): boolean {
    if (after.outSince === null) this.forget(node);
    else if (before.outSince === null) this.#note(node);
    const watched = this.#nodeToWatched.get(node);
    if (watched === undefined || isReturning(before) === isReturning(after)) return false;
    watched.isAwaited = isReturning(after);
    if (watched.isAwaited) this.#plan(node, watched, this.#chooseDelay());
    else watched.cancel();
    return watched.isAwaited;
  }

  /** What its Lease says now is no news later. */
  #note(node: string): void {
    const watched: Watched = { renewal: undefined, isAwaited: false, cancel: () => undefined };
    this.#nodeToWatched.set(node, watched);
    this.#plan(node, watched, this.#ports.random() * spreadMs);
  }

  /** Ends what is under way for a node. */
  forget(node: string): void {
    this.#nodeToWatched.get(node)?.cancel();
    this.#nodeToWatched.delete(node);
  }

  /** Forgets all nodes. */
  stop(): void {
    for (const node of [...this.#nodeToWatched.keys()]) this.forget(node);
  }

  #chooseDelay(): number {
    const { paceMs, random } = this.#ports;
    return paceMs() * (0.5 + random() / 2);
  }

  #plan(node: string, watched: Watched, delayMs: number): void {
    watched.cancel();
    watched.cancel = this.#ports.clock.schedule(delayMs, () => void this.#read(node, watched));
  }

  async #read(node: string, watched: Watched): Promise<void> {
    const { readRenewal, onReport } = this.#ports;
    const [read] = await Promise.allSettled([readRenewal(node)]);
    if (this.#nodeToWatched.get(node) !== watched) return;
    const before = watched.renewal;
    if (read.status === 'fulfilled') watched.renewal = read.value;
    if (!watched.isAwaited) return;
    const isNews = before !== undefined && watched.renewal !== before && watched.renewal !== null;
    if (!isNews) {
      this.#plan(node, watched, this.#chooseDelay());
      return;
    }
    watched.isAwaited = false;
    onReport(node);
  }
}
