import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { type Cancel, type Clock } from '../../lib/control/clock.ts';
import { type Kernel } from '../../lib/kernel/port.ts';
import { type Weights } from '../../lib/netfilter/rules/balance.ts';
import { type Assessment } from '../decide/assess.ts';
import { weighByCounts } from '../decide/weigh-apiservers.ts';
import { type LoopObserver } from '../report/loop-observer.ts';

/** What it needs of the world, and its listener. */
export interface ConnectionWeightsPorts {
  readonly kernel: Pick<Kernel, 'countFlows'>;
  readonly clock: Clock;
  /** Apiservers are to get other shares of new connections. */
  readonly onChange: () => void;
  /** Connections could not be counted, and were before; null when they can be again. */
  readonly onTrouble: (error: unknown) => void;
}

type Held = Assessment['decisions'][number];

/** Between two counts, and so between two changes of weights at least: long connections come and go by the minute. */
const pauseMs = 10_000;

/** Counting takes no more than this part of the time. */
const restPerWork = 20;

/**
 * Counts the open connections of the VIPs that this host holds, and keeps what follows for new ones. It counts nothing
 * elsewhere, nor where new connections do not go straight to two apiservers at least. What cannot be counted is equal.
 */
export class ConnectionWeights implements Partial<LoopObserver> {
  readonly #ports: ConnectionWeightsPorts;
  /** VIP texts to weights, null for equal ones; not more than the VIPs. */
  readonly #vipToWeights = new Map<string, Weights | null>();
  #held: readonly Held[] = [];
  #cancel: Cancel | null = null;
  #work: Promise<void> = Promise.resolve();
  #isStopped = false;
  #hasTrouble = false;

  constructor(ports: ConnectionWeightsPorts) {
    this.#ports = ports;
  }

  /** Of the VIPs of which something is known: those that were counted, and those that are held elsewhere. */
  get weights(): ReadonlyMap<string, Weights | null> {
    return this.#vipToWeights;
  }

  /** Returns at once. */
  looked({ decisions, observation }: Pick<Assessment, 'decisions' | 'observation'>): void {
    const isHere = ({ address }: Endpoint) => observation.addresses.some((one) => one.address === address);
    const isCounted = ({ vip, way, backends }: Held) =>
      way === 'direct' && backends.length > 1 && isHere(vip);
    this.#held = decisions.filter(isCounted);
    for (const decision of decisions) if (!isCounted(decision)) this.#change(decision, null);
    if (this.#held.length > 0 && this.#cancel === null) this.#countAfter(0);
  }

  /** Ends after the count under way, if any. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel?.();
    await this.#work;
  }

  #countAfter(delayMs: number): void {
    if (this.#isStopped) return;
    this.#cancel = this.#ports.clock.schedule(delayMs, () => {
      this.#work = this.#countAll();
    });
  }

  async #countAll(): Promise<void> {
    const { clock, onTrouble } = this.#ports;
    const startedAt = clock.now();
    let trouble: unknown = null;
    for (const { vip } of this.#held) trouble = (await this.#count(vip)) ?? trouble;
    if ((trouble === null) === this.#hasTrouble) onTrouble(trouble);
    this.#hasTrouble = trouble !== null;
    this.#cancel = null;
    if (this.#held.length > 0) this.#countAfter(Math.max(pauseMs, (clock.now() - startedAt) * restPerWork));
  }

  /** Why it cannot; null where it can. */
  async #count(vip: Endpoint): Promise<unknown> {
    const counted = await this.#ports.kernel.countFlows(vip).then(
      (counts) => ({ counts, problem: null }),
      (problem: unknown) => ({ counts: null, problem }),
    );
    // As it is now: a look may have come meanwhile.
    const held = this.#held.find((one) => formatEndpoint(one.vip) === formatEndpoint(vip));
    if (held === undefined) return counted.problem;
    if (counted.counts === null) this.#change(held, null);
    else this.#change(held, weighByCounts(held.backends, counted.counts, this.#find(held)));
    return counted.problem;
  }

  /** Those in force: before the first count, as the process before left them. */
  #find({ vip, weights }: Held): Weights | null {
    const known = this.#vipToWeights.get(formatEndpoint(vip));
    return known === undefined ? (weights ?? null) : known;
  }

  #change(held: Held, weights: Weights | null): void {
    const before = this.#find(held);
    this.#vipToWeights.set(formatEndpoint(held.vip), weights);
    if (before !== weights) this.#ports.onChange();
  }
}
