import { LabError } from '../../lab/settings/error.ts';

/** Tells whoever waits for figures a line; the figures themselves are in files. */
export function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** Measures. Where that cannot be, one line says why, and the exit status is 1. */
export async function runBench(measure: () => Promise<void>): Promise<void> {
  try {
    await measure();
  } catch (error) {
    if (!(error instanceof LabError)) throw error;
    say(`bench: ${error.message}`);
    process.exitCode = 1;
  }
}
