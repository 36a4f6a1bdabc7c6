import { fstatSync } from 'node:fs';
import { constants } from 'node:os';
import { isatty } from 'node:tty';
import { formatError } from '../format/text/error-text.ts';
import { writeStderr, writeStdout } from '../format/text/output.ts';
import { runProgram } from './program.ts';
import { type Terminal } from '../format/text/screen.ts';

/** Runs the program as this process, which then ends by itself: nothing written is lost. */
export async function runProcess(): Promise<void> {
  if (process.pid === 1) endOnSignals();
  process.on('uncaughtException', (error) => {
    const { text, exitCode } = formatError(error, {
      isDebug: process.env['VIPNAT_LOG_LEVEL'] === 'debug',
      isJson: false,
    });
    writeStderr(text);
    process.exit(exitCode);
  });
  process.exitCode = await runProgram({
    args: process.argv.slice(2),
    environment: process.env,
    terminal: readTerminal,
    stdout: writeStdout,
    stderr: writeStderr,
  });
}

/** Opening the stream takes time, which only terminals are worth; node:tty takes some too, and a terminal is a device. */
function readTerminal(): Terminal {
  if (!isDevice(1) || !isatty(1)) return { isTerminal: false, columns: null };
  const [columns] = process.stdout.getWindowSize();
  return { isTerminal: true, columns: columns > 0 ? columns : null };
}

/** False for what is not open. */
function isDevice(descriptor: number): boolean {
  try {
    return fstatSync(descriptor).isCharacterDevice();
  } catch {
    return false;
  }
}

/** The kernel keeps signals from a container's first process that has no handler for them. */
function endOnSignals(): void {
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    process.on(name, () => process.exit(128 + constants.signals[name]));
  }
}
