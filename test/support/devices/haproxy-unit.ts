import { promisify } from 'node:util';
import { execFile, type ChildProcess, spawn } from 'node:child_process';
import type { DeviceSettings } from '../../../devices/driver.ts';
import { TemporaryFolder } from '../network/at-end.ts';
import { type UnitFolders, configureUnit } from '../../../devices/haproxy/configuration.ts';
import { join, basename } from 'node:path';
import { mkdir, writeFile, rm } from 'node:fs/promises';
import { parseRange } from '../../../lib/net.ts';
import { waitUntil } from '../jest/waiting.ts';
import { connect } from 'node:net';

const run = promisify(execFile);

interface HaproxyUnitOptions {
  readonly settings: DeviceSettings;
  readonly addresses: readonly string[];
  readonly at: number;
  /** A certificate and its key, as PEM. */
  readonly tls: string;
  /** The words in front of HAProxy that run it on the unit's host; none where that is this one. */
  readonly enter?: readonly string[];
}

/** A real HAProxy with the files that vipnat prints, in folders of its own. What systemd and keepalived would do, a test does. */
export class HaproxyUnit {
  readonly keepalived: string;
  readonly #root: TemporaryFolder;
  readonly #enter: readonly string[];
  readonly #folders: UnitFolders;
  #process: ChildProcess | null = null;

  private constructor(enter: readonly string[]) {
    this.#root = new TemporaryFolder('haproxy');
    this.#enter = enter;
    const [configuration, state, inRun] = ['etc', 'state', 'run'].map((name) => join(this.#root.path, name));
    const script = join(this.#root.path, 'vipnat-haproxy');
    this.#folders = { configuration, state, run: inRun, script } as UnitFolders;
    this.keepalived = join(this.#root.path, 'keepalived.conf');
  }

  static async make(options: HaproxyUnitOptions): Promise<HaproxyUnit> {
    const { settings, addresses, at, tls, enter = [] } = options;
    const unit = new HaproxyUnit(enter);
    const { path: root } = unit.#root;
    // The worker, which is not root, opens the socket there.
    await run('chmod', ['755', root]);
    const { configuration, state, run: inRun } = unit.#folders;
    for (const folder of [configuration, state, inRun]) await mkdir(folder);
    const ranges = addresses.flatMap((text) => parseRange(text) ?? []);
    for (const { path, text, mode } of configureUnit(settings, ranges, at, unit.#folders)) {
      const file = path.startsWith(root) ? path : join(root, basename(path));
      await writeFile(file, text, { mode: Number.parseInt(mode, 8) });
    }
    await writeFile(join(configuration, 'tls.pem'), tls);
    return unit;
  }

  /** As the unit of systemd does. */
  async start(): Promise<void> {
    const { configuration, run: inRun } = this.#folders;
    await this.script('prepare');
    // A group of its own: a crash ends the master and its workers.
    const files = ['-f', join(configuration, 'haproxy.cfg'), '-p', join(inRun, 'pid')];
    const [tool = '', ...words] = [...this.#enter, 'haproxy', '-W', ...files];
    const started = spawn(tool, words, { stdio: 'ignore', detached: true });
    this.#process = started;
    await waitUntil(async () => {
      if (started.exitCode !== null) throw new Error(`HAProxy has ended with ${started.exitCode}`);
      return await this.ask('show info').then(
        () => true,
        () => false,
      );
    }, 'HAProxy does not answer');
    await this.script('loaded');
  }

  /** In order: what it has is saved. */
  async stop(): Promise<void> {
    await this.script('save');
    await this.#end('SIGTERM');
  }

  /** Its host starts again an hour after it stopped, with a clock that has stood still meanwhile. */
  async restartHost(): Promise<void> {
    await this.stop();
    await rm(this.#folders.run, { recursive: true });
    await this.start();
  }

  async blockSaving(): Promise<void> {
    await mkdir(join(this.#folders.state, 'servers.state.new'));
  }

  async crash(): Promise<void> {
    await this.#end('SIGKILL');
  }

  async reload(): Promise<void> {
    await this.script('reload', String(this.#process?.pid));
  }

  /** It takes connections and answers nothing, until `SIGCONT`. */
  signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    process.kill(-(this.#process?.pid ?? 0), name);
  }

  /** As keepalived does when it changes the role. */
  async setRole(role: 'active' | 'standby'): Promise<void> {
    await this.script('notify', 'INSTANCE', 'vipnat_haproxy', role === 'active' ? 'MASTER' : 'BACKUP', '100');
  }

  async script(...args: readonly string[]): Promise<void> {
    await run(this.#folders.script, args);
  }

  /** What the runtime interface answers to commands. */
  async ask(...commands: readonly string[]): Promise<string> {
    const socket = connect(join(this.#folders.run, 'admin.sock'));
    socket.end(`${commands.join(';')}\n`);
    const parts: Buffer[] = [];
    for await (const part of socket as AsyncIterable<Buffer>) parts.push(part);
    return Buffer.concat(parts).toString();
  }

  /** What a driver can change there, without what changes by itself. */
  async listObjects(): Promise<readonly string[]> {
    const text = await this.ask(
      'show map vipnat-owners.map',
      'show map vipnat-frontends.map',
      'show servers state',
    );
    return text.split('\n').flatMap((line) => {
      if (line.startsWith('0x')) return [line.replace(/^\S+ /, '')];
      const [, slot = '', , , address = '', , admin = '', weight = ''] = line.split(' ');
      const port = line.split(' ')[18];
      if (!/^vipnat_(?:rr|lc|hash)_/.test(slot) || (address === '192.0.2.1' && port === '1')) return [];
      return [`${slot} ${address}:${port} admin ${admin} weight ${weight}`];
    });
  }

  async remove(): Promise<void> {
    await this.#end('SIGKILL');
    this.#root.remove();
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const ended = this.#process;
    this.#process = null;
    if (ended?.pid === undefined || ended.exitCode !== null || ended.signalCode !== null) return;
    const exit = new Promise((resolve) => ended.once('exit', resolve));
    if (signal === 'SIGTERM') ended.kill(signal);
    else process.kill(-ended.pid, signal);
    await exit;
    await this.script('ended');
  }
}
