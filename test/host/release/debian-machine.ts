import { type ChildProcess, spawn } from 'node:child_process';
import { prepareBases } from '../../support/image/build.ts';
import { mkdtempSync, copyFileSync, rmSync, openSync, readFileSync } from 'node:fs';
import { join, basename } from 'node:path';
import { tmpdir } from 'node:os';
import { execa } from 'execa';
import { rootFolder } from '../../../tools/lab/settings/folders.ts';
import { setTimeout as sleep } from 'node:timers/promises';

/** A base and packages, which come from registries when nothing is there yet, and a boot. */
export const bootLimitMs = 300_000;

interface Outcome {
  readonly exitCode: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

/** A fresh Debian with systemd as its first process. Files, processes, control groups and network are its own, in memory. */
export class DebianMachine {
  readonly #folder: string;
  readonly #child: ChildProcess;
  readonly #pid: number;

  private constructor(folder: string, child: ChildProcess, pid: number) {
    this.#folder = folder;
    this.#child = child;
    this.#pid = pid;
  }

  /** Boots one that has these packages of Debian, and waits until systemd has started all that it wants to. */
  static async boot(packages: readonly string[]): Promise<DebianMachine> {
    const { env, base } = await prepareBases();
    const folder = mkdtempSync(join(tmpdir(), 'vipnat-debian-'));
    const { stdout: container } = await execa('buildah', ['from', base], { env });
    try {
      const { stdout: source } = await execa('buildah', ['mount', container], { env });
      const words = [source, folder, basename(folder), 'systemd', 'systemd-sysv', ...packages];
      const child = spawnBoot(words, `${folder}.log`);
      const machine = new DebianMachine(folder, child, await waitForInit(child, `${folder}.log`));
      // It ends at once while systemd does not listen yet.
      const ask = () => machine.run('systemctl is-system-running --wait');
      while (!/^(running|degraded)$/m.test((await ask()).stdout)) await sleep(200);
      return machine;
    } finally {
      await execa('buildah', ['rm', container], { env });
    }
  }

  async run(script: string): Promise<Outcome> {
    return await this.#enter(['--net'], script);
  }

  /** The same with the network of the machine that runs the tests, where registries are. */
  async runOnline(script: string): Promise<Outcome> {
    return await this.#enter([], script);
  }

  /** What a script prints, each of whose commands has to end well. */
  async print(script: string): Promise<string> {
    const { exitCode, stdout, stderr } = await this.run(`set -e; ${script}`);
    if (exitCode !== 0) throw new Error(`${script} ended with ${exitCode}:\n${stdout}\n${stderr}`);
    return stdout;
  }

  /** Copies a file into the folder /root. */
  put(file: string): void {
    copyFileSync(file, `/proc/${this.#pid}/root/root/${basename(file)}`);
  }

  async end(): Promise<void> {
    // By a signal that unshare does not keep from itself: the kernel ends the first process, and all with it.
    this.#child.kill('SIGKILL');
    const group = basename(this.#folder);
    const groups = `/sys/fs/cgroup/${group} /sys/fs/cgroup/systemd/${group} /sys/fs/cgroup/unified/${group}`;
    const remove = `for _ in $(seq 50); do find ${groups} -depth -type d -exec rmdir {} + 2>/dev/null; [ -n "$(ls -d ${groups} 2>/dev/null)" ] || break; sleep 0.1; done`;
    await execa('bash', ['-c', remove], { reject: false });
    rmSync(this.#folder, { recursive: true });
    rmSync(`${this.#folder}.log`);
  }

  async #enter(more: readonly string[], script: string): Promise<Outcome> {
    const spaces = ['--mount', '--pid', '--uts', '--ipc', '--cgroup', ...more];
    const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root', DEBIAN_FRONTEND: 'noninteractive' };
    const words = ['--target', String(this.#pid), ...spaces, 'bash', '-c', `cd /root; ${script}`];
    const result = await execa('nsenter', words, { env, extendEnv: false, reject: false, stdin: 'ignore' });
    return { exitCode: result.exitCode, stdout: result.stdout, stderr: result.stderr };
  }
}

/** It ends with whoever runs the tests, however they end. */
function spawnBoot(words: readonly string[], log: string): ChildProcess {
  const output = openSync(log, 'w');
  const boot = join(rootFolder, 'test/host/release/boot');
  return spawn('setpriv', ['--pdeathsig', 'KILL', boot, ...words], { stdio: ['ignore', output, output] });
}

/** The first process, by its number here. */
async function waitForInit(child: ChildProcess, log: string): Promise<number> {
  for (;;) {
    if (child.exitCode !== null) throw new Error(`no Debian boots here:\n${readFileSync(log, 'utf8')}`);
    const [init] = listChildren(child.pid ?? 0);
    if (init !== undefined && readFileSync(`/proc/${init}/comm`, 'utf8') === 'systemd\n') return init;
    await sleep(100);
  }
}

function listChildren(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return text === '' ? [] : text.split(' ').map(Number);
}
