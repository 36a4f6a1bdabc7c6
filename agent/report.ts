import { type Endpoint, formatEndpoint } from '../lib/address/endpoint.ts';
import { VipnatError } from '../lib/errors.ts';
import { type Clock } from '../lib/kernel/clock.ts';
import { isOutdated } from '../lib/netfilter/drift.ts';
import { type Assessment } from './assess.ts';
import { describeWay } from './describe.ts';
import { type FlowReport } from './flow-resets.ts';
import { type ForwardingReport, type MissingSwitch } from './forwarding.ts';
import { type Logger } from './log/logger.ts';
import { type Cause } from './turns.ts';
import { describeDrift, type Plan } from './plan.ts';

/** A fight is over when nothing had to be repaired for this long. */
const peaceMs = 60_000;

interface Pending {
  readonly since: number;
  readonly drift: readonly string[];
  readonly isRepair: boolean;
  readonly causes: readonly Cause[];
  readonly tookMs: number | null;
}

/**
 * What the loop has to say, as log lines: one for each change, with its cause and reason, one for each kind of
 * trouble however long it lasts, and nothing while in sync (I7).
 */
export class Report implements FlowReport, ForwardingReport {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #vipToState = new Map<string, string>();
  readonly #vipToHeld = new Map<string, boolean>();
  #pending: Pending | null = null;
  #fightSince: number | null = null;
  #lastRepair = 0;
  #flowProblem = '';
  #forwardingProblem = '';
  readonly #refused = new Set<string>();
  #failure: { readonly text: string; readonly since: number } | null = null;

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger;
    this.#clock = clock;
  }

  /** Before a write: what it is for. */
  drift({ plan }: Assessment, causes: readonly Cause[]): void {
    const drifts = plan.tables.flatMap((table) => table.drift);
    this.#pending ??= {
      since: this.#clock.now(),
      drift: describeDrift(plan),
      isRepair: drifts.some((drift) => !isOutdated(drift)),
      causes,
      tookMs: null,
    };
  }

  /** After a write: what it took is told when a look has found it good. */
  written(): void {
    if (this.#pending === null) return;
    this.#pending = { ...this.#pending, tookMs: this.#clock.now() - this.#pending.since };
  }

  /** After a look that found nothing to do. */
  inSync(assessment: Assessment): void {
    this.#endFailure();
    const hasNewWay = this.#sayWays(assessment);
    this.#sayHolder(assessment);
    if (this.#pending !== null && !hasNewWay) this.#sayRepair(this.#pending);
    this.#pending = null;
    this.#endFight();
  }

  /** Instead of a write, when the budget for repairs is spent: one loud line until it is over. */
  fight(plan: Plan, waitMs: number): void {
    this.#lastRepair = this.#clock.now();
    if (this.#fightSince !== null) return;
    this.#fightSince = this.#lastRepair;
    const [first = 'our rules change'] = describeDrift(plan);
    this.#logger.error(
      `somebody keeps undoing our rules: ${first}. From now on one repair in ${Math.ceil(waitMs / 1000)} s; find the other program that writes them`,
      { drift: describeDrift(plan) },
    );
  }

  /** After a look or write that failed; said once while it stays the same. */
  failure(error: unknown, retryMs: number): void {
    const text = error instanceof Error ? error.message : String(error);
    if (this.#failure?.text === text) return;
    this.#failure = { text, since: this.#failure?.since ?? this.#clock.now() };
    const code = error instanceof VipnatError ? { code: error.code } : {};
    const details =
      error instanceof VipnatError && error.details !== undefined ? { details: error.details } : {};
    this.#logger.error(`${text} (the last good rules stay; next try in ${retryMs} ms)`, {
      ...code,
      ...details,
    });
  }

  flowsReset(vip: Endpoint, backend: Endpoint, count: number): void {
    this.#logger.info(
      `reset what hung on ${formatEndpoint(backend)}: ${count} conntrack entr${count === 1 ? 'y' : 'ies'} of ${formatEndpoint(vip)}`,
    );
  }

  flowsNotReset(error: unknown): void {
    const text = error instanceof Error ? error.message : String(error);
    if (this.#flowProblem === text) return;
    this.#flowProblem = text;
    this.#logger.warn(
      `${text}; connections that hang on a dead apiserver are left to their clients' time limits`,
      error instanceof VipnatError ? { code: error.code } : {},
    );
  }

  /** Who was named as an apiserver and is not used as one: each is said once. */
  refused(sentences: readonly string[]): void {
    for (const sentence of sentences) {
      if (this.#refused.has(sentence)) continue;
      this.#refused.add(sentence);
      this.#logger.warn(sentence);
    }
  }

  switchedOn({ name }: MissingSwitch): void {
    this.#forwardingProblem = '';
    this.#logger.warn(`${name} was 0, and is 1 now: what is balanced has to be forwarded`);
  }

  notSwitched({ message, code }: VipnatError): void {
    if (this.#forwardingProblem === message) return;
    this.#forwardingProblem = message;
    this.#logger.error(message, { code });
  }

  #endFailure(): void {
    if (this.#failure === null) return;
    this.#logger.info(`works again after ${this.#ageOf(this.#failure.since)}`);
    this.#failure = null;
  }

  #endFight(): void {
    if (this.#fightSince === null || this.#clock.now() - this.#lastRepair < peaceMs) return;
    this.#logger.info(`nobody has undone our rules for ${peaceMs / 1000} s`);
    this.#fightSince = null;
  }

  /** Answers whether any VIP goes another way than before. */
  #sayWays({ decisions }: Assessment): boolean {
    let hasNewWay = false;
    for (const decision of decisions) {
      const vip = formatEndpoint(decision.vip);
      const state = describeWay(decision);
      const before = this.#vipToState.get(vip);
      if (before === state) continue;
      hasNewWay = true;
      this.#vipToState.set(vip, state);
      const took = this.#pending === null ? '' : ` (${this.#timeTaken(this.#pending)})`;
      const change = before === undefined ? state : `${before.split(' ')[0] ?? ''} -> ${state}`;
      const line = `${vip} ${change}: ${decision.reason}${took}`;
      if (decision.way === 'passthrough') this.#logger.warn(line);
      else this.#logger.info(line);
    }
    return hasNewWay;
  }

  #sayHolder({ observation, decisions }: Assessment): void {
    for (const { vip } of decisions) {
      const isHeld = observation.addresses.some(({ address }) => address === vip.address);
      const before = this.#vipToHeld.get(vip.address);
      this.#vipToHeld.set(vip.address, isHeld);
      if (before === isHeld || (before === undefined && !isHeld)) continue;
      this.#logger.info(
        isHeld ? `this node holds ${vip.address}` : `this node no longer holds ${vip.address}`,
      );
    }
  }

  #sayRepair(pending: Pending): void {
    const { drift, isRepair, causes } = pending;
    if (isRepair) this.#lastRepair = this.#clock.now();
    const [first = 'rules', ...more] = drift;
    const rest = more.length === 0 ? '' : ` and ${more.length} more`;
    const line = `${isRepair ? 'repaired' : 'brought up to date'}: ${first}${rest} (${this.#timeTaken(pending)})`;
    const fields = { drift, causes };
    if (isRepair) this.#logger.warn(line, fields);
    else this.#logger.info(line, fields);
  }

  #timeTaken({ since, tookMs }: Pending): string {
    return formatDuration(tookMs ?? this.#clock.now() - since);
  }

  #ageOf(since: number): string {
    return formatDuration(this.#clock.now() - since);
  }
}

/** `180 ms`, `16 s`. */
function formatDuration(ms: number): string {
  return ms < 10_000 ? `${Math.round(ms)} ms` : `${Math.round(ms / 1000)} s`;
}
