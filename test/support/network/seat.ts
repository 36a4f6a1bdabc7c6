import { fileURLToPath } from 'node:url';
import type { ChildProcess } from 'node:child_process';
import { keepOutput } from '../jest/evidence.ts';
import { createInterface } from 'node:readline';
import {
  requestLimitMs,
  type RequestReport,
  type Target,
  type HoldTask,
  type HoldReport,
  type ConnectTask,
  type ConnectReport,
  type WatchTask,
  type WatchReport,
  type WriteTask,
  type Task,
  type Word,
} from './seat-tasks.ts';
import type { WatchesTask, WatchesReport } from './seat-watches.ts';

const program = fileURLToPath(new URL('seat-program.ts', import.meta.url));

/** A place from which the control plane is used: a client process in a namespace, one task at a time. */
export class Seat {
  readonly name: string;
  readonly #child: ChildProcess;
  /** What it prints, line by line: those too that come before they are asked for. */
  readonly #lines: AsyncIterator<string, undefined>;

  /** The program to start at the place; it ends with its standard input. */
  static readonly command: readonly string[] = [process.execPath, program];

  /** At a place of this name, where `Seat.command` was started with pipes. */
  constructor(name: string, child: ChildProcess) {
    this.name = name;
    this.#child = child;
    keepOutput(`seat ${name}`, child);
    this.#child.stderr?.on('data', (text: Buffer) => process.stderr.write(text));
    if (this.#child.stdout === null) throw new Error('a seat needs its standard output');
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  /** New connections, 8 at a time; what takes longer than `limitMs` has failed. Where requests shall be lost, a short limit saves time. */
  async request(
    host: string,
    port: number,
    count: number,
    limitMs: number = requestLimitMs,
  ): Promise<RequestReport> {
    return await this.#ask<RequestReport>({ kind: 'requests', host, port, count, concurrency: 8, limitMs });
  }

  /** New plain connections to the apiservers of the miniature cluster: far cheaper ones, all at once, each from a port of its own. */
  async greet(
    host: string,
    port: number,
    count: number,
    limitMs: number = requestLimitMs,
  ): Promise<RequestReport> {
    const how = { concurrency: count, isPlain: true, limitMs };
    return await this.#ask<RequestReport>({ kind: 'requests', host, port, count, ...how });
  }

  /** New connections from one of the place's addresses. */
  async requestFrom(from: string, host: string, port: number, count: number): Promise<RequestReport> {
    return await this.#ask<RequestReport>({ kind: 'requests', host, port, count, concurrency: 8, from });
  }

  /** Opens connections; answers once all are open, with the report to come when the time is over. */
  async hold(
    target: Target & Pick<HoldTask, 'intervalMs'>,
    count: number,
    durationMs: number,
  ): Promise<{ held: number; report: Promise<HoldReport> }> {
    this.#send({ kind: 'hold', ...target, count, durationMs });
    const { held } = (await this.#nextLine()) as { held: number };
    return { held, report: this.#nextLine() as Promise<HoldReport> };
  }

  async connectAtRate(task: Omit<ConnectTask, 'kind'>): Promise<ConnectReport> {
    return await this.#ask<ConnectReport>({ kind: 'connects', ...task });
  }

  /** Watches; answers once the first event is there, with the report to come when the time from then on is over. Rejects when none comes within a minute. */
  async watch(task: Omit<WatchTask, 'kind'>): Promise<{ report: Promise<WatchReport> }> {
    this.#send({ kind: 'watch', ...task });
    const first = await this.#nextLine();
    if (first !== 'watching') throw new Error(`no watch began at ${this.name}: ${JSON.stringify(first)}`);
    return { report: this.#nextLine() as Promise<WatchReport> };
  }

  /** Watches over many connections; answers once each had its first event, with the report to come at the end. */
  async watchTogether(task: Omit<WatchesTask, 'kind'>): Promise<{ report: Promise<WatchesReport> }> {
    this.#send({ kind: 'watches', ...task });
    await this.#nextLine();
    return { report: this.#nextLine() as Promise<WatchesReport> };
  }

  /**
   * Ends the task under way as soon as there is nothing left to see: connections at a steady rate when none failed
   * or was slow for 2.5 s, watches when the awaited ones know of their end, held ones at once. Its report comes then.
   */
  settle(): void {
    this.#send({ kind: 'settle' });
  }

  /** Ends the silence of the silent ones among the watches under way. */
  speak(): void {
    this.#send({ kind: 'speak' });
  }

  /** Writes; answers how many writes succeeded. */
  async write(task: Omit<WriteTask, 'kind'>): Promise<{ written: number }> {
    return await this.#ask<{ written: number }>({ kind: 'write', ...task });
  }

  close(): void {
    this.#child.stdin?.end();
  }

  async #ask<Report>(task: Task): Promise<Report> {
    this.#send(task);
    return (await this.#nextLine()) as Report;
  }

  #send(task: Task | Word): void {
    this.#child.stdin?.write(`${JSON.stringify(task)}\n`);
  }

  async #nextLine(): Promise<unknown> {
    const { value } = await this.#lines.next();
    if (value === undefined) throw new Error(`the client at ${this.name} ended`);
    return JSON.parse(value);
  }
}
