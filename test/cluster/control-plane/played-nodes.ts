import type { SingleApiserver } from './single-apiserver.ts';
import { virtualIps, addressPools, type AddressPool } from '../../../lib/api/vipnat.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { type NodeReport, toLeaseName, toAnnotations } from '../../../lib/api/node.ts';

const pollMs = 200;

/** Nodes without anything on them: what their balancers would say in their Leases, a test says. */
export class PlayedNodes {
  readonly #api: SingleApiserver;
  readonly #namespace: string;
  readonly #names: readonly string[];
  #isStopped = false;
  #running: Promise<void> | null = null;
  /** What their networks answer for. */
  inUse: readonly string[] = [];
  /** What their kernels cannot translate. */
  unsupported: readonly string[] = [];
  isProgramming = true;

  constructor(api: SingleApiserver, namespace: string, names: readonly string[]) {
    this.#api = api;
    this.#namespace = namespace;
    this.#names = names;
  }

  /** Creates the nodes, and reports for them until `stop`. */
  async start(): Promise<void> {
    for (const [index, name] of this.#names.entries()) await this.#create(name, index + 1);
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#running;
  }

  /** With an address, and a range for its pods. */
  async #create(name: string, number: number): Promise<void> {
    const podCIDRs = [`10.244.${number}.0/24`];
    const path = '/api/v1/nodes';
    const node = { apiVersion: 'v1', kind: 'Node', metadata: { name } };
    const object = { ...node, spec: { podCIDR: podCIDRs[0], podCIDRs } };
    await this.#api.ask({ method: 'POST', path, object });
    const status = { addresses: [{ type: 'InternalIP', address: `10.77.${number}.5` }] };
    await this.#api.ask({ method: 'PATCH', path: `${path}/${name}/status`, object: { status } });
  }

  async #run(): Promise<void> {
    const path = `/apis/coordination.k8s.io/v1/namespaces/${this.#namespace}/leases`;
    // One number counts the changes of all kinds.
    let version = '0';
    while (!this.#isStopped) {
      if (this.isProgramming) {
        const { object } = await this.#api.ask({ method: 'GET', path: virtualIps.path });
        const { resourceVersion = '0' } = (object['metadata'] ?? {}) as { resourceVersion?: string };
        version = resourceVersion;
      }
      const { object } = await this.#api.ask({ method: 'GET', path: addressPools.path });
      const pools = (object['items'] ?? []) as readonly AddressPool[];
      for (const node of this.#names)
        await this.#report(path, node, { version, seats: listHeld(pools, node) });
      await sleep(pollMs);
    }
  }

  async #report(
    path: string,
    node: string,
    { version, seats }: { readonly version: string; readonly seats: readonly string[] },
  ): Promise<void> {
    const { inUse, unsupported } = this;
    const kinds = ['virtualips', 'services', 'endpointslices', 'earlyslices'];
    const programmed = Object.fromEntries(kinds.map((kind) => [kind, version]));
    const said = { programmed, announced: version, seats, inUse, unsupported };
    const report: NodeReport = { node, mode: 'direct', ...said };
    const name = toLeaseName(node);
    const renewTime = new Date().toISOString().replace('Z', '000Z');
    const object = {
      ...{ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' },
      metadata: { name, annotations: toAnnotations(report) },
      spec: { holderIdentity: node, leaseDurationSeconds: 40, renewTime },
    };
    const { code } = await this.#api.ask({ method: 'PATCH', path: `${path}/${name}`, object });
    if (code === 404) await this.#api.ask({ method: 'POST', path, object });
  }
}

/** Of the nodes of a seat, the first by its name holds it. */
function listHeld(pools: readonly AddressPool[], node: string): string[] {
  return pools.flatMap(({ metadata, status }) =>
    (status?.seats ?? [])
      .filter(({ nodes }) => nodes.toSorted()[0] === node)
      .map(({ index }) => `${metadata.name}/${index}`),
  );
}
