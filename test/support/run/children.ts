import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process';

const living = new Set<ChildProcess>();

/** Starts a program that `endChildren` ends. */
export function startChild([program = '', ...words]: readonly string[], options: SpawnOptions): ChildProcess {
  const child = spawn(program, words, options);
  living.add(child);
  const forget = () => living.delete(child);
  child.on('error', forget).on('exit', forget);
  return child;
}

/** Ends what still runs: whoever ends this program by a signal may mean it alone. */
export function endChildren(): void {
  for (const child of living) child.kill('SIGTERM');
}
