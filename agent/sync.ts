import { type Plan, describeDrift } from '../lib/dialect.ts';
import {
  renderingKey,
  type ReconcileState,
  type Assessment,
  type LastingState,
  type Decision,
} from './decide/decision.ts';
import type { Config } from '../config/options.ts';
import {
  type Clock,
  backOff,
  type Budget,
  type Bucket,
  fillBucket,
  takeToken,
  type Grant,
} from '../lib/clock.ts';
import {
  type ReconcileInput,
  assess,
  observeAndAssess,
  listWritten,
  isUndecided,
  Foresight,
} from './read-host.ts';
import type { HealthView } from './health/usable.ts';
import { judgeServing } from './vip-holder.ts';
import type { LoopObserver, LoopCause, Cause } from './report/events.ts';
import type { Kernel, Watch } from '../lib/kernel/port.ts';
import { VipnatError } from '../lib/errors.ts';
import { type Requeue, tickMs, TriggerQueue } from '../lib/sync-queue.ts';
import { FlowResets } from './flows.ts';
import { WithoutSyncs, type WithoutSyncsPorts } from './sync-sources.ts';
import { switchOnForwarding } from './forwarding.ts';
import type { Family } from '../lib/net.ts';

/** The rules of a plan that carry vipnat's id and are printed as something else than what was written; by `renderingKey`. */
export function findUnknownRenderings({ tables }: Plan): ReadonlyMap<string, string> {
  return new Map(
    tables.flatMap(({ dialect, drift }) =>
      drift.flatMap(({ kind, rule, id }) =>
        kind === 'edited-rule' && rule !== undefined && id !== undefined
          ? [[renderingKey(dialect, id), rule] as const]
          : [],
      ),
    ),
  );
}

/** A tool may need two writes until its print is known. */
const maxUnverifiedWrites = 3;

/** vipnat's writes in a row that no sync has found in place, and what is learnt from how they were printed. */
export class UnverifiedWrites {
  #count = 0;
  #isFresh = false;
  /** Of the rules right after vipnat's last write. */
  #unknownRenderings: ReadonlyMap<string, string> = new Map();

  /** Whether one more would not help either. */
  get areTooMany(): boolean {
    return this.#count >= maxUnverifiedWrites;
  }

  /** To be called after each write that succeeded. */
  add(): void {
    this.#count += 1;
    this.#isFresh = true;
  }

  /** To be called when they say nothing any more: all is in place, something else is wanted, or a tool failed. */
  reset(): void {
    this.#count = 0;
    this.#isFresh = false;
    this.#unknownRenderings = new Map();
  }

  /**
   * To be called with every sync. Answers the state with the renderings that are believed now, or the same one. What two syncs see
   * with no write of vipnat's between them is learnt by neither: an edit stays, too.
   */
  learn(memory: ReconcileState, plan: Plan): ReconcileState {
    if (!this.#isFresh) return memory;
    this.#isFresh = false;
    const now = findUnknownRenderings(plan);
    // After one write only, the difference may be an edit by other software.
    const confirmed = [...now].filter(([key, printed]) => this.#unknownRenderings.get(key) === printed);
    this.#unknownRenderings = now;
    if (confirmed.length === 0) return memory;
    return { ...memory, renderings: new Map([...memory.renderings, ...confirmed]) };
  }
}

/** New connections hang for up to a second after each time: five are somebody's start or mistake, more are a rule conflict. */
const switchBudget: Budget = { capacity: 5, refillMs: 60_000 };

const budgets = {
  repairs: { capacity: 10, refillMs: 5000 },
  decisions: { capacity: 20, refillMs: 1000 },
  ...{ ipv4: switchBudget, ipv6: switchBudget },
};

type Budgeted = keyof typeof budgets;

/**
 * How often the kernel may be written to (I9): repairs draw on one budget, changed decisions on another, so that a rule conflict
 * cannot hold up a decision. Each family's forwarding switch has one of its own.
 */
export class WriteBudget {
  readonly #clock: Clock;
  readonly #buckets = new Map<Budgeted, Bucket>();
  #writtenFor = '';

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether the last rules that were written, or begun to be, were for other decisions. */
  isNew(decisions: readonly Decision[]): boolean {
    return toText(decisions) !== this.#writtenFor;
  }

  /** Answers how long to wait before rules for these decisions may be written; 0 is now, and then it is counted. */
  take(decisions: readonly Decision[]): number {
    const budgeted = this.#choose(decisions);
    const { bucket, waitMs } = this.#ask(budgeted);
    this.#buckets.set(budgeted, bucket);
    if (waitMs === 0) this.#writtenFor = toText(decisions);
    return waitMs;
  }

  /** How often rules for these decisions are written at most once the budget is used up: from one write to the next, in milliseconds. */
  getPaceMs(decisions: readonly Decision[]): number {
    return budgets[this.#choose(decisions)].refillMs;
  }

  /** How long to wait before a family's forwarding may be switched on again; 0 is now. */
  waitToSwitch(family: Family): number {
    return this.#ask(family).waitMs;
  }

  /** To be called when a family's forwarding was off and has been switched on: that is counted. */
  noteSwitch(family: Family): void {
    this.#buckets.set(family, this.#ask(family).bucket);
  }

  #choose(decisions: readonly Decision[]): Budgeted {
    return this.isNew(decisions) ? 'decisions' : 'repairs';
  }

  #ask(budgeted: Budgeted): Grant {
    const [budget, now] = [budgets[budgeted], this.#clock.now()];
    return takeToken(budget, this.#buckets.get(budgeted) ?? fillBucket(budget, now), now);
  }
}

function toText(decisions: readonly Decision[]): string {
  return JSON.stringify(
    decisions.map(({ vip, mode, backends, weights = [] }) => [vip, mode, backends, [...weights]]),
  );
}

/** The dependencies of the loop. */
export interface LoopPorts extends WithoutSyncsPorts {
  readonly health: WithoutSyncsPorts['health'] & { readonly departed?: HealthView };
  readonly report: LoopObserver;
  /** Keeps the apiservers that a sync leaves in memory, for the next process. */
  readonly keeper: { keep(known: LastingState): void };
  /** How long it rests where all is right and nothing calls for a sync; a minute when left out. */
  readonly tickMs?: number | undefined;
}

/** A foreign write between vipnat's read and write makes a transaction fail; that often in a row it is no accident. */
const maxTries = 5;

/**
 * Reads and writes until a reading finds nothing to do. Answers the first plan: what was wrong.
 * @throws VipnatError of the last failed write, or RULES_NOT_CONVERGING when writes succeed and do not last.
 */
export async function converge(kernel: Kernel, readPlan: () => Promise<Plan>): Promise<Plan> {
  const first = await readPlan();
  let plan = first;
  for (let attempt = 1; plan.transactions.length > 0; attempt += 1) {
    if (attempt > maxTries) throw toNotConverging(plan);
    await applyPlan(kernel, plan).catch((error: unknown) => {
      if (attempt === maxTries || !isRace(error)) throw error;
    });
    plan = await readPlan();
  }
  return first;
}

/** The tool refused the transaction: most likely what it deletes is gone already, so read again. */
function isRace(error: unknown): boolean {
  return error instanceof VipnatError && error.code === 'TOOL_FAILED';
}

/** The rules were written and are not there: somebody else writes them differently all the time. */
function toNotConverging(plan: Plan): VipnatError {
  const [first = 'unknown', ...more] = describeDrift(plan);
  const count = more.length === 0 ? '' : ` and ${more.length} more`;
  return new VipnatError(
    'RULES_NOT_CONVERGING',
    `vipnat wrote its rules, but they do not stay: ${first}${count}. Find the other program that changes them`,
    { details: describeDrift(plan).join('\n') },
  );
}

/** The first retry after a failure, doubled each time: tools fail for milliseconds (a lock) or for good. */
const firstRetryMs = 50;
const maxRetryMs = 10_000;

/** Writes a plan, one transaction after the other; the first that fails ends it. */
export async function applyPlan(kernel: Kernel, { transactions }: Plan): Promise<void> {
  for (const transaction of transactions) await kernel.apply(transaction);
}

/**
 * The loop: triggers, settle, observe, decide, plan, apply, verify.
 *
 * Goal: the rules are right a moment after anything changed, and a quiet host costs nothing.
 * Tension: a trigger says little (the generation moves for every write on the host, also vipnat's), kube-proxy makes
 * its changes in bursts, and other software may want other rules than vipnat does.
 * Compromise: a trigger is only a hint to sync (sync-queue.ts says when), and a sync is always the whole cycle. The next
 * sync verifies a write, and follows it immediately. Repairs draw on a budget (I9). A death is answered from what the last sync saw.
 */

/** When a second equal sync decides (the bypass), it comes this soon. */
const confirmMs = 500;

const awaited: readonly LoopCause[] = ['start', 'verify', 'health', 'own-rules'];

/** The answer of a sync that ends after stop(): probes have ended, so no sync follows. */
const lastSync: Requeue<LoopCause> = { cause: 'tick', delayMs: tickMs };

/** What decisions need of a sync. */
type Seen = Pick<Assessment, 'observation' | 'localRoutes' | 'candidates'>;

/** Keeps the rules right until stopped. Not to be started twice. */
export class Loop {
  readonly #ports: LoopPorts;
  readonly #config: Config;
  readonly #queue: TriggerQueue<LoopCause>;
  #memory: ReconcileState;
  readonly #budget: WriteBudget;
  readonly #unverified = new UnverifiedWrites();
  /** In a row: of syncs and writes. */
  #failures = 0;
  #watch: Watch | null = null;
  #isStopped = false;
  /** What the last sync saw and found; null when it may have been written to since. */
  #seen: Seen | null = null;
  #writing: Promise<void> | null = null;
  #writes = 0;
  #syncedAt: number | null = null;
  #urgent: Promise<boolean> = Promise.resolve(true);
  readonly #flows: FlowResets;
  readonly #foresight: Foresight;
  readonly #without: WithoutSyncs;

  /** `memory` is what it begins with. */
  constructor(ports: LoopPorts, config: Config, memory: ReconcileState) {
    this.#ports = ports;
    this.#memory = memory;
    this.#config = config;
    this.#flows = new FlowResets(ports);
    this.#foresight = new Foresight(config, ports.clock);
    this.#budget = new WriteBudget(ports.clock);
    this.#without = new WithoutSyncs(ports, config, {
      recall: () => this.#memory,
      // What needs no reading of rules; what was read last is good for one write (I1).
      learn: ({ memory: learnt, candidates, isOutdated }) => {
        this.#memory = learnt;
        ports.keeper.keep(learnt);
        if (this.#seen !== null) this.#seen = { ...this.#seen, candidates };
        if (isOutdated) void this.#beUrgent();
      },
    });
    const sync = (causes: readonly Cause[]) => this.#reconcile(causes);
    this.#queue = new TriggerQueue({ clock: ports.clock, awaited, urgent: ['own-rules'], sync });
  }

  start(): void {
    this.#watch = this.#ports.kernel.watch((trigger) => {
      this.#ports.report.triggered(trigger);
      this.#queue.trigger(trigger);
    });
    this.#queue.requeueAfter('start', 0);
    // What changed between the first sync and the watch's own first reading was seen by neither.
    void this.#watch.ready.then(this.#queue.requeueAfter.bind(this.#queue, 'start', 0));
  }

  /** To be called when an apiserver's health has changed. The next sync acts on one that is not urgent. */
  onHealthChange(isUrgent = false): void {
    this.#flows.onHealthChange();
    this.#without.goOn();
    if (!isUrgent) {
      this.#queue.requeueAfter('health', 0);
      return;
    }
    void this.#beUrgent().then((isAnswered) => {
      if (isAnswered) this.#queue.requeueAfter('health', 0);
      else this.#queue.press('health');
    });
  }

  /** To be called when the Kubernetes API says something else than before. */
  onApiChange(): void {
    this.#queue.trigger('api');
    this.#without.goOn();
  }

  /** Its writes, when its last sync ended by its Clock, and how long the one in progress has lasted or the next one is overdue. */
  get activity(): Record<'writes' | 'behindMs', number> & { readonly syncedAt: number | null } {
    return { writes: this.#writes, syncedAt: this.#syncedAt, behindMs: this.#queue.behindMs };
  }

  /** Ends after the write and the reset in progress, if any; nothing else comes of a sync in progress. The rules stay (I8). */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#foresight.forget();
    this.#without.stop();
    await Promise.all([this.#queue.stop(), this.#watch?.stop(), this.#flows.stop(), this.#urgent]);
    await this.#ports.kernel.keepReady([]);
  }

  async #reconcile(causes: readonly Cause[]): Promise<Requeue<LoopCause>> {
    const writes = this.#writes;
    const started = this.#ports.clock.now();
    this.#without.syncBegins();
    try {
      const assessment = await observeAndAssess(this.#ports, this.#config, this.#memory);
      const isServing = await judgeServing(this.#ports, assessment);
      await this.#urgent;
      if (this.#isStopped) return lastSync;
      // What was read is older than what was written meanwhile.
      if (this.#writes !== writes) return { cause: 'verify', delayMs: 0 };
      this.#ports.serving.keep(isServing);
      const next = await this.#follow(assessment, { causes, started });
      this.#failures = 0;
      return next;
    } catch (error) {
      return this.#isStopped && this.#writes === writes ? lastSync : this.#fail(error);
    }
  }

  /** All that comes of a sync that succeeded. */
  async #follow(
    assessment: Assessment,
    { causes, started }: { readonly causes: readonly Cause[]; readonly started: number },
  ): Promise<Requeue<LoopCause>> {
    this.#seen = assessment;
    this.#without.synced(assessment);
    this.#syncedAt = this.#ports.clock.now();
    this.#ports.report.synced(assessment, this.#syncedAt - started);
    this.#memory = this.#unverified.learn(assessment.memory, assessment.plan);
    const hasLearnt = this.#memory !== assessment.memory;
    this.#ports.keeper.keep(this.#memory);
    const ports = { ...this.#ports, budget: this.#budget };
    const memory = await switchOnForwarding(ports, assessment.missingSwitches, this.#memory, this.#config);
    this.#memory = memory ?? this.#memory;
    // The sync is void by that.
    if (memory !== null) return { cause: 'verify', delayMs: 0 };
    if (this.#isStopped) return lastSync;
    // What was learnt just now can make this very plan needless.
    return hasLearnt ? { cause: 'verify', delayMs: 0 } : await this.#act(assessment, causes);
  }

  async #act(assessment: Assessment, causes: readonly Cause[]): Promise<Requeue<LoopCause>> {
    const { report, kernel } = this.#ports;
    if (assessment.plan.transactions.length === 0) {
      this.#unverified.reset();
      this.#queue.recordOutcome(true);
      report.inSync(assessment);
      void kernel.keepReady(listWritten(assessment));
      this.#flows.hold(assessment.decisions);
      await this.#foresight.foresee(this.#inputOf(assessment));
      return { cause: 'tick', delayMs: isUndecided(assessment) ? confirmMs : (this.#ports.tickMs ?? tickMs) };
    }
    this.#queue.recordOutcome(false);
    // The decisions have changed since the last write, so a difference does not mean that the write was lost.
    if (this.#budget.isNew(assessment.decisions)) this.#unverified.reset();
    const waitMs = this.#budget.take(assessment.decisions);
    if (waitMs > 0) {
      report.ruleConflict(assessment.plan, this.#budget.getPaceMs(assessment.decisions));
      return { cause: 'tick', delayMs: waitMs };
    }
    if (this.#unverified.areTooMany) throw toNotConverging(assessment.plan);
    report.drift(assessment, causes);
    await this.#write(assessment.plan);
    return { cause: 'verify', delayMs: 0 };
  }

  /** One write at a time; what was seen before it counts no longer. */
  async #write(plan: Plan): Promise<void> {
    this.#seen = null;
    this.#foresight.forget();
    this.#writes += 1;
    this.#writing = applyPlan(this.#ports.kernel, plan).finally(() => (this.#writing = null));
    await this.#writing;
    this.#unverified.add();
    this.#ports.report.written();
  }

  /** One after the other: a second death may come while the first one is written. */
  #beUrgent(): Promise<boolean> {
    return (this.#urgent = this.#urgent.then(() => this.#actAtOnce()));
  }

  /** From a death to the kernel: decides on what was last seen, and reads afterwards. Answers whether the next sync may take its time. */
  async #actAtOnce(): Promise<boolean> {
    const { report } = this.#ports;
    await this.#writing?.catch(() => undefined);
    if (this.#isStopped || this.#seen === null) return false;
    const input = this.#inputOf(this.#seen);
    const assessment = this.#foresight.find(input) ?? assess(input, this.#config);
    const { decisions, plan, memory } = assessment;
    if (plan.transactions.length > 0) {
      if (this.#budget.take(decisions) > 0) return true;
      this.#memory = memory;
      report.drift(assessment, ['health']);
      const isWritten = await this.#write(plan).then(
        () => true,
        () => false,
      );
      // The sync that follows tries again, and says what is wrong.
      if (!isWritten) return false;
      this.#without.wrote(decisions);
    }
    this.#flows.hold(decisions);
    return true;
  }

  /** What was seen, with what is known besides now. */
  #inputOf({ observation, localRoutes, candidates }: Seen): ReconcileInput {
    const { health, weights } = this.#ports;
    const now = { health: health.view, open: health.open, weights: weights?.() };
    return { observation, localRoutes, candidates, ...now, memory: this.#memory };
  }

  #fail(error: unknown): Requeue<LoopCause> {
    this.#unverified.reset();
    this.#queue.recordOutcome(true);
    const delayMs = backOff(this.#failures, firstRetryMs, maxRetryMs);
    this.#failures += 1;
    // A refused transaction is how a race is lost; the second one in a row is no accident.
    if (!isRace(error) || this.#failures > 1)
      this.#ports.report.failure(error, this.#queue.waitMs('retry', delayMs));
    this.#without.syncFailed();
    return { cause: 'retry', delayMs };
  }
}
