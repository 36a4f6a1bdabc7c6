import type { Machine, RunOptions, CommandResult } from './machine.ts';
import type { Sandbox } from './sandbox.ts';
import { execa } from 'execa';
import { constants } from 'node:os';
import { type ChildProcess, spawn } from 'node:child_process';

/** Its own /run and /var/lib: the xtables lock, named network namespaces (pods), keepalived's files and the agent's are one host's. */
const anchorScript = `
hostname "$0"
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mount -t sysfs sysfs /sys
ip link set lo up
echo $$
exec </dev/null >/dev/null 2>&1
exec sleep infinity
`;

/** The namespaces that a host has for itself, as nsenter's options, for the process that holds them. */
export type Namespaces = (anchor: number) => readonly string[];

const hostNamespaces: Namespaces = (anchor) => [`--target=${anchor}`, '--mount', '--net', '--uts'];

/** A host made of network, mount and UTS namespaces in a sandbox, or of more. Processes of those without a process namespace see each other. */
export class NamespaceMachine implements Machine {
  readonly name: string;
  /** The process that holds the namespaces, as numbered in the sandbox. */
  readonly anchor: number;
  readonly #sandbox: Sandbox;
  readonly #namespaces: Namespaces;

  /** One that exists already. */
  constructor(sandbox: Sandbox, name: string, anchor: number, namespaces: Namespaces = hostNamespaces) {
    this.#sandbox = sandbox;
    this.#namespaces = namespaces;
    this.name = name;
    this.anchor = anchor;
  }

  /** Makes one, with nothing but a loopback interface. */
  static async create(sandbox: Sandbox, name: string): Promise<NamespaceMachine> {
    const unshare = 'setsid unshare --net --mount --uts sh -ec "$1" "$0" &';
    const [program = '', ...words] = sandbox.enter(['sh', '-c', unshare, name, anchorScript]);
    const { stdout } = await execa(program, words);
    return new NamespaceMachine(sandbox, name, Number(stdout));
  }

  async run(command: readonly string[], options: RunOptions = {}): Promise<CommandResult> {
    const { input = '', environment = {}, limitMs = 60_000 } = options;
    // In there, because ending what is outside does not reach it.
    const limited = ['timeout', '--signal=KILL', String(limitMs / 1000), ...command];
    const [program = '', ...words] = this.#enter(limited);
    const result = await execa(program, words, { input, env: environment, reject: false });
    // Whoever waits for something in there would wait in vain.
    if (result.failed && this.#sandbox.isGone()) throw new Error(`${this.name} is gone: its lab has ended`);
    // nsenter ends by the signal that its command ended by.
    const signal = result.signal === undefined ? 0 : constants.signals[result.signal];
    return { exitCode: result.exitCode ?? 128 + signal, stdout: result.stdout, stderr: result.stderr };
  }

  spawn(command: readonly string[], stdio: 'pipe' | 'inherit' = 'pipe'): ChildProcess {
    const [program = '', ...words] = this.#enter(command);
    return spawn(program, words, { stdio: stdio === 'pipe' ? ['pipe', 'pipe', 'inherit'] : stdio });
  }

  #enter(command: readonly string[]): string[] {
    return this.#sandbox.enter(['nsenter', ...this.#namespaces(this.anchor), ...command]);
  }
}
