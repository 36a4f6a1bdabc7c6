import type { ChildProcess } from 'node:child_process';
import { createInterface, type Interface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** `count` new TLS connections, `concurrency` at a time. */
export interface RequestTask {
  readonly kind: 'requests';
  readonly host: string;
  readonly port: number;
  readonly count: number;
  readonly concurrency: number;
}

/** New TLS connections at a steady rate. */
export interface RateTask {
  readonly kind: 'rate';
  readonly host: string;
  readonly port: number;
  readonly perSecond: number;
  readonly durationMs: number;
}

/** Open connections that exchange bytes for a while. */
export interface HoldTask {
  readonly kind: 'hold';
  readonly host: string;
  readonly port: number;
  readonly count: number;
  readonly durationMs: number;
}

/** Anything a seat can be asked for. */
export type Task = RequestTask | RateTask | HoldTask;

/** How many requests each apiserver answered, which client addresses they saw, and what failed. */
export interface RequestReport {
  readonly apiservers: Record<string, number>;
  readonly from: Record<string, number>;
  readonly errors: Record<string, number>;
}

/** Every request in the order of its start. */
export interface RateReport {
  /** When it began, in milliseconds since the epoch. */
  readonly startedAt: number;
  readonly answers: { readonly atMs: number; readonly apiserver?: string; readonly error?: string }[];
}

/** How many connections were opened, how many bytes were sent and came back over them, and which errors they had. */
export interface HoldReport {
  opened: number;
  sent: number;
  echoes: number;
  readonly errors: Record<string, number>;
}

const program = fileURLToPath(new URL('seat-program.ts', import.meta.url));

/** A place from which the control plane is used: a client process in a namespace, one task at a time. */
export class Seat {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #lines: Interface;

  /** The program to start at the place; it ends with its standard input. */
  static readonly command: readonly string[] = [process.execPath, program];

  /** At a place of this name, where `Seat.command` was started with pipes. */
  constructor(name: string, child: ChildProcess) {
    this.name = name;
    this.#child = child;
    this.#child.stderr?.pipe(process.stderr);
    if (this.#child.stdout === null) throw new Error('a seat needs its standard output');
    this.#lines = createInterface({ input: this.#child.stdout });
  }

  /** New connections, 8 at a time. */
  async request(host: string, port: number, count: number): Promise<RequestReport> {
    this.#send({ kind: 'requests', host, port, count, concurrency: 8 });
    return (await this.#nextLine()) as RequestReport;
  }

  /** New connections at a steady rate. */
  async requestAtRate(
    target: { host: string; port: number },
    perSecond: number,
    durationMs: number,
  ): Promise<RateReport> {
    this.#send({ kind: 'rate', ...target, perSecond, durationMs });
    return (await this.#nextLine()) as RateReport;
  }

  /** Opens connections; answers once all are open, with the report to come when the time is over. */
  async hold(
    target: { host: string; port: number },
    count: number,
    durationMs: number,
  ): Promise<{ held: number; report: Promise<HoldReport> }> {
    this.#send({ kind: 'hold', ...target, count, durationMs });
    const { held } = (await this.#nextLine()) as { held: number };
    return { held, report: this.#nextLine() as Promise<HoldReport> };
  }

  #send(task: Task): void {
    this.#child.stdin?.write(`${JSON.stringify(task)}\n`);
  }

  #nextLine(): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const onExit = () => {
        reject(new Error(`the client at ${this.name} ended`));
      };
      this.#child.once('exit', onExit);
      this.#lines.once('line', (line) => {
        this.#child.off('exit', onExit);
        resolve(JSON.parse(line));
      });
    });
  }
}
