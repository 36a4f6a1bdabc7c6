/**
 * Runs tests, as scripts/test says: reads what is asked for, provides what it needs, runs one step after another, runs late files again,
 * and prints what came of it. The last line is `N passed, N failed`.
 */
import { CommanderError } from 'commander';
import { readArguments, type RunOptions } from './arguments.ts';
import { TestRun } from './run.ts';

/** The command line; ends the program where commander has said what is wrong with it. */
function readOptions(): RunOptions {
  try {
    return readArguments(process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    process.exit(error.exitCode);
  }
}

const run = new TestRun(readOptions(), (line) => {
  process.stderr.write(`${line}\n`);
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    run.end();
    process.exit(130);
  });
}
process.exitCode = (await run.start()) ? 0 : 1;
