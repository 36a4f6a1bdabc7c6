import { spawn } from 'node:child_process';
import { fstatSync } from 'node:fs';
import { type Cancel } from '../../control/clock.ts';
import { isInPath } from '../tools/toolbox.ts';

/** Standard output. */
const descriptor = 1;

/**
 * Calls back once, when standard output is a pipe whose last reader went away, until it is cancelled. Node has no call
 * that notices this without a write, so a `tail` child (coreutils 8.28 and later) waits for it. Other output, and a host
 * without such a tail, get no call: there the next write finds out.
 */
export function watchStdoutReader(onGone: () => void): Cancel {
  if (!fstatSync(descriptor).isFIFO() || !isInPath('tail')) return () => undefined;
  // The child holds the pipe open too. --pid ends it within a second when this process is killed.
  const child = spawn('tail', [`--pid=${process.pid}`, '--follow', '/dev/null'], {
    stdio: ['ignore', descriptor, 'ignore'],
    env: { ...process.env, LC_ALL: 'C' },
  });
  const state = { isCancelled: false };
  child.once('error', () => undefined);
  child.once('exit', (_, signal) => {
    // coreutils 9.1 ends itself so when nobody reads. A tail that does not know these options exits with a status.
    if (!state.isCancelled && signal === 'SIGPIPE') onGone();
  });
  return () => {
    state.isCancelled = true;
    child.kill('SIGKILL');
  };
}
