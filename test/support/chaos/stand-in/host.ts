import type { ChildProcess } from 'node:child_process';
import {
  type CommandResult,
  type Namespaces,
  runCommand,
  type RunOptions,
} from '../../network/namespaces.ts';

/** What an agent is told of a host's folders, which are the host's own. */
export const hostFolders = { VIPNAT_STATE_DIR: '/run/vipnat-state', VIPNAT_RUN_DIR: '/run/vipnat' } as const;

/** A state folder that can be full: what an agent keeps has a few hundred bytes. */
const stateBytes = 65_536;

/**
 * A host with files of its own: its /run, with the xtables lock in it, and its state folder, on a file system of its own that can be
 * filled and made read-only. Goes away with its namespace.
 */
export class Host {
  readonly name: string;
  readonly namespace: string;
  readonly #namespaces: Namespaces;
  readonly #mounts: number;
  readonly #lockHolders: ChildProcess[] = [];

  private constructor(name: string, namespace: string, namespaces: Namespaces, mounts: number) {
    this.name = name;
    this.namespace = namespace;
    this.#namespaces = namespaces;
    this.#mounts = mounts;
  }

  /** In a namespace that is there. */
  static async create(namespaces: Namespaces, name: string, namespace: string): Promise<Host> {
    // /dev/shm: libfaketime leaves files there when its process is killed.
    const mounts = `mount -t tmpfs tmpfs /run
      mount -t tmpfs tmpfs /dev/shm
      mkdir ${hostFolders.VIPNAT_STATE_DIR}
      mount -t tmpfs -o size=${stateBytes},mode=0755 tmpfs ${hostFolders.VIPNAT_STATE_DIR}
      ip link set lo up
      echo mounted
      exec sleep infinity`;
    const child = namespaces.start(namespace, ['unshare', '--mount', 'sh', '-ec', mounts]);
    await new Promise((resolve, reject) => {
      child.stdout?.once('data', resolve);
      child.once('exit', () => {
        reject(new Error(`${name} has no files of its own`));
      });
    });
    return new Host(name, namespace, namespaces, child.pid ?? 0);
  }

  run(command: readonly string[], { environment = {}, ...options }: RunOptions = {}): Promise<CommandResult> {
    const [tool = '', ...words] = this.#enter(['--net'], command, environment);
    return runCommand(tool, words, options);
  }

  /** Runs a shell script; rejects with what it printed when it fails. */
  async shell(script: string): Promise<string> {
    const { exitCode, stdout, stderr } = await this.run(['sh', '-e', '-s'], { input: script });
    if (exitCode !== 0) throw new Error(`on ${this.name}: exit status ${exitCode}: ${stderr}\n${script}`);
    return stdout;
  }

  start(command: readonly string[], environment: Readonly<Record<string, string>> = {}): ChildProcess {
    return this.#namespaces.start(this.namespace, this.#enter([], command, environment));
  }

  /** Holds the xtables lock for so long, or until `releaseLocks`. */
  holdLock(durationMs: number): void {
    const seconds = String(durationMs / 1000);
    this.#lockHolders.push(this.start(['flock', '--no-fork', '/run/xtables.lock', 'sleep', seconds]));
  }

  releaseLocks(): void {
    for (const holder of this.#lockHolders.splice(0)) holder.kill('SIGKILL');
  }

  /** The environment is the command's alone: those on the way to it need their own PATH. */
  #enter(
    kinds: readonly string[],
    command: readonly string[],
    environment: Readonly<Record<string, string>>,
  ): string[] {
    const variables = Object.entries(environment).map((pair) => pair.join('='));
    const setting = variables.length === 0 ? [] : ['env', ...variables];
    return ['nsenter', `--target=${this.#mounts}`, '--mount', ...kinds, '--', ...setting, ...command];
  }
}
