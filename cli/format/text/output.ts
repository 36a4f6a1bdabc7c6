import { writeSync } from 'node:fs';
import { exitStatuses } from '../../../lib/text/exit-status.ts';
import { formatErrorLine } from './error-text.ts';

/**
 * Writes to standard output at once and whole. Not by process.stdout: opening that stream takes a tenth of the
 * time in which `vipnat plan` is done. When the reader went away (`vipnat plan | head`), the process ends with
 * `readerGone` and no message. When the output cannot be written for another reason (a full disk), the process
 * ends with status 1.
 */
export function writeStdout(text: string): void {
  try {
    writeWhole(1, text);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'EPIPE') process.exit(exitStatuses.readerGone);
    writeStderr(
      `${formatErrorLine('OUTPUT_NOT_WRITTEN', `standard output cannot be written: ${message}`)}\n`,
    );
    process.exit(exitStatuses.failed);
  }
}

/** Writes to standard error at once and whole. Where that fails nobody is left to tell. */
export function writeStderr(text: string): void {
  try {
    writeWhole(2, text);
  } catch {
    return;
  }
}

function writeWhole(descriptor: number, text: string): void {
  let rest = Buffer.from(text);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(descriptor, rest));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
      // A pipe that somebody made non-blocking is full: its reader gets a moment.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2);
    }
  }
}
