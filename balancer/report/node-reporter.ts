/**
 * Says in one Lease what this node has done (ADR 22).
 *
 * Goal: the controller knows within half a second what it waits for.
 * Tension: a thousand nodes that report each change are thousands of writes a second, and most of them nobody waits for.
 * Compromise: a renewal each 10 s says all. What the controller cannot know otherwise (seats, mode, addresses in use), what is left of
 * drains, and versions while an address waits for them or a pod ends, are said at once, but at most twice a second. So is that addresses are on an
 * interface which were not at the last word. The API away changes nothing but that.
 */
import { isDeepStrictEqual } from 'node:util';
import { backOff } from '../../lib/control/backoff.ts';
import { type Cancel, type Clock } from '../../lib/control/clock.ts';
import { type ObjectClient } from '../../lib/kubernetes/object-client.ts';
import { type DrainingEndpoint, type NodeReport } from '../../lib/services/node-report.ts';
import { toMicroTime } from '../../lib/kubernetes/micro-time.ts';
import { LeaseWriter } from './lease-writer.ts';
import { type Renewal } from './standing.ts';

/** Notified of whether the API takes this node's word. */
export interface ReportListener {
  /** It was not taken, for the first time in a row: a sentence. It is tried again. */
  notTaken(words: string): void;
  /** It is taken again. */
  taken(): void;
}

/** What reporting needs of the world. */
export interface ReporterPorts {
  readonly client: ObjectClient;
  readonly clock: Clock;
  readonly report: ReportListener;
  /** As the API names this node. */
  readonly node: string;
  /** Of vipnat's objects. */
  readonly namespace: string;
  /** Called after each renewal that was taken. */
  readonly onRenewed: (renewal: Renewal) => void;
}

/** For which versions somebody waits. */
export interface Awaited {
  /** Of any kind: for an address, or for the gate of a pod. */
  readonly any: boolean;
  /** Of early EndpointSlices alone: a pod ends. */
  readonly early: boolean;
}

/** What a node says of itself. */
export type NodeWords = Omit<NodeReport, 'node'>;

/** Three of four renewals may be lost. */
const renewMs = 10_000;

/** Twice a second. */
const paceMs = 500;

/** An API that is away is asked ever less often; a renewal is due soon after it is back. */
const maxRetryMs = 8000;

/** Reports from `start` to `stop`. */
export class NodeReporter {
  readonly #ports: ReporterPorts;
  readonly #lease: LeaseWriter;
  #words: NodeWords | null = null;
  #said: NodeWords | null = null;
  #awaited: Awaited = { any: false, early: false };
  /** Whether a version of early EndpointSlices is to be said soon, since a pod ended in one. */
  #owesEarly = false;
  /** Whether the Lease is to be renewed, whatever there is to say. */
  #isNeeded = false;
  #isStarted = false;
  #isStopped = false;
  #begunAt = -Infinity;
  #failures = 0;
  #writing: Promise<void> | null = null;
  #cancel: Cancel = () => undefined;

  constructor(ports: ReporterPorts) {
    this.#ports = ports;
    this.#lease = new LeaseWriter(ports);
  }

  /** Begins to write: nothing before the first `say` or `renew`, as a former life's word counts until then. */
  start(): void {
    this.#isStarted = true;
    this.#plan();
  }

  /** Takes what this node says of itself from now on. Returns at once. */
  say(words: NodeWords): void {
    this.#words = words;
    this.#plan();
  }

  /** Renews the Lease soon. Before the first `say` it keeps what a former life has said. Returns at once. */
  renew(): void {
    this.#isNeeded = true;
    this.#plan();
  }

  /** Takes for which versions somebody waits that this node may not have reported yet. */
  setAwaited(awaited: Awaited): void {
    this.#awaited = awaited;
    this.#owesEarly ||= awaited.early;
    this.#plan();
  }

  /**
   * Ends when nothing is under way. The Lease stays: this node goes on as it is. If it is leaving, it says before, once, that
   * it serves nothing.
   */
  async stop({ isLeaving }: { readonly isLeaving: boolean }): Promise<void> {
    this.#isStopped = true;
    this.#cancel();
    await this.#writing;
    if (isLeaving && this.#words !== null) {
      const { clock, node } = this.#ports;
      await this.#lease.write({ ...this.#words, seats: [], mode: 'none', node }, toMicroTime(clock.date()));
    }
  }

  #plan(): void {
    this.#cancel();
    if (!this.#isStarted || this.#isStopped || this.#writing !== null) return;
    if (this.#words === null && !this.#isNeeded) return;
    const waitMs = Math.max(0, this.#begunAt + this.#chooseDelay() - this.#ports.clock.now());
    this.#cancel = this.#ports.clock.schedule(waitMs, () => {
      this.#writing = this.#write();
    });
  }

  /** How long after the write before. */
  #chooseDelay(): number {
    if (this.#failures > 0) return backOff(this.#failures - 1, paceMs, maxRetryMs);
    return this.#isUrgent() ? paceMs : renewMs;
  }

  #isUrgent(): boolean {
    if (this.#isNeeded || this.#words === null || this.#said === null) return true;
    const { programmed, announced, draining, ...rest } = this.#words;
    const { programmed: before, announced: saidAnnounced, draining: saidDraining, ...others } = this.#said;
    if (!isDeepStrictEqual(rest, others)) return true;
    if (!isDeepStrictEqual(listCounted(draining), listCounted(saidDraining))) return true;
    if (this.#isWaitedFor(programmed, before)) return true;
    // What was said last may lack addresses that were on their way to an interface.
    const isOwed = saidAnnounced !== before.virtualips;
    return isOwed && announced !== saidAnnounced;
  }

  #isWaitedFor(programmed: NodeWords['programmed'], before: NodeWords['programmed']): boolean {
    if (this.#awaited.any && !isDeepStrictEqual(programmed, before)) return true;
    return this.#owesEarly && programmed.earlyslices !== before.earlyslices;
  }

  async #write(): Promise<void> {
    const { clock, node, report, onRenewed } = this.#ports;
    const words = this.#words;
    const begunMs = clock.now();
    const text = toMicroTime(clock.date());
    [this.#begunAt, this.#isNeeded] = [begunMs, false];
    const problem = await this.#lease.write(words === null ? null : { ...words, node }, text);
    if (problem === null) {
      if (this.#failures > 0) report.taken();
      [this.#failures, this.#said] = [0, words];
      // What came while it was written is to be said, too.
      if (words === this.#words) this.#owesEarly = this.#awaited.early;
      onRenewed({ begunMs, text });
    } else {
      if (this.#failures === 0 && !this.#isStopped) report.notTaken(problem);
      this.#failures += 1;
      this.#isNeeded ||= words === null;
    }
    this.#writing = null;
    this.#plan();
  }
}

/** Every node knows who drains. Only those whose connections have changed have something to say at once. */
function listCounted(draining: readonly DrainingEndpoint[] = []): readonly DrainingEndpoint[] {
  return draining.filter(({ connections }) => connections !== null && connections > 0);
}
