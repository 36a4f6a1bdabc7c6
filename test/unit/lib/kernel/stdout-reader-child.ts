import { writeSync } from 'node:fs';
import { watchStdoutReader } from '../../../../lib/kernel/host.ts';

/** Writes a line, waits for so many milliseconds, and exits with 3 if the reader goes meanwhile. */
const [, , waitMs, line] = process.argv;
writeSync(1, `${line}\n`);
const due = setTimeout(() => undefined, Number(waitMs));
watchStdoutReader(() => {
  clearTimeout(due);
  process.exitCode = 3;
});
