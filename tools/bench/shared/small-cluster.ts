import { ApiCluster } from '../../lab/control-plane/api-cluster.ts';
import type { Order } from './service-objects.ts';
import { LabError } from '../../lab/settings/error.ts';
import type { ChildProcess } from 'node:child_process';
import { locateProgram } from './go-program.ts';
import type { Host } from '../../../test/support/network/layout.ts';

const writeLimitMs = 180_000;

/** A cluster with many objects, which the bench's own program writes and follows. */
export class SmallCluster extends ApiCluster {
  /**
   * Writes objects, as the administrator.
   * @throws LabError with what the API does not take.
   */
  async write(orders: readonly Order[]): Promise<void> {
    const input = orders.map((order) => `${JSON.stringify(order)}\n`).join('');
    const command = this.#command('write');
    const options = { input, limitMs: writeLimitMs };
    const { exitCode, stderr } = await this.apiHost.run(command, options);
    if (exitCode !== 0) throw new LabError(`objects were not written: ${stderr.slice(0, 1000)}`);
  }

  /** Starts what sees changes come by the API and in the kernel of a node. */
  follow(node: string): ChildProcess {
    return this.machine(node).spawn(this.#command('follow'));
  }

  #command(word: string): string[] {
    const { authority, admin } = this.certificates;
    return [
      ...[locateProgram('services'), word, '-server', this.server, '-authority', authority],
      ...['-certificate', admin.certificate, '-key', admin.key],
    ];
  }
}

/** So many nodes with nothing on them. */
export function listNodes(names: readonly string[]): Host[] {
  return names.map((name, at) => ({
    name,
    addresses: { ipv4: `10.77.0.${31 + at}`, ipv6: `fd77::${31 + at}` },
  }));
}
