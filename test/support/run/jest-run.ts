import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Extent } from '../jest/extent.ts';
import { startChild } from './children.ts';

/** What to run of one or more parts. */
interface JestTask {
  readonly projects: readonly string[];
  readonly extent: Extent;
  readonly environment: Readonly<Record<string, string>>;
  readonly words: readonly string[];
  readonly resultsFile: string;
  /** The end of a hang: then Jest is ended, and the run counts as failed. */
  readonly limitMs: number;
}

/** A test that failed, by its file. An empty title is for the file itself: it could not be loaded, or a hook failed. */
export interface FailedTest {
  readonly file: string;
  readonly title: string;
  readonly messages: readonly string[];
}

export interface JestResult {
  readonly passed: number;
  readonly skipped: number;
  readonly failures: readonly FailedTest[];
}

/** The parts of Jest's JSON that are read; see https://jestjs.io/docs/cli#--json and its FormattedTestResults. */
interface JestReport {
  readonly numPassedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
  readonly numTotalTests: number;
  readonly testResults: readonly JestFile[];
}

interface JestFile {
  readonly name: string;
  readonly status: string;
  readonly message: string;
  readonly assertionResults: readonly {
    readonly fullName: string;
    readonly status: string;
    readonly failureMessages: readonly string[] | null;
  }[];
}

/** Runs Jest to its end. A part without a test has not run, which is a failure. Never rejects. */
export async function runJest(task: JestTask): Promise<JestResult> {
  const words = ['--experimental-vm-modules', '--disable-warning=ExperimentalWarning'];
  const jest = [join('node_modules', 'jest', 'bin', 'jest.js'), '--selectProjects', ...task.projects];
  const options = ['--json', '--outputFile', task.resultsFile, ...task.words];
  const environment = { ...process.env, ...task.environment, TEST_EXTENT: task.extent };
  const ending = await runToEnd([process.execPath, ...words, ...jest, ...options], environment, task.limitMs);
  const name = task.projects.join(' ');
  if (ending === 'late') return failAsWhole(name, `Jest did not end within ${task.limitMs / 60_000} minutes`);
  if (!existsSync(task.resultsFile)) return failAsWhole(name, 'Jest wrote no results');
  const report = JSON.parse(readFileSync(task.resultsFile, 'utf8')) as JestReport;
  const failures = report.testResults.flatMap((file) => listFailures(file));
  if (report.numTotalTests === 0 && failures.length === 0) return failAsWhole(name, 'no test was found');
  return {
    passed: report.numPassedTests,
    skipped: report.numPendingTests + report.numTodoTests,
    failures,
  };
}

/** A failure of no file in particular. */
function failAsWhole(name: string, message: string): JestResult {
  return { passed: 0, skipped: 0, failures: [{ file: '', title: name, messages: [message] }] };
}

function listFailures({ name, status, message, assertionResults }: JestFile): FailedTest[] {
  const failed = assertionResults
    .filter((test) => test.status === 'failed')
    .map(({ fullName, failureMessages }) => ({
      ...{ file: name, title: fullName },
      messages: failureMessages ?? [],
    }));
  const isWhole = failed.length === 0 && status === 'failed';
  return isWhole ? [{ file: name, title: '', messages: [message] }] : failed;
}

/** Runs a command whose output is nobody's; standard error is this program's. */
function runToEnd(
  command: readonly string[],
  environment: NodeJS.ProcessEnv,
  limitMs: number,
): Promise<'ended' | 'late'> {
  const child = startChild(command, { env: environment, stdio: ['ignore', 'ignore', 'inherit'] });
  return new Promise((resolve) => {
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      // Its workers end with it, and take back what their tests made; who does not end so has hung.
      child.kill('SIGTERM');
      setTimeout(() => child.kill('SIGKILL'), 20_000).unref();
    }, limitMs);
    const end = () => {
      clearTimeout(timer);
      resolve(isLate ? 'late' : 'ended');
    };
    child.on('error', end).on('exit', end);
  });
}
