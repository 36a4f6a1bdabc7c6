import type { ObjectStore } from '../shared/service-writer.ts';
import type { Lab } from '../../lab/control-plane/lab.ts';
import { type Host, worker, apiserverPort } from '../../../test/support/network/layout.ts';
import type { Order } from '../shared/service-objects.ts';
import { LabError } from '../../lab/settings/error.ts';
import { waitUntil } from '../shared/wait.ts';
import type { ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { writeKubeconfig } from '../../lab/certificates/kubeconfig.ts';
import { locateProgram } from '../shared/go-program.ts';

const writeLimitMs = 180_000;

/** The objects of a lab, written from its worker to one apiserver: the one that no fault ends. */
export class LabObjects implements ObjectStore {
  readonly api: Lab['api'];
  readonly #lab: Lab;
  readonly #master: Host;

  constructor(lab: Lab, master: Host) {
    this.api = lab.api;
    this.#lab = lab;
    this.#master = master;
  }

  async write(orders: readonly Order[]): Promise<void> {
    const input = orders.map((order) => `${JSON.stringify(order)}\n`).join('');
    const options = { input, limitMs: writeLimitMs };
    const { exitCode, stderr } = await this.#lab.machine(worker.name).run(this.#command('write'), options);
    if (exitCode !== 0) throw new LabError(`objects were not written: ${stderr.slice(0, 1000)}`);
  }

  async waitFor(path: string): Promise<void> {
    await waitUntil(`there is ${path}`, async () => {
      const { code } = await this.api.ask({ method: 'GET', path });
      return code === 200;
    });
  }

  /** Starts what writes each object as soon as it is told. */
  stream(): ChildProcess {
    return this.#lab.machine(worker.name).spawn(this.#command('stream'));
  }

  /** The path of a kubeconfig that leads to the VIP, as nodes have it. */
  writeKubeconfig(): string {
    const { authority, admin } = this.#lab.certificates;
    const server = `https://${this.#lab.vip}:${apiserverPort}`;
    const path = join(this.#lab.folder, 'admin.kubeconfig');
    return writeKubeconfig(path, { server, authority, user: 'admin', pair: admin });
  }

  #command(word: string): string[] {
    const { authority, admin } = this.#lab.certificates;
    const server = `https://${this.#master.addresses.ipv4}:${apiserverPort}`;
    return [
      ...[locateProgram('services'), word, '-server', server, '-authority', authority],
      ...['-certificate', admin.certificate, '-key', admin.key],
    ];
  }
}
