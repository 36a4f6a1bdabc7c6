import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { execa } from 'execa';
import { keepEvidence, keepOutput } from '../jest/evidence.ts';
import { atEnd, namePattern } from './at-end.ts';
import { maxWaitMs, WaitedTooLong } from '../jest/waiting.ts';
import { closeMounts, enterMounts, openMounts } from './host-mounts.ts';
import { networkCommand } from './namespace-evidence.ts';

/** Where iproute2 keeps its named network namespaces. */
const folder = '/run/netns';

export interface CommandResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** How a command is run: with an empty standard input, and for as long as nothing hangs, unless told otherwise. */
export interface RunOptions {
  readonly input?: string;
  readonly environment?: Record<string, string>;
  readonly limitMs?: number;
}

/**
 * Runs a command to its end. Never rejects for a failing command, see `exitCode`; nor for one that is ended at a limit of its own. One
 * that hangs is ended, too, and rejects with WaitedTooLong.
 */
export async function runCommand(
  tool: string,
  words: readonly string[],
  { input = '', environment = {}, limitMs }: RunOptions,
): Promise<CommandResult> {
  const result = await execa(tool, words, {
    input,
    env: environment,
    timeout: limitMs ?? maxWaitMs,
    reject: false,
  });
  if (result.timedOut && limitMs === undefined)
    throw new WaitedTooLong(`${tool} ${words.join(' ')} does not end: ${result.stderr}`);
  return { exitCode: result.exitCode ?? -1, stdout: result.stdout, stderr: result.stderr };
}

/**
 * Network namespaces of one run, each with a /run of its own as a host has, and the processes in them. Everything goes away with
 * `close()`, when the process exits, and on SIGINT or SIGTERM; what a killed run left behind goes when the next one starts.
 */
export class Namespaces {
  readonly #prefix = `vipnat-${process.pid}-${randomBytes(2).toString('hex')}`;
  readonly #nameToMounts = new Map<string, number | null>();
  readonly #children = new Set<ChildProcess>();
  readonly #evidence: (() => void)[] = [];
  readonly #takeBack: () => void;

  constructor() {
    removeAbandoned();
    this.#takeBack = atEnd(() => {
      this.#removeNow();
    });
  }

  /** Creates a namespace; answers its full name. */
  async create(name: string): Promise<string> {
    const full = `${this.#prefix}-${name}`;
    this.#nameToMounts.set(full, this.#nameToMounts.get(full) ?? null);
    await execa('ip', ['netns', 'add', full]);
    this.#nameToMounts.set(full, await openMounts(full));
    this.#evidence.push(keepEvidence(name, async () => (await this.run(full, networkCommand)).stdout));
    return full;
  }

  /** Runs a command in a namespace to its end. Never rejects for a failing command, see `exitCode`. */
  async run(namespace: string, command: readonly string[], options: RunOptions = {}): Promise<CommandResult> {
    const environment = { ...locateState(namespace), ...options.environment };
    const [tool = '', ...words] = this.#enter(namespace, command);
    return runCommand(tool, words, { ...options, environment });
  }

  /** Runs a shell script in a namespace; rejects with what it printed when it fails. */
  async shell(namespace: string, script: string): Promise<string> {
    const { exitCode, stdout, stderr } = await this.run(namespace, ['sh', '-e', '-s'], { input: script });
    if (exitCode !== 0) throw new Error(`in ${namespace}: exit status ${exitCode}: ${stderr}\n${script}`);
    return stdout;
  }

  /** Starts a process that lives until `close()` or until it is killed. Its pid is that of the command itself. */
  start(
    namespace: string,
    command: readonly string[],
    environment: NodeJS.ProcessEnv = process.env,
  ): ChildProcess {
    const [tool = '', ...words] = this.#enter(namespace, command);
    const child = spawn(tool, words, {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { ...locateState(namespace), ...environment },
    });
    keepOutput(nameProcess(namespace, command), child);
    this.#children.add(child);
    child.on('exit', () => this.#children.delete(child));
    return child;
  }

  /** Ends every process and removes every namespace of this run. */
  async close(): Promise<void> {
    const ends = [...this.#children].map((child) => new Promise((resolve) => child.once('exit', resolve)));
    for (const child of this.#children) child.kill('SIGKILL');
    await Promise.all(ends);
    this.#removeNow();
    this.#takeBack();
  }

  #enter(namespace: string, command: readonly string[]): string[] {
    const mounts = this.#nameToMounts.get(namespace) ?? null;
    if (mounts === null) throw new Error(`no such namespace: ${namespace}`);
    return [...enterMounts(join(folder, namespace), mounts), ...command];
  }

  #removeNow(): void {
    for (const child of this.#children) child.kill('SIGKILL');
    for (const [name, mounts] of this.#nameToMounts) {
      removeNamespace(name);
      if (mounts !== null) closeMounts(mounts);
    }
    this.#nameToMounts.clear();
    for (const takeBack of this.#evidence.splice(0)) takeBack();
  }
}

/** Removes the namespaces and folders of runs whose process is gone. */
function removeAbandoned(): void {
  for (const name of listNamespaces().filter(isAbandoned)) removeNamespace(name);
  for (const name of readdirSync(tmpdir()).filter(isAbandoned))
    rmSync(join(tmpdir(), name), { recursive: true, force: true });
}

function isAbandoned(name: string): boolean {
  const pid = Number(namePattern.exec(name)?.[1]);
  return pid > 0 && !isAlive(pid);
}

/** With the processes in it: a namespace lives on, nameless, as long as one does. */
function removeNamespace(name: string): void {
  const { stdout } = spawnSync('ip', ['netns', 'pids', name], { encoding: 'utf8' });
  for (const pid of stdout.split('\n').filter((line) => line !== '')) endProcess(Number(pid));
  spawnSync('ip', ['netns', 'delete', name]);
  rmSync(locateDisk(name), { recursive: true, force: true });
}

/** The folder of what a host keeps when it is restarted; it is not there until somebody writes. */
export function locateDisk(namespace: string): string {
  return join(tmpdir(), namespace);
}

/** An agent in a namespace sees the files of the machine: it must not find those of another host's. */
function locateState(namespace: string): Record<string, string> {
  const disk = locateDisk(namespace);
  return { VIPNAT_STATE_DIR: join(disk, 'vipnat'), VIPNAT_RUN_DIR: join(disk, 'run') };
}

/** For people: the machine, and the words that are no options, without folders. */
function nameProcess(namespace: string, command: readonly string[]): string {
  const words = command.filter((word) => !word.startsWith('-')).map((word) => basename(word));
  return [namespace.replace(/^vipnat-\d+-[0-9a-f]+-/, ''), ...words].join(' ');
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has just ended by itself.
  }
}

function listNamespaces(): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
