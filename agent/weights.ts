import type { Logger } from '../lib/telemetry/log.ts';
import { findErrorCode } from '../lib/errors.ts';
import { type Endpoint, formatEndpoint } from '../lib/net.ts';
import { type Weights, shareByCounts, unitsPerBackend, leastChange } from '../lib/dialect.ts';
import type { Kernel } from '../lib/kernel/port.ts';
import { type Clock, Rounds } from '../lib/clock.ts';
import type { Assessment } from './decide/decision.ts';
import type { LoopObserver } from './report/events.ts';

/** What new connections each apiserver gets with the method `lc`, as weights of rules: docs/adr/0028. */

/**
 * The weights that counts ask for, given those that are in force: null for equal ones. Each weight is above 0. They stay as they are
 * unless one changes by a tenth of an equal part. Pure and total.
 */
export function weighByCounts(
  backends: readonly Endpoint[],
  counts: ReadonlyMap<string, number>,
  before: Weights | null,
): Weights | null {
  const texts = backends.map(formatEndpoint);
  const targets = texts.map((text) => ({ count: counts.get(text) ?? 0, weight: 1 }));
  const parts = shareByCounts(targets, before !== null);
  if (parts.every((part) => part === 1)) return null;
  const wanted = toUnits(parts);
  const known = before === null ? undefined : fitWeights(before, backends);
  const isSmall = wanted.every(
    (weight, index) =>
      Math.abs(weight - (known?.get(texts[index] ?? '') ?? unitsPerBackend)) < leastChange * unitsPerBackend,
  );
  return isSmall ? before : new Map(texts.map((text, index) => [text, wanted[index] ?? unitsPerBackend]));
}

/** The same weights for other backends: one that is new gets an equal part; undefined where all are equal. Pure and total. */
export function fitWeights(weights: Weights, backends: readonly Endpoint[]): Weights | undefined {
  const texts = backends.map(formatEndpoint);
  const known = texts.map((text) => weights.get(text) ?? unitsPerBackend);
  if (known.every((weight) => weight === known[0])) return undefined;
  const isWhole = known.reduce((sum, weight) => sum + weight, 0) === known.length * unitsPerBackend;
  const fitted = isWhole ? known : toUnits(known);
  return new Map(texts.map((text, index) => [text, fitted[index] ?? unitsPerBackend]));
}

/** Whole numbers of the same proportions, as near as can be, that add up to `unitsPerBackend` for each; 1 at least. */
function toUnits(parts: readonly number[]): number[] {
  const total = parts.length * unitsPerBackend;
  const sum = parts.reduce((all, part) => all + part, 0);
  const exact = parts.map((part) => (part / sum) * total);
  const units = exact.map((one) => Math.max(1, Math.floor(one)));
  const byRest = exact
    .map((one, index) => ({ index, rest: one - Math.floor(one) }))
    .toSorted((one, other) => other.rest - one.rest);
  const missing = Math.max(0, total - units.reduce((all, unit) => all + unit, 0));
  for (const { index } of byRest.slice(0, missing)) units[index] = (units[index] ?? 0) + 1;
  return units;
}

interface ConnectionWeightsPorts {
  readonly kernel: Pick<Kernel, 'countFlows'>;
  readonly clock: Clock;
  /** Apiservers are to get other shares of new connections. */
  readonly onChange: () => void;
  readonly logger: Logger;
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
  readonly #counts: Rounds;
  #workMs = 0;
  #hasTrouble = false;

  constructor(ports: ConnectionWeightsPorts) {
    this.#ports = ports;
    this.#counts = new Rounds(ports.clock, this.#countAll.bind(this), () =>
      this.#held.length === 0 ? null : Math.max(pauseMs, this.#workMs * restPerWork),
    );
  }

  /** Of the VIPs of which something is known: those that were counted, and those that are held elsewhere. */
  readonly weights: ReadonlyMap<string, Weights | null> = this.#vipToWeights;

  /** Returns immediately. */
  synced({ decisions, observation }: Pick<Assessment, 'decisions' | 'observation'>): void {
    const isHere = ({ address }: Endpoint) => observation.addresses.some((one) => one.address === address);
    const isCounted = ({ vip, mode, backends }: Held) =>
      mode === 'direct' && backends.length > 1 && isHere(vip);
    this.#held = decisions.filter(isCounted);
    for (const decision of decisions) if (!isCounted(decision)) this.#change(decision, null);
    if (this.#held.length > 0 && this.#counts.isIdle) this.#counts.plan(0);
  }

  /** Ends after the count in progress, if any. */
  async stop(): Promise<void> {
    await this.#counts.stop();
  }

  async #countAll(): Promise<void> {
    const { clock } = this.#ports;
    const startedAt = clock.now();
    let trouble: unknown = null;
    for (const { vip } of this.#held) trouble = (await this.#count(vip)) ?? trouble;
    if ((trouble === null) === this.#hasTrouble) this.#report(trouble);
    this.#hasTrouble = trouble !== null;
    this.#workMs = clock.now() - startedAt;
  }

  /** Says once that connections cannot be counted, and once that they can be again: null. */
  #report(trouble: unknown): void {
    const { logger } = this.#ports;
    if (trouble === null) {
      logger.info('vipnat counts open connections again: apiservers with fewer get more new ones');
      return;
    }
    const text = trouble instanceof Error ? trouble.message : 'an unknown error';
    logger.warn(
      `vipnat cannot count open connections: ${text}. Until it can, each apiserver gets as many new connections`,
      { code: findErrorCode(trouble) },
    );
  }

  /** Why it cannot; null where it can. */
  async #count(vip: Endpoint): Promise<unknown> {
    const { counts, problem } = await this.#ports.kernel.countFlows(vip).then(
      (found) => ({ counts: found, problem: null }),
      (trouble: unknown) => ({ counts: null, problem: trouble }),
    );
    // As it is now: a sync may have come meanwhile.
    const held = this.#held.find((one) => formatEndpoint(one.vip) === formatEndpoint(vip));
    if (held !== undefined)
      this.#change(held, counts && weighByCounts(held.backends, counts, this.#find(held)));
    return problem;
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
