import { spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { FailedTest } from './jest-run.ts';
import { describeTest } from './retry.ts';

/** How much of each file is printed in CI, which keeps no files: its last lines. */
const printedLines = 40;
/** How many failures are printed so. */
const printedFailures = 5;
/** Folders of this many former runs are kept. */
const keptRuns = 5;

/** Where runs leave what they saw: a folder for each, below the checkout. */
export const runsFolder = join('.cache', 'test-runs');

/** Removes the folders of all but the last runs. Their names sort by time. */
export function removeFormerRuns(): void {
  const former = existsSync(runsFolder) ? readdirSync(runsFolder).sort().slice(0, -keptRuns) : [];
  for (const name of former) rmSync(join(runsFolder, name), { recursive: true, force: true });
}

/** The folders of failed tests below a folder of evidence, as test/support/jest/environment.js makes them: part, file, test. */
export function listEvidence(folder: string): string[] {
  return listFolders(folder).flatMap((part) => listFolders(part).flatMap((file) => listFolders(file)));
}

function listFolders(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => join(folder, name))
    .sort();
}

/** The end of each file of the first failures. */
export function printEvidence(folder: string): string {
  const shown = listEvidence(folder).slice(0, printedFailures);
  return shown
    .flatMap((test) => [
      `=== ${test}`,
      ...readdirSync(test)
        .sort()
        .map((name) => readEnd(join(test, name))),
    ])
    .join('\n');
}

function readEnd(file: string): string {
  if (!statSync(file).isFile()) return '';
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  return [`--- ${file}`, ...lines.slice(-printedLines)].join('\n');
}

/** Adds a line to the record of flaky tests of this checkout, and answers the line: when, what, and how busy the machine was. */
export function recordFlake(test: FailedTest): string {
  const [message = ''] = test.messages;
  const { stdout } = spawnSync('git', ['rev-parse', '--short=12', 'HEAD'], { encoding: 'utf8' });
  const record = JSON.stringify({
    ...{ at: new Date().toISOString(), commit: stdout.trim(), test: describeTest(test) },
    ...{ message: message.split('\n')[0], pressure: readPressure() },
  });
  appendFileSync(join('.cache', 'flakes.jsonl'), `${record}\n`);
  return record;
}

/** Share of the time in which processes waited for a processor; empty where the kernel does not say. */
function readPressure(): string {
  const file = '/proc/pressure/cpu';
  return existsSync(file) ? (readFileSync(file, 'utf8').split('\n')[0] ?? '') : '';
}
