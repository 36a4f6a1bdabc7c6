import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { RunOptions } from './arguments.ts';
import { endChildren } from './children.ts';
import { type Addition, budgetSeconds, chooseAdditions, findChange } from './changes.ts';
import { ComponentBuild } from './components.ts';
import { listEvidence, printEvidence, recordFlake, removeFormerRuns, runsFolder } from './evidence.ts';
import { type JestResult, runJest } from './jest-run.ts';
import { runLint } from './lint.ts';
import { findObstacle } from './obstacles.ts';
import { type Part } from './parts.ts';
import { formatSummary, formatTable, type Row, sumRows } from './report.ts';
import { describeTest, mergeSecond, planRetries } from './retry.ts';
import { countLabs, planAddition, planRetry, planSteps, type Step } from './steps.ts';

/** No second attempt begins when those before took this long. */
const retryMs = 600_000;
/** How long a change's additions wait for components: a user's first build takes longer, and leaves them out. */
const addedBuildMs = 240_000;

interface Outcome {
  readonly step: Step;
  readonly seconds: number;
  result: JestResult;
  flaky: number;
}

/** One run of scripts/test. */
export class TestRun {
  readonly #options: RunOptions;
  readonly #report: (line: string) => void;
  readonly #startedMs = performance.now();
  readonly #folder = join(runsFolder, `${new Date().toISOString().replaceAll(':', '-')}-${process.pid}`);
  readonly #rows: Row[] = [];
  readonly #outcomes: Outcome[] = [];
  readonly #notRun: string[] = [];
  #components: ComponentBuild | null = null;
  #started = 0;

  constructor(options: RunOptions, say: (line: string) => void) {
    this.#options = options;
    this.#report = say;
  }

  /** Runs all of it; answers whether it went well. */
  async start(): Promise<boolean> {
    removeFormerRuns();
    mkdirSync(this.#folder, { recursive: true });
    const { parts, environment } = this.#options;
    if (environment['TEST_SEED'] !== undefined) this.#report(`TEST_SEED=${environment['TEST_SEED']}`);
    if (this.#provide(parts)) {
      const runnable = parts.filter((part) => this.#canRun(part));
      const steps = planSteps(runnable, this.#options, countLabs(this.#options.extent));
      if (steps.some(({ needsComponents }) => needsComponents)) this.#buildComponents(runnable);
      for (const step of steps) await this.#run(step);
      if (this.#options.extent === 'gate') await this.#runAdditions();
      await this.#retry();
    }
    return this.#finish();
  }

  end(): void {
    endChildren();
    this.#components?.end();
  }

  /** Packages, and dist/. A part that cannot run here needs none. */
  #provide(parts: readonly Part[]): boolean {
    const since = performance.now();
    const isRoot = process.getuid?.() === 0;
    const installable = parts.filter((part) => isRoot || part.usesKernel !== true).map(({ name }) => name);
    const lab = this.#options.isOnLab && isRoot ? ['lab'] : [];
    const setup = [installable.length === 0 ? ['node'] : installable, lab].filter(({ length }) => length > 0);
    const isGood = setup.every((words) => start('scripts/setup', words)) && start('scripts/build', []);
    this.#addRow({ layer: 'setup', name: 'setup', failed: isGood ? 0 : 1, since });
    return isGood;
  }

  #canRun(part: Part): boolean {
    const obstacle = findObstacle(part);
    if (obstacle === null) return true;
    if (obstacle.isMachine) this.#notRun.push(`${part.name}: ${obstacle.reason}`);
    else {
      this.#report(`${part.name} cannot run: ${obstacle.reason}`);
      // It could run, and did not: CI has to know.
      const isFailure = process.env['CI'] === 'true';
      this.#addRow({ ...part, failed: isFailure ? 1 : 0, skipped: isFailure ? 0 : 1 });
    }
    return false;
  }

  #buildComponents(parts: readonly Part[]): void {
    const kernel = parts.some(({ name }) => name === 'ipvs') ? ['--kernel'] : [];
    const release = process.env['LAB_KUBERNETES'];
    const version = release === undefined ? [] : ['--kubernetes', release];
    const words = ['--helm', '--nodes', ...kernel, ...version];
    this.#components = new ComponentBuild(words, join(this.#folder, 'components.log'));
  }

  async #run(step: Step): Promise<void> {
    this.#report(`--- ${step.name}`);
    if (step.needsComponents && !(await this.#waitForComponents())) return;
    const since = performance.now();
    this.#components?.pause(step.isMeasuring);
    const result = await this.#execute(step);
    this.#components?.pause(false);
    const seconds = Math.round((performance.now() - since) / 1000);
    this.#outcomes.push({ step, seconds, result, flaky: 0 });
    this.#report(`${step.name}: ${formatCounts(result)} in ${seconds} s`);
  }

  async #execute(step: Step): Promise<JestResult> {
    if (step.name === 'lint') return runLint(this.#report);
    // Without it the tests of alerts and of the chart's monitors are skipped, which counts as a failure in CI.
    const isUser = step.projects.some((name) => ['repository', 'control-plane'].includes(name));
    if (isUser && step.extent !== 'gate' && !start('scripts/setup', ['promtool']))
      this.#report(`${step.name}: no promtool, so the tests skip the alerts`);
    const evidence = join(process.cwd(), this.#folder, 'evidence');
    const run = { TEST_EVIDENCE: evidence, TEST_RUN: this.#folder.replace(/^.*\//, '') };
    const resultsFile = join(this.#folder, `${(this.#started += 1)}-${step.name.replace(/\W+/g, '-')}.json`);
    const { projects, extent, words, limitMs } = step;
    const environment = { ...this.#options.environment, ...run };
    return runJest({ projects, extent, words, limitMs, environment, resultsFile });
  }

  async #waitForComponents(): Promise<boolean> {
    const since = performance.now();
    const build = this.#components;
    if (build === null) return true;
    this.#components = null;
    const isBuilt = await build.wait();
    if (!isBuilt) this.#report(build.readLog());
    this.#addRow({ layer: 'components', name: 'components', failed: isBuilt ? 0 : 1, since });
    return isBuilt;
  }

  /** What a change needs beside the gate. */
  async #runAdditions(): Promise<void> {
    const change = findChange();
    if (change === null) {
      this.#report('by change: nothing, as git does not say what changed');
      return;
    }
    const { chosen, leftOut } = chooseAdditions(change.paths);
    this.#report(
      `by change since ${change.since.slice(0, 12)}: ${chosen.map(nameAddition).join(', ') || 'nothing'}`,
    );
    const since = performance.now();
    const late: Addition[] = [];
    const isLate = () => performance.now() - since > budgetSeconds * 1000;
    for (const addition of chosen) if (isLate() || !(await this.#runAddition(addition))) late.push(addition);
    for (const addition of [...leftOut, ...late])
      this.#notRun.push(`${nameAddition(addition)}: no time beside the gate`);
  }

  /** Answers whether there was time. What else keeps it from running counts as it does for any part. */
  async #runAddition(addition: Addition): Promise<boolean> {
    const step = planAddition(addition);
    if (!start('scripts/setup', [addition.part])) {
      this.#addRow({ layer: step.layer, name: `${step.name}: setup`, failed: 1 });
      return true;
    }
    if (!step.parts.every((part) => this.#canRun(part))) return true;
    if (step.needsComponents) {
      this.#components = new ComponentBuild(['--helm'], join(this.#folder, 'components.log'));
      if (!(await this.#components.endsWithin(addedBuildMs))) return false;
    }
    await this.#run(step);
    return true;
  }

  /** Files that failed by time run once more, each alone. */
  async #retry(): Promise<void> {
    const failures = this.#outcomes.flatMap(({ result }) => result.failures);
    const plan = planRetries(
      failures,
      ({ file }) => this.#findOutcome(file)?.step.parts.every(isRealTime) === true,
    );
    if (plan.refusal !== null) this.#report(`nothing runs again: ${plan.refusal}`);
    const since = performance.now();
    for (const file of plan.files) {
      const outcome = this.#findOutcome(file);
      if (outcome === undefined || performance.now() - since > retryMs) return;
      await this.#retryFile(outcome, file);
    }
  }

  #findOutcome(file: string): Outcome | undefined {
    return this.#outcomes.find(({ result }) => result.failures.some((failure) => failure.file === file));
  }

  async #retryFile(outcome: Outcome, file: string): Promise<void> {
    const step = planRetry(outcome.step, file, this.#options.jestArguments);
    this.#report(`--- ${step.name}: ${file}`);
    const { result, flaky } = mergeSecond(outcome.result, await this.#execute(step), file);
    for (const test of flaky) this.#report(`flake: ${recordFlake(test)}`);
    outcome.result = result;
    outcome.flaky += flaky.length;
  }

  #addRow({ since, ...row }: Partial<Row> & Pick<Row, 'layer' | 'name'> & { readonly since?: number }): void {
    const seconds = since === undefined ? 0 : Math.round((performance.now() - since) / 1000);
    this.#rows.push({ passed: 0, failed: 0, skipped: 0, flaky: 0, seconds, ...row });
  }

  #finish(): boolean {
    const outcomes = this.#outcomes.map(({ step, seconds, result, flaky }): Row => {
      const { passed, skipped, failures } = result;
      return { ...step, passed, skipped, failed: failures.length, flaky, seconds };
    });
    const rows = [...this.#rows, ...outcomes];
    const all = sumRows(rows);
    const failures = this.#outcomes.flatMap(({ result }) => result.failures);
    const evidence = join(this.#folder, 'evidence');
    if (process.env['CI'] === 'true') this.#report(printEvidence(evidence));
    this.#report(`\n${formatTable(rows, Math.round((performance.now() - this.#startedMs) / 1000))}\n`);
    for (const line of this.#notRun) this.#report(`not run: ${line}`);
    for (const test of failures) this.#report(`failed: ${describeTest(test)}`);
    if (listEvidence(evidence).length > 0) this.#report(`what failed left its logs in ${evidence}`);
    if (all.flaky > 0) process.stdout.write(`flaky: ${all.flaky}\n`);
    process.stdout.write(`${formatSummary(all)}\n`);
    return all.failed === 0 && (all.skipped === 0 || process.env['CI'] !== 'true');
  }
}

/** Runs a program of the checkout to its end, with this terminal; answers whether it went well. */
function start(program: string, words: readonly string[]): boolean {
  return spawnSync(program, words, { stdio: ['ignore', 'ignore', 'inherit'] }).status === 0;
}

function isRealTime({ isRealTime: is }: Part): boolean {
  return is === true;
}

function nameAddition({ part, files }: Addition): string {
  return `${part} (${files})`;
}

function formatCounts({ passed, failures, skipped }: JestResult): string {
  return `${passed} passed, ${failures.length} failed, ${skipped} skipped`;
}
