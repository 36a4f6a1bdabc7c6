import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/**
 * Starts a command in a group of its own, but in this session, and prints the group's number, and at its end its status. Who waits for it in
 * bash (`wait -f`) is told now and then that it has ended when it is stopped.
 */
const startInGroup =
  'log=$1; shift; set -m; ("$@" >"$log" 2>&1 </dev/null; echo "status $?") & echo "group $!"';

/**
 * Builds what labs need beside other parts, in what these leave of the processors: a process of the class idle runs only where no other one of
 * its session wants to. The kernel shares the processors fairly among sessions (sched_autogroup_enabled), whatever class their
 * processes are of, so the build stays in this one. It has a group of its own, to be ended by.
 */
export class ComponentBuild {
  readonly #ended: Promise<boolean>;
  readonly #log: string;
  #group = 0;

  /** Starts it with words of `scripts/lab build`. What it prints goes to a file. */
  constructor(words: readonly string[], log: string, build = ['scripts/lab', 'build']) {
    this.#log = log;
    const isIdle = spawnSync('chrt', ['--idle', '0', 'true']).status === 0;
    const priority = isIdle ? ['chrt', '--idle', '0'] : ['nice', '-n', '19'];
    const command = [...priority, ...build, ...words];
    const stdio = ['ignore', 'pipe', 'ignore'] as const;
    const { stdout } = spawn('bash', ['-c', startInGroup, 'build', log, ...command], { stdio: [...stdio] });
    let said = '';
    stdout.on('data', (text: Buffer) => {
      said += text.toString();
      this.#group = Number(/group (\d+)\n/.exec(said)?.[1] ?? 0);
    });
    this.#ended = new Promise((resolve) => {
      stdout.on('close', () => {
        this.#group = 0;
        resolve(said.includes('status 0\n'));
      });
    });
  }

  /** Whether it ended well. */
  async wait(): Promise<boolean> {
    this.pause(false);
    return this.#ended;
  }

  /** Whether it ends within a limit, well or not. Later than that it is ended. */
  async endsWithin(limitMs: number): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<'late'>((resolve) => {
      timer = setTimeout(() => {
        resolve('late');
      }, limitMs);
    });
    const isLate = (await Promise.race([this.#ended, late])) === 'late';
    clearTimeout(timer);
    if (isLate) this.end();
    return !isLate;
  }

  /** Stands still while something is measured, and goes on after it. */
  pause(isPaused: boolean): void {
    this.#signal(isPaused ? 'SIGSTOP' : 'SIGCONT');
  }

  /** Ends it with all that it started. */
  end(): void {
    this.#signal('SIGKILL');
  }

  readLog(): string {
    return readFileSync(this.#log, 'utf8');
  }

  #signal(signal: NodeJS.Signals): void {
    if (this.#group === 0) return;
    try {
      process.kill(-this.#group, signal);
    } catch {
      // The group has just ended.
    }
  }
}
