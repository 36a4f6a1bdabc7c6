import type { FailedTest, JestResult } from './jest-run.ts';

/** More files than these in one run are no bad luck: a regression, or a machine that is broken. */
const maxRetriedFiles = 3;

/**
 * What waits too long, in the words of Jest, of test/support/jest/waiting.ts, and of the clients of tests. Everything else, such as a wrong
 * rule, a wrong holder, other data or a reset, is a failure at the first time.
 */
const late =
  /Exceeded timeout of|WaitedTooLong|\btimeout\b|timed out|did not log|TOOL_TIMED_OUT|toBeLessThan(?:OrEqual)?\(/;

/** Beside one of these, lateness is not what failed. */
const broken = /ECONNRESET|ECONNREFUSED|EPIPE|EHOSTUNREACH|ECONNABORTED/;

/** Whether a failure may come from a machine that was too slow, by the words that it has. */
function isAboutTime({ messages }: FailedTest): boolean {
  return messages.length > 0 && messages.every((message) => late.test(message) && !broken.test(message));
}

interface RetryPlan {
  /** The files, each to run alone. */
  readonly files: readonly string[];
  /** Why nothing runs again; null where something does, or nothing failed. */
  readonly refusal: string | null;
}

/**
 * Chooses the files that may run a second time: failed ones of parts in real time, all of whose failures are about time. If any other
 * test failed, or too many files did, nothing runs again: the run has failed anyway.
 */
export function planRetries(
  failures: readonly FailedTest[],
  isRealTime: (failure: FailedTest) => boolean,
): RetryPlan {
  const files = [...new Set(failures.map(({ file }) => file))];
  const certain = failures.find(
    (failure) => failure.file === '' || !isRealTime(failure) || !isAboutTime(failure),
  );
  if (certain !== undefined) return { files: [], refusal: `${describeTest(certain)} did not fail by time` };
  if (files.length > maxRetriedFiles)
    return { files: [], refusal: `${files.length} files failed, and ${maxRetriedFiles} may` };
  return { files, refusal: null };
}

/** A result after a second run of one of its files. */
interface Merged {
  readonly result: JestResult;
  /** Tests of the file that failed first, and passed then. They are among the passed ones of the result. */
  readonly flaky: readonly FailedTest[];
}

/** Puts the second result of a file into the first one of all. A test that only the second one saw failing has failed, too. */
export function mergeSecond(first: JestResult, second: JestResult, file: string): Merged {
  const before = first.failures.filter((failure) => failure.file === file);
  const isIn = (failures: readonly FailedTest[], { title }: FailedTest) =>
    failures.some((other) => other.title === title);
  // The file as a whole failed, or nothing of it ran: no test has passed.
  const isWhole = second.passed === 0 || second.failures.some(({ title }) => title === '');
  const flaky = isWhole ? [] : before.filter((failure) => !isIn(second.failures, failure));
  const fresh = second.failures.filter((failure) => !isIn(before, failure));
  const failures = [...first.failures.filter((failure) => !flaky.includes(failure)), ...fresh];
  // An empty title is no test, so it did not pass.
  const passed = first.passed + flaky.filter(({ title }) => title !== '').length;
  return { result: { ...first, passed, failures }, flaky };
}

export function describeTest({ file, title }: FailedTest): string {
  return [file.replace(/^(?:.*\/)?test\//, ''), title].filter((word) => word !== '').join(' › ');
}
