import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import { TemporaryFolder } from '../../network/at-end.ts';
import type { CommandResult } from '../../network/namespaces.ts';
import { type Host, hostFolders } from './host.ts';
import { StateWatch } from './state-watch.ts';
import { type Moment, Tools } from './tools.ts';

/** Where Debian's libfaketime is, for both architectures. */
const fakeTimeLibraries = ['x86_64-linux-gnu', 'aarch64-linux-gnu'].map(
  (machine) => `/usr/lib/${machine}/faketime/libfaketime.so.1`,
);

/**
 * Its tools have the real clock. libfaketime guards its clock by a semaphore that all its processes share, and whoever is killed in
 * the wrong microsecond takes it along: then the agent itself would wait for it for ever.
 */
const ownClockOnly = 'data:text/javascript,delete%20process.env.LD_PRELOAD';

/** More than an agent ever has, and below the hard limit of every system (4096 where systemd sets none). */
const allDescriptors = 1024;

/** No measurement, but the end of a command that hangs. */
const commandLimitMs = 180_000;

/** Lines of the log that a person sees after a complaint. */
const toldLines = 60;

/** Somebody killed it: that it ended says nothing of it. */
type End = 'lives' | 'killed' | { readonly status: number | null; readonly signal: NodeJS.Signals | null };

/** An agent on a host, which is killed, paused, started again, and whose clock, tools, files and descriptors can be bad. */
export class AgentLife {
  readonly host: Host;
  readonly tools = new Tools();
  readonly #command: readonly string[];
  readonly #options: readonly string[];
  readonly #watch: StateWatch | null;
  readonly #folder = new TemporaryFolder('agent');
  #child: ChildProcess | null = null;
  #end: End = 'killed';
  lives = 0;
  #isArmed = false;
  #isPaused = false;
  #log = '';

  /** `command` is vipnat's program with its interpreter, `options` those of `vipnat run`. Does not start it. */
  constructor(host: Host, command: readonly string[], options: readonly string[], watchesState = false) {
    this.#watch = watchesState ? new StateWatch() : null;
    this.host = host;
    this.#command = command;
    this.#options = options;
    this.setClock(0);
  }

  /** Whether it runs, and for all it knows will go on. */
  get isAlive(): boolean {
    return this.#end === 'lives';
  }

  /** Whether it lives and has said that it runs: before that it may lack what it reads, or be overtaken by another one. */
  get isUp(): boolean {
    const pid = this.#child?.pid;
    return this.isAlive && pid !== undefined && this.#log.includes(` runs, pid ${pid}\n`);
  }

  /** The end of all that it logged, in all its lives. */
  get logTail(): string {
    return this.#log.split('\n').slice(-toldLines).join('\n');
  }

  /** What it and its tools do now, a line each: pid, state, where in the kernel it waits, command. */
  get processes(): string {
    return listProcesses(this.isAlive ? this.#child?.pid : undefined).join('\n');
  }

  /** Starts it unless it lives; does not wait for anything. */
  start(): void {
    if (this.isAlive) return;
    this.#end = 'lives';
    this.lives += 1;
    const child = this.host.start(
      [...(this.#watch?.wrapper ?? []), ...this.#command, 'run', ...this.#options],
      this.#environment,
    );
    this.#child = child;
    this.#log += `--- started as ${child.pid ?? 'nobody'}\n`;
    child.stderr?.on('data', (text: Buffer) => (this.#log += text.toString()));
    child.once('exit', (status, signal) => {
      this.#log += `--- ended: ${String(status ?? signal)}\n`;
      if (this.#child !== child) return;
      // A tool that was told to has killed it, maybe one that was started long before.
      this.#end = signal === 'SIGKILL' ? 'killed' : { status, signal };
    });
  }

  /** Ends it; answers its status once it is gone. */
  async end(signal: 'SIGKILL' | 'SIGTERM'): Promise<number | null> {
    const child = this.#child;
    if (child === null || !this.isAlive) return null;
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
    this.#child = null;
    this.#end = 'killed';
    child.kill(signal);
    return ended;
  }

  /** The next tool of the kind kills it. */
  armTool(moment: Moment): void {
    this.#isArmed = true;
    this.tools.arm(moment);
  }

  /** Whether it cannot be expected to answer now: not up yet, paused, or its next tool kills it. */
  get isHindered(): boolean {
    return !this.isUp || this.#isPaused || this.#isArmed;
  }

  /** Stops its process for so long, or until there is calm. */
  pause(durationMs: number): void {
    const child = this.#child;
    this.#isPaused = true;
    child?.kill('SIGSTOP');
    setTimeout(() => {
      this.#isPaused = false;
      child?.kill('SIGCONT');
    }, durationMs).unref();
  }

  setClock(offsetSeconds: number): void {
    writeFileSync(this.#clockFile, `${offsetSeconds < 0 ? '' : '+'}${offsetSeconds}\n`);
  }

  /** Leaves it no descriptor but those that it has; nothing while it starts: without any it cannot load its program, and ends. */
  async exhaustDescriptors(): Promise<void> {
    const pid = this.#child?.pid;
    if (pid === undefined || !this.isUp) return;
    try {
      const open = readdirSync(`/proc/${pid}/fd`).length;
      await execa('prlimit', [`--pid=${pid}`, `--nofile=${open}:`], { reject: false });
    } catch {
      // It has just been killed by a tool.
    }
  }

  /** Ends what does not end by itself, and starts it where it is dead. */
  async calm(): Promise<void> {
    this.tools.repair();
    this.setClock(0);
    this.#child?.kill('SIGCONT');
    this.#isPaused = false;
    this.#isArmed = false;
    const pid = this.#child?.pid;
    if (pid !== undefined && this.isAlive)
      await execa('prlimit', [`--pid=${pid}`, `--nofile=${allDescriptors}:`], { reject: false });
    if (this.#end === 'killed') this.start();
  }

  /** Says how it ended when nobody ended it, once; it is started again by `calm` then. */
  takeOwnEnd(): string | null {
    const end = this.#end;
    if (typeof end === 'string') return null;
    this.#end = 'killed';
    return `${this.host.name}: the agent ended by itself: ${String(end.status ?? end.signal)}`;
  }

  /** Runs one of vipnat's commands with its options, beside it. */
  command(name: string, options: readonly string[] = this.#options): Promise<CommandResult> {
    const environment = { ...hostFolders, PATH: this.tools.path };
    return this.host.run([...this.#command, name, ...options], { environment, limitMs: commandLimitMs });
  }

  /** Starts a second one beside it, and tells it to end as soon as it has said that it waits, or that it runs. */
  async runSecond(): Promise<Pick<CommandResult, 'exitCode' | 'stderr'>> {
    const environment = { ...hostFolders, PATH: this.tools.path };
    return endOnceSaid(this.host.start([...this.#command, 'run', ...this.#options], environment));
  }

  /** How it replaced its state in a way that a power failure shows, a sentence each; none where that is not watched. */
  listUnsafeWrites(): string[] {
    return this.#watch?.listUnsafe() ?? [];
  }

  /** Removes its files; it must be gone. */
  remove(): void {
    this.#watch?.remove();
    this.tools.remove();
    this.#folder.remove();
  }

  get #clockFile(): string {
    return join(this.#folder.path, 'clock');
  }

  get #environment(): Record<string, string> {
    const library = fakeTimeLibraries.find((file) => existsSync(file));
    if (library === undefined) throw new Error('libfaketime is not here (Debian package faketime)');
    return {
      ...hostFolders,
      PATH: this.tools.path,
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: this.#clockFile,
      FAKETIME_CACHE_DURATION: '1',
      // A wall clock jumps, the others never do.
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      NODE_OPTIONS: `--import=${ownClockOnly}`,
    };
  }
}

/** Ends an agent in order; answers how it ended, and what it logged. */
async function endOnceSaid(child: ChildProcess): Promise<{ exitCode: number; stderr: string }> {
  let stderr = '';
  let isReported = false;
  const limit = setTimeout(() => child.kill('SIGKILL'), commandLimitMs);
  child.stderr?.on('data', (text: Buffer) => {
    stderr += text.toString();
    // A second signal would not let it end in order.
    if (isReported || !/ (?:waiting for another agent|runs, pid) /.test(stderr)) return;
    isReported = true;
    child.kill('SIGTERM');
  });
  const [status] = (await once(child, 'close')) as [number | null];
  clearTimeout(limit);
  return { exitCode: status ?? 137, stderr };
}

function listProcesses(pid: number | undefined): string[] {
  if (pid === undefined) return ['no process'];
  const read = (file: string) => readFileSync(`/proc/${pid}/${file}`, 'utf8');
  try {
    const state = read('stat')
      .replace(/^.*\) /s, '')
      .slice(0, 1);
    const line = [pid, state, read('wchan'), read('cmdline').replaceAll('\0', ' ').trim()].join(' ');
    const children = readdirSync(`/proc/${pid}/task`).flatMap((task) =>
      read(`task/${task}/children`).split(' ').filter(Boolean).map(Number),
    );
    return [line, ...children.flatMap(listProcesses)];
  } catch {
    return [`${pid} is gone`];
  }
}
