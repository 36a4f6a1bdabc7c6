import { fileURLToPath } from 'node:url';
import { type Namespaces, locateDisk } from '../../support/network/namespaces.ts';
import type { ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { execa } from 'execa';
import type { SeatsOrder } from './service-seats-child.ts';
import { once } from 'node:events';
import { waitUntil } from '../../support/jest/waiting.ts';
import { existsSync, readFileSync } from 'node:fs';
import { prompt } from '../../support/host/keepalived.ts';

const program = fileURLToPath(new URL('service-seats-child.ts', import.meta.url));

interface Told {
  readonly state?: {
    readonly held: readonly string[];
    readonly inUse: readonly string[];
    readonly announced: string | null;
  };
  readonly level?: string;
  readonly message?: string;
}

/** A node with the seats of a balancer, and a keepalived beside it. */
export class SeatNode {
  readonly name: string;
  /** How fast the clock of what keeps the seats runs: keepalived's does as usual. */
  speed = 1;
  readonly #namespaces: Namespaces;
  readonly #namespace: string;
  #seats: ChildProcess | null = null;
  #keepalived: ChildProcess | null = null;
  #keepalivedLog = '';
  readonly told: Told[] = [];

  constructor(name: string, namespaces: Namespaces, namespace: string) {
    this.name = name;
    this.#namespaces = namespaces;
    this.#namespace = namespace;
  }

  /** The path of a file in the folder that both share. */
  locate(file: string): string {
    return join(locateDisk(this.#namespace), 'lb', file);
  }

  /** Starts what keeps the seats, by a command that starts another one if need be. */
  startSeats(prefix: readonly string[] = []): void {
    const own = [program, this.name, this.locate('').replace(/\/$/, '')];
    const command = [...prefix, process.execPath, '--disable-warning=ExperimentalWarning', ...own];
    const child = this.#namespaces.start(this.#namespace, command);
    child.stderr?.on('data', (text: Buffer) => process.stderr.write(text));
    if (child.stdout !== null)
      createInterface({ input: child.stdout }).on('line', (line) => this.told.push(JSON.parse(line) as Told));
    this.#seats = child;
  }

  /** Runs a script where its files are as it sees them. */
  async shellAsSeats(script: string): Promise<string> {
    const words = ['--mount', '--target', String(this.#seats?.pid), 'sh', '-ec', script];
    return (await execa('nsenter', words)).stdout;
  }

  order(order: SeatsOrder): void {
    this.#seats?.stdin?.write(`${JSON.stringify(order)}\n`);
  }

  async killSeats(): Promise<void> {
    const child = this.#seats;
    this.#seats = null;
    if (child === null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  /** Has it hang: nothing of it ends. */
  stopSeats(): void {
    this.#seats?.kill('SIGSTOP');
  }

  /** As the manifest starts it, once the file is there. */
  async startKeepalived(): Promise<void> {
    await waitUntil(() => existsSync(this.locate('keepalived.conf')), `${this.name} has no keepalived.conf`);
    const [pid, vrrpPid] = ['keepalived.pid', 'vrrp.pid'].map((file) => this.locate(file));
    const command = `rm -f ${pid} ${vrrpPid}; exec ${prompt.join(' ')} keepalived --vrrp --dont-fork --log-console --use-file ${this.locate('keepalived.conf')} --pid ${pid} --vrrp_pid ${vrrpPid}`;
    const child = this.#namespaces.start(this.#namespace, ['sh', '-c', command]);
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (text: Buffer) => (this.#keepalivedLog += text.toString()));
    this.#keepalived = child;
  }

  /** Stops both of its processes, or has them go on. */
  signalKeepalived(signal: NodeJS.Signals): void {
    for (const file of ['keepalived.pid', 'vrrp.pid'])
      process.kill(Number(readFileSync(this.locate(file), 'utf8')), signal);
  }

  /** Both processes at once: the parent would end in order without its child, and start another. */
  async killKeepalived(): Promise<void> {
    const child = this.#keepalived;
    if (child === null) return;
    const ended = once(child, 'exit');
    const [main = 0, vrrp = 0] = ['keepalived.pid', 'vrrp.pid'].map((file) =>
      Number(readFileSync(this.locate(file), 'utf8')),
    );
    process.kill(main, 'SIGSTOP');
    process.kill(vrrp, 'SIGKILL');
    process.kill(main, 'SIGKILL');
    await ended;
    this.#keepalived = null;
  }

  /** As a pod that is replaced: keepalived gives up what it holds, and ends. */
  async stopKeepalived(): Promise<void> {
    const child = this.#keepalived;
    if (child === null) return;
    const ended = once(child, 'exit');
    process.kill(Number(readFileSync(this.locate('keepalived.pid'), 'utf8')), 'SIGTERM');
    await ended;
    this.#keepalived = null;
  }

  countTransitions(): number {
    return [...this.#keepalivedLog.matchAll(/Entering \w+ STATE/g)].length;
  }

  get keepalivedLog(): string {
    return this.#keepalivedLog;
  }

  get held(): readonly string[] {
    return this.told.findLast(({ state }) => state !== undefined)?.state?.held ?? [];
  }

  /** The addresses that it says another host has. */
  get inUse(): readonly string[] {
    return this.told.findLast(({ state }) => state !== undefined)?.state?.inUse ?? [];
  }

  /** Up to which version it says that its interface has all addresses of these. */
  get announced(): string | null {
    return this.told.findLast(({ state }) => state !== undefined)?.state?.announced ?? null;
  }

  /** Virtual addresses on its interface, and anchors on lo, as the kernel has them; sorted. */
  async listAddresses(): Promise<string[]> {
    const text = await this.shell('ip -o addr show');
    return [...text.matchAll(/inet6? (\S+)\/(?:32|128) /g)]
      .map(([, address = '']) => address)
      .filter((address) => address !== '::1')
      .sort();
  }

  async shell(script: string): Promise<string> {
    return await this.#namespaces.shell(this.#namespace, script);
  }
}
