import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Under Jest the process that the tests run in, see test/support/jest/environment.js. */
const runner = (globalThis as { getRunner?: () => NodeJS.Process }).getRunner?.() ?? process;

/** The namespaces and folders of a run are called `vipnat-PID-…`, so that a later run can tell whose owner is gone. */
export const namePattern = /^vipnat-(\d+)-/;

const removals = new Set<() => void>();
const removeAll = () => {
  for (const remove of removals) remove();
  removals.clear();
};
const leave = () => {
  // 'exit' comes of it.
  runner.exit(130);
};
/** That the run itself is gone is all that a worker of it hears of a signal that was for the run alone. */
const endings = ['SIGINT', 'SIGTERM', 'disconnect'] as const;

/**
 * Calls a function when this process ends, also by SIGINT or SIGTERM, or when the run that it works for does; in the order in which
 * they came. It must not wait for anything. Answers how to take it back.
 */
export function atEnd(remove: () => void): () => void {
  if (removals.size === 0) {
    runner.on('exit', removeAll);
    for (const ending of endings) runner.on(ending as 'SIGINT', leave);
  }
  removals.add(remove);
  return () => {
    if (!removals.delete(remove) || removals.size > 0) return;
    runner.off('exit', removeAll);
    for (const ending of endings) runner.off(ending, leave);
  };
}

/** A folder for one run, which goes with it; what a killed run left behind goes when the next one makes namespaces. */
export class TemporaryFolder {
  readonly path: string;
  readonly #takeBack: () => void;

  constructor(name: string) {
    this.path = mkdtempSync(join(tmpdir(), `vipnat-${process.pid}-${name}-`));
    this.#takeBack = atEnd(() => {
      this.#removeNow();
    });
  }

  remove(): void {
    this.#removeNow();
    this.#takeBack();
  }

  #removeNow(): void {
    rmSync(this.path, { recursive: true, force: true, maxRetries: 3 });
  }
}
