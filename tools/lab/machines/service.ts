import type { Machine } from './machine.ts';
import { join } from 'node:path';
import { mkdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { LabError, WaitedTooLong } from '../settings/error.ts';

/** An apiserver that is stopped serves what is open for up to a minute. */
const stopLimitMs = 90_000;

/** A kernel that panics prints 50 lines after it has said why. */
const tailLines = 60;

const shortestRestMs = 50;

/** No shell, `timeout` or client of a virtual machine ends with it by itself. */
const endedStatus = 3;

/** What runs in the background of a machine: one process, its pid file and its log in a folder of the machine's name. */
export class Service {
  readonly name: string;
  readonly machine: Machine;
  readonly logFile: string;
  readonly #pidFile: string;

  /** One that may be running already. */
  constructor(machine: Machine, name: string, labFolder: string) {
    const folder = join(labFolder, machine.name);
    mkdirSync(folder, { recursive: true });
    this.machine = machine;
    this.name = name;
    this.logFile = join(folder, `${name}.log`);
    this.#pidFile = join(folder, `${name}.pid`);
  }

  /** Starts it; what it prints is appended to its log. */
  async start(command: readonly string[], environment: Readonly<Record<string, string>> = {}): Promise<void> {
    // A background job of a script is no leader of a group: setsid keeps its number, and so does what it runs.
    const script = 'pid="$1" log="$2"; shift 2\nsetsid "$@" </dev/null >>"$log" 2>&1 &\necho $! >"$pid"';
    const { exitCode, stderr } = await this.machine.run(
      ['sh', '-c', script, 'sh', this.#pidFile, this.logFile, ...command],
      { environment },
    );
    if (exitCode !== 0) throw new Error(`${this.name} on ${this.machine.name}: ${stderr}`);
  }

  /** Sends a signal to it; not an error when it is gone. */
  async signal(name: string): Promise<void> {
    await this.#shell(`kill -${name} "$(cat "$1")" 2>/dev/null || true`);
  }

  /** Ends it by SIGTERM, or by another signal, and waits for its end. */
  async stop(signal = 'TERM'): Promise<void> {
    await this.signal(signal);
    const until = performance.now() + stopLimitMs;
    while (await this.isRunning()) {
      if (performance.now() > until) throw new Error(`${this.describe()} does not stop at SIG${signal}`);
      await sleep(20);
    }
  }

  /** Whether it was started and has not ended; true when the machine is too busy to say. */
  async isRunning(): Promise<boolean> {
    return (await this.#shell(`kill -0 "$(cat "$1")" 2>/dev/null || exit ${endedStatus}`)) !== endedStatus;
  }

  /** Its process id, as its machine sees it; that of its last run when it has ended. */
  readPid(): number {
    return Number(readFileSync(this.#pidFile, 'utf8'));
  }

  /** Its name and its machine's. */
  describe(): string {
    return `${this.name} on ${this.machine.name}`;
  }

  /** The last lines that it printed. */
  readTail(): string {
    try {
      return readFileSync(this.logFile, 'utf8').trimEnd().split('\n').slice(-tailLines).join('\n');
    } catch {
      return '(it printed nothing)';
    }
  }

  async #shell(script: string): Promise<number> {
    return (await this.machine.run(['sh', '-c', script, 'sh', this.#pidFile])).exitCode;
  }
}

/** What to wait for, and the service that is at fault when it does not come. */
export interface Expectation {
  readonly what: string;
  readonly service: Service;
  readonly limitMs: number;
  /** Tells more of a wait that was in vain; asked once, at its end. */
  readonly examine?: () => Promise<string>;
}

/**
 * Looks until nothing is in the way any more. An obstacle is a few words or a program's output.
 * @throws LabError with the last obstacle on its first line, at once when the service has ended, and WaitedTooLong at the limit;
 * then what was examined, and the last lines of the service's log.
 */
export async function waitUntil(
  findObstacle: () => Promise<string | null>,
  { what, service, limitMs, examine }: Expectation,
): Promise<void> {
  const until = performance.now() + limitMs;
  for (;;) {
    const started = performance.now();
    const obstacle = await findObstacle();
    if (obstacle === null) return;
    const hasEnded = !(await service.isRunning());
    if (!hasEnded && performance.now() <= until) {
      // Where looking is dear, as on a virtual machine, it must not hold up what is waited for.
      await sleep(Math.max(shortestRestMs, performance.now() - started));
      continue;
    }
    const fault = hasEnded ? 'has ended' : `took longer than ${limitMs / 1000} s`;
    const lines = [
      `${what}: ${service.describe()} ${fault}: ${toOneLine(obstacle)}`,
      ...(examine === undefined ? [] : [await examine()]),
      `The end of ${service.logFile}:`,
      service.readTail(),
    ];
    throw new (hasEnded ? LabError : WaitedTooLong)(lines.join('\n'));
  }
}

/** The first line is what a short report of a failure shows. */
function toOneLine(text: string): string {
  return text
    .trim()
    .split(/\s*\n\s*/)
    .join(' | ');
}
