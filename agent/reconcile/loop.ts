/**
 * The loop: triggers, settle, observe, decide, plan, apply, verify.
 *
 * Goal: the rules are right a moment after anything changed, and a quiet host costs nothing.
 * Tension: a trigger says little (the generation moves for every write on the host, also ours), kube-proxy makes
 * its changes in bursts, and somebody else may want other rules than we do.
 * Compromise: a trigger is only a hint to look (trigger-queue.ts says when), and a look is always the whole cycle. A write
 * is verified by the next look at once. Repairs draw on a budget (I9). A death is answered from what the last look saw.
 */
import { type Watch } from '../../lib/kernel/port.ts';
import { type Assessment, assess, isUndecided, type ReconcileInput } from '../decide/assess.ts';
import { type Config } from '../../config/config.ts';
import { toNotConverging } from './converge.ts';
import { Foresight } from './foresight.ts';
import { FlowResets } from './flow-resets.ts';
import { type Urgency } from '../health/urgency.ts';
import { UnverifiedWrites } from './tool-renderings.ts';
import { judgeServing } from '../keepalived/judge-serving.ts';
import { applyPlan, listWritten, observeAndAssess } from './look.ts';
import { type Activity, type LoopPorts } from './loop-ports.ts';
import { type Cause, type LoopCause } from '../report/loop-observer.ts';
import { type ReconcileState } from '../observe/reconcile-state.ts';
import { Retries } from './retries.ts';
import { type Requeue, tickMs, TriggerQueue } from '../../lib/control/trigger-queue.ts';
import { WriteBudget } from './write-budget.ts';
import { switchOnForwarding } from './switch-forwarding.ts';
import { type Learnt, WithoutLooks } from './without-looks.ts';
import { type Plan } from '../../lib/netfilter/plan/table-plan.ts';

/** When a second equal look decides (the bypass), it comes this soon. */
const confirmMs = 500;

const awaited: readonly LoopCause[] = ['start', 'verify', 'health', 'own-rules'];

/** The answer of a look that ends after stop(): probes have ended, so no look follows. */
const lastLook: Requeue<LoopCause> = { cause: 'tick', delayMs: tickMs };

/** What decisions need of a look. */
type Seen = Pick<Assessment, 'observation' | 'localRoutes' | 'candidates'>;

/** Keeps the rules right until stopped. Not to be started twice. */
export class Loop {
  readonly #ports: LoopPorts;
  readonly #config: Config;
  readonly #queue: TriggerQueue<LoopCause>;
  #memory: ReconcileState;
  readonly #budget: WriteBudget;
  readonly #unverified = new UnverifiedWrites();
  readonly #retries = new Retries();
  #watch: Watch | null = null;
  #isStopped = false;
  /** What the last look saw and found; null when it may have been written to since. */
  #seen: Seen | null = null;
  #writing: Promise<void> | null = null;
  #writes = 0;
  #lookedAt: number | null = null;
  #urgent: Promise<boolean> = Promise.resolve(true);
  readonly #flows: FlowResets;
  readonly #foresight: Foresight;
  readonly #without: WithoutLooks;

  /** `memory` is what it begins with. */
  constructor(ports: LoopPorts, config: Config, memory: ReconcileState) {
    this.#ports = ports;
    this.#memory = memory;
    this.#config = config;
    this.#flows = new FlowResets(ports);
    this.#foresight = new Foresight(config, ports.clock);
    this.#budget = new WriteBudget(ports.clock);
    this.#without = new WithoutLooks(ports, config, {
      recall: () => this.#memory,
      learn: (learnt) => {
        this.#learn(learnt);
      },
    });
    const look = (causes: readonly Cause[]) => this.#reconcile(causes);
    this.#queue = new TriggerQueue({ clock: ports.clock, awaited, telling: ['own-rules'], look });
  }

  /** Starts to watch and to look. */
  start(): void {
    this.#watch = this.#ports.kernel.watch((trigger) => {
      this.#ports.report.triggered(trigger);
      this.#queue.trigger(trigger);
    });
    this.#queue.requeueAfter('start', 0);
    // What changed between the first look and the watch's own first look was seen by neither.
    void this.#watch.ready.then(() => {
      this.#queue.requeueAfter('start', 0);
    });
  }

  /** To be called when an apiserver's health has changed. */
  onHealthChange(urgency: Urgency): void {
    this.#flows.onHealthChange();
    this.#without.goOn();
    if (urgency === 'calm') {
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

  /** Times are of its Clock; null before the first look. */
  get activity(): Activity {
    return { writes: this.#writes, lookedAt: this.#lookedAt, behindMs: this.#queue.behindMs };
  }

  /** Ends after the write and the reset under way, if any; nothing else comes of a look under way. The rules stay (I8). */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#foresight.forget();
    this.#without.stop();
    await Promise.all([this.#queue.stop(), this.#watch?.close(), this.#flows.stop(), this.#urgent]);
    await this.#ports.kernel.keepReady([]);
  }

  async #reconcile(causes: readonly Cause[]): Promise<Requeue<LoopCause>> {
    const writes = this.#writes;
    const started = this.#ports.clock.now();
    this.#without.lookBegins();
    try {
      const assessment = await observeAndAssess(this.#ports, this.#config, this.#memory);
      const isServing = await judgeServing(this.#ports, assessment);
      await this.#urgent;
      if (this.#isStopped) return lastLook;
      // What was read is older than what was written meanwhile.
      if (this.#writes !== writes) return { cause: 'verify', delayMs: 0 };
      this.#ports.serving.keep(isServing);
      const next = await this.#follow(assessment, { causes, started });
      this.#retries.succeed();
      return next;
    } catch (error) {
      return this.#isStopped && this.#writes === writes ? lastLook : this.#fail(error);
    }
  }

  /** All that comes of a look that succeeded. */
  async #follow(
    assessment: Assessment,
    { causes, started }: { readonly causes: readonly Cause[]; readonly started: number },
  ): Promise<Requeue<LoopCause>> {
    this.#seen = assessment;
    this.#without.looked(assessment);
    this.#lookedAt = this.#ports.clock.now();
    this.#ports.report.looked(assessment, this.#lookedAt - started);
    const hasLearnt = this.#remember(assessment);
    this.#ports.keeper.keep(this.#memory);
    if (await this.#switchOn(assessment)) return { cause: 'verify', delayMs: 0 };
    if (this.#isStopped) return lastLook;
    // What was learnt just now can make this very plan needless.
    return hasLearnt ? { cause: 'verify', delayMs: 0 } : await this.#act(assessment, causes);
  }

  /** Answers whether a print of the tool was learnt. */
  #remember({ memory, plan }: Assessment): boolean {
    this.#memory = this.#unverified.learn(memory, plan);
    return this.#memory !== memory;
  }

  /** Answers whether the look is void by that. */
  async #switchOn({ missingSwitches }: Assessment): Promise<boolean> {
    const ports = { ...this.#ports, budget: this.#budget };
    const memory = await switchOnForwarding(ports, missingSwitches, this.#memory, this.#config);
    this.#memory = memory ?? this.#memory;
    return memory !== null;
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
      report.fight(assessment.plan, this.#budget.getPaceMs(assessment.decisions));
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

  /** The way from a death to the kernel: decided on what was last seen, and looked at afterwards. Answers whether the next look may take its time. */
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
      // The look that follows tries again, and says what is wrong.
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

  /** What needs no reading of rules; what was read last is good for one write (I1). */
  #learn({ memory, candidates, isOutdated }: Learnt): void {
    this.#memory = memory;
    this.#ports.keeper.keep(memory);
    if (this.#seen !== null) this.#seen = { ...this.#seen, candidates };
    if (isOutdated) void this.#beUrgent();
  }

  #fail(error: unknown): Requeue<LoopCause> {
    this.#unverified.reset();
    this.#queue.recordOutcome(true);
    const { delayMs, isWorthALine } = this.#retries.fail(error);
    if (isWorthALine) this.#ports.report.failure(error, this.#queue.waitMs('retry', delayMs));
    this.#without.lookFailed();
    return { cause: 'retry', delayMs };
  }
}
