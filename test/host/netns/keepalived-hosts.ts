import type { Cluster } from '../../support/network/cluster.ts';
import { vips } from '../../support/network/layout.ts';
import { vipnat } from '../../support/host/vipnat.ts';
import { join } from 'node:path';
import { mkdirSync, writeFileSync, readFileSync } from 'node:fs';
import type { ChildProcess } from 'node:child_process';
import { prompt } from '../../support/host/keepalived.ts';
import { waitUntil } from '../../support/jest/waiting.ts';
import { families } from '../../../lib/net.ts';
import { locateDisk } from '../../support/network/namespaces.ts';

/** Real keepalived, configured as `vipnat keepalived` prints it, on masters of a cluster whose first one had the VIPs by hand. */
export class KeepalivedHosts {
  readonly #cluster: Cluster;
  readonly #args: readonly string[];

  /** `args` are those of the agents, with the VIPs of both families. */
  constructor(cluster: Cluster, args: readonly string[]) {
    this.#cluster = cluster;
    this.#args = args;
  }

  /** Takes the VIPs away that were put there by hand, and writes the configuration. */
  async prepare(name: string): Promise<void> {
    for (const vip of [`${vips.ipv4}/32`, `${vips.ipv6}/128`])
      await this.#shell(name, `ip addr del ${vip} dev eth0 2>/dev/null || true`);
    const { stdout } = await vipnat(this.#cluster, name, ['keepalived', ...this.#args]);
    if (!stdout.includes(vips.ipv6)) throw new Error(`vipnat keepalived printed: ${stdout}`);
    for (const folder of [this.#locate(name, ''), join(this.#disk(name), 'run/keepalived')])
      mkdirSync(folder, { recursive: true });
    writeFileSync(this.#locate(name, 'keepalived.conf'), `${stdout}\n`);
  }

  start(name: string): ChildProcess {
    const files = { '-f': 'keepalived.conf', '-p': 'main.pid', '-r': 'vrrp.pid' };
    const words = Object.entries(files).flatMap(([flag, file]) => [flag, this.#locate(name, file)]);
    return this.#cluster.start(name, [...prompt, 'keepalived', '-n', '-l', ...words]);
  }

  /** Until it waits for the holder of both VIPs to fall silent. */
  async waitForBackup({ stdout, stderr }: ChildProcess): Promise<void> {
    let log = '';
    for (const stream of [stdout, stderr]) stream?.on('data', (text: Buffer) => (log += text.toString()));
    await waitUntil(
      () => [...log.matchAll(/Entering BACKUP STATE/g)].length >= families.length,
      'keepalived is no backup',
    );
  }

  /**
   * As a machine's memory runs out: both of its processes, and neither has a moment to do anything about the other. The child
   * would end in order when its parent is gone (PR_SET_PDEATHSIG), and the parent would start another child.
   */
  kill(name: string): void {
    const [main = 0, vrrp = 0] = ['main.pid', 'vrrp.pid'].map((file) =>
      Number(readFileSync(this.#locate(name, file), 'utf8')),
    );
    process.kill(main, 'SIGSTOP');
    process.kill(vrrp, 'SIGKILL');
    process.kill(main, 'SIGKILL');
  }

  async waitForVips(name: string, isThere = true): Promise<void> {
    await waitUntil(
      async () => {
        const text = await this.#shell(name, 'ip -o addr show dev eth0');
        return families.every((family) => text.includes(` ${vips[family]}/`) === isThere);
      },
      `the VIPs ${isThere ? 'do not come to' : 'do not leave'} ${name}`,
    );
  }

  #disk(name: string): string {
    return locateDisk(this.#cluster.namespaceOf(name));
  }

  #locate(name: string, file: string): string {
    return join(this.#disk(name), 'keepalived', file);
  }

  #shell(name: string, script: string): Promise<string> {
    return this.#cluster.shell(name, script);
  }
}
