/**
 * The loop: triggers, settle, observe, decide, plan, apply, verify.
 *
 * Goal: the rules are right a moment after anything changed, and a quiet host costs nothing.
 * Tension: a trigger says little (the generation moves for every write on the host, also ours), kube-proxy makes
 * its changes in bursts, and somebody else may want other rules than we do.
 * Compromise: a trigger is only a hint to look, and a look is always the whole cycle. Looks wait for a burst to
 * settle, keep a distance in proportion to what the last one cost, and get rarer while they find nothing. A write is verified by the next look at
 * once. Repairs draw on a budget (I9); a changed decision has one of its own, so that a fight cannot hold it up.
 */
import { type Cancel, type Clock } from '../lib/kernel/clock.ts';
import { type Trigger, type Watch } from '../lib/kernel/port.ts';
import { type Assessment } from './assess.ts';
import { type Config } from './config/config.ts';
import { isRace, toNotConverging } from './converge.ts';
import { findSuspects, learnPrints, type Suspects } from './integrity.ts';
import { applyPlan, look, type LookPorts } from './look.ts';
import { emptyMemory, type Memory } from './memory.ts';
import { type Report } from './report.ts';
import { backOff, type Bucket, type Budget, fillBucket, takeToken } from './schedule.ts';

/** What the loop needs of the world. */
export interface LoopPorts extends LookPorts {
  readonly clock: Clock;
  readonly report: Report;
}

/** Why a look was taken: a trigger, the first one, the slow tick, or the check of an own write. */
export type Cause = Trigger | 'start' | 'tick' | 'verify' | 'retry';

/** A burst of changes (kube-proxy: about 20 commands and a restore) is mostly over after this; a person notices nothing. */
const settleMs = 20;

/** Where something else writes all the time, looks that find nothing come less and less often, at worst every second. */
const maxPaceMs = 1000;

/** A few looks for nothing are no sign of that yet: kube-proxy's start alone takes as many. */
const freeIdleLooks = 5;

/** When a second equal look decides (the bypass), it comes this soon. */
const confirmMs = 500;

/** Catches what no trigger shows: a legacy write from a container that does not share the lock file. */
const tickMs = 60_000;

/** However much changes, looking takes at most a third of the time, and ticks at most 1/500 of it. */
const restPerLook = 2;
const tickPerLook = 500;

const repairBudget: Budget = { capacity: 10, refillMs: 5000 };
const decisionBudget: Budget = { capacity: 20, refillMs: 1000 };

/** The first retry after a failure, doubled each time: tools fail for milliseconds (a lock) or for good. */
const firstRetryMs = 50;
const maxRetryMs = 10_000;

/** A tool may need two writes until its print is known, see integrity.ts. */
const maxUnverifiedWrites = 3;

/** Keeps the rules right until stopped. Not to be started twice. */
export class Loop {
  readonly #ports: LoopPorts;
  readonly #config: Config;
  readonly #causes = new Set<Cause>();
  #memory: Memory = emptyMemory;
  #suspects: Suspects = new Map();
  #repairs: Bucket;
  #decisions: Bucket;
  #writtenFor = '';
  #unverifiedWrites = 0;
  #failures = 0;
  #timer: { readonly due: number; readonly cancel: Cancel } | null = null;
  #turn: Promise<void> | null = null;
  #watch: Watch | null = null;
  #isStopped = false;
  #idleLooks = 0;
  #lastLookEnded = 0;

  constructor(ports: LoopPorts, config: Config) {
    this.#ports = ports;
    this.#config = config;
    this.#repairs = fillBucket(repairBudget, ports.clock.now());
    this.#decisions = fillBucket(decisionBudget, ports.clock.now());
  }

  /** Starts to watch and to look. */
  start(): void {
    this.#watch = this.#ports.kernel.watch((trigger) => {
      this.#request(trigger, this.#settle());
    });
    this.#request('start', 0);
    // What changed between the first look and the watch's own first look was seen by neither.
    void this.#watch.ready.then(() => {
      this.#request('start', 0);
    });
  }

  /** Ends after the write under way, if any. The rules stay (I8). */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    await this.#watch?.close();
    await this.#turn;
  }

  /** How long to wait after a trigger: a moment on a quiet host, longer the more looks in a row found nothing. */
  #settle(): number {
    const restedMs = this.#ports.clock.now() - this.#lastLookEnded;
    if (restedMs > maxPaceMs) this.#idleLooks = 0;
    return Math.max(
      settleMs,
      backOff(Math.max(0, this.#idleLooks - freeIdleLooks), settleMs, maxPaceMs) - restedMs,
    );
  }

  /** Looks again in so many milliseconds, or earlier if that is planned already. */
  #request(cause: Cause, delayMs: number): void {
    const { clock } = this.#ports;
    // A tick that is only planned is no cause of the look that comes before it.
    if (cause !== 'tick') this.#causes.add(cause);
    if (this.#isStopped || this.#turn !== null) return;
    const due = clock.now() + delayMs;
    if (this.#timer !== null && this.#timer.due <= due) return;
    this.#timer?.cancel();
    this.#timer = { due, cancel: clock.schedule(delayMs, () => void this.#startTurn()) };
  }

  async #startTurn(): Promise<void> {
    const { clock } = this.#ports;
    const causes: Cause[] = this.#causes.size === 0 ? ['tick'] : [...this.#causes];
    this.#causes.clear();
    this.#timer = null;
    const started = clock.now();
    let next: Next = { cause: 'tick', delayMs: tickMs };
    this.#turn = this.#look(causes).then((answer) => void (next = answer));
    await this.#turn;
    this.#turn = null;
    this.#lastLookEnded = clock.now();
    const cost = this.#lastLookEnded - started;
    const hasNews = this.#causes.size > 0;
    if (hasNews && next.cause !== 'retry')
      this.#request('tick', Math.max(this.#settle(), cost * restPerLook));
    this.#request(
      next.cause,
      next.cause === 'tick' ? Math.max(next.delayMs, cost * tickPerLook) : next.delayMs,
    );
  }

  async #look(causes: readonly Cause[]): Promise<Next> {
    try {
      const assessment = await look(this.#ports, this.#config, this.#memory);
      const hasLearnt = this.#remember(assessment);
      // What was learnt just now can make this very plan needless.
      const next: Next = hasLearnt ? { cause: 'verify', delayMs: 0 } : await this.#act(assessment, causes);
      if (next.cause !== 'retry') this.#failures = 0;
      return next;
    } catch (error) {
      return this.#fail(error);
    }
  }

  /** Answers whether a print of the tool was learnt. */
  #remember({ memory, plan }: Assessment): boolean {
    this.#memory = memory;
    if (this.#unverifiedWrites === 0) return false;
    const suspects = findSuspects(plan);
    this.#memory = learnPrints(memory, this.#suspects, suspects);
    this.#suspects = suspects;
    return this.#memory !== memory;
  }

  async #act(assessment: Assessment, causes: readonly Cause[]): Promise<Next> {
    const { report } = this.#ports;
    if (assessment.plan.transactions.length === 0) {
      this.#unverifiedWrites = 0;
      this.#idleLooks += 1;
      report.inSync(assessment);
      return { cause: 'tick', delayMs: isUndecided(assessment) ? confirmMs : tickMs };
    }
    this.#idleLooks = 0;
    const waitMs = this.#takeToken(assessment);
    if (waitMs > 0) {
      report.fight(assessment.plan, waitMs);
      return { cause: 'tick', delayMs: waitMs };
    }
    if (this.#unverifiedWrites >= maxUnverifiedWrites) throw toNotConverging(assessment.plan);
    report.drift(assessment, causes);
    await applyPlan(this.#ports.kernel, assessment.plan);
    this.#unverifiedWrites += 1;
    return { cause: 'verify', delayMs: 0 };
  }

  /** Answers how long to wait before this plan may be written; 0 is now. */
  #takeToken({ decisions }: Assessment): number {
    const now = this.#ports.clock.now();
    const wanted = JSON.stringify(decisions.map(({ vip, way, backends }) => [vip, way, backends]));
    if (wanted !== this.#writtenFor) {
      const { bucket, waitMs } = takeToken(decisionBudget, this.#decisions, now);
      this.#decisions = bucket;
      if (waitMs === 0) this.#writtenFor = wanted;
      return waitMs;
    }
    const { bucket, waitMs } = takeToken(repairBudget, this.#repairs, now);
    this.#repairs = bucket;
    return waitMs;
  }

  #fail(error: unknown): Next {
    this.#failures += 1;
    this.#unverifiedWrites = 0;
    const delayMs = backOff(this.#failures - 1, firstRetryMs, maxRetryMs);
    // A refused transaction is how a race is lost; the second one in a row is worth a line.
    if (!isRace(error) || this.#failures > 1) this.#ports.report.failure(error, delayMs);
    return { cause: 'retry', delayMs };
  }
}

/** Whether one more look like this one ends a bypass. */
function isUndecided({ memory }: Assessment): boolean {
  return [...memory.vips.values()].some(({ isBypass, agreedLooks }) => isBypass && agreedLooks > 0);
}

interface Next {
  readonly cause: Cause;
  readonly delayMs: number;
}
