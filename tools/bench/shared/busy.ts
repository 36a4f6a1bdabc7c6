import { type ChildProcess, spawn } from 'node:child_process';
import { cpus } from 'node:os';
import { once } from 'node:events';

/** Computes all the time, at the priority of everybody else, until its standard input ends: also when the bench was killed. */
const loop = `
process.stdin.on('end', () => process.exit()).resume();
const compute = () => {
  for (const until = performance.now() + 20; performance.now() < until; );
  setImmediate(compute);
};
compute();`;

/** Every processor of this machine, kept busy by a process each from the moment it is made. */
export class BusyProcessors {
  readonly #children: readonly ChildProcess[] = cpus().map(() =>
    spawn(process.execPath, ['-e', loop], { stdio: ['pipe', 'ignore', 'inherit'] }),
  );

  /** Ends them. */
  async end(): Promise<void> {
    const ends = this.#children.map((child) => once(child, 'exit'));
    for (const child of this.#children) child.kill('SIGKILL');
    await Promise.all(ends);
  }
}
