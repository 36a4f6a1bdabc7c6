import type { Stage, DemoAgent } from './stage.ts';
import { masters, apiserverPort, vips, worker } from '../../../test/support/network/layout.ts';
import { seatNames, Cluster, type SeatName } from '../../../test/support/network/cluster.ts';
import type { CommandResult } from '../../../test/support/network/namespaces.ts';
import type { Seat } from '../../../test/support/network/seat.ts';
import { createWriteStream } from 'node:fs';
import { once } from 'node:events';
import { families } from '../../../lib/net.ts';
import { KubeProxyStandIn } from '../../../test/support/kube-proxy/on-host.ts';

/** Network namespaces with small apiservers, and with what kube-proxy writes. */
export class StandInStage implements Stage {
  readonly holder = 'm1';
  readonly description = [
    `masters  ${masters.map(({ name, addresses }) => `${name} ${addresses.ipv4}`).join(', ')}: an apiserver on port ${apiserverPort} each`,
    `VIP      ${vips.ipv4}, held by ${this.holder}`,
    `clients  ${seatNames.slice(0, 3).join(', ')},`,
    `         ${seatNames.slice(3).join(', ')}`,
    `rules    kube-proxy's (iptables-nft) on the masters and on the worker, no others`,
  ];
  readonly #cluster: Cluster;

  private constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /** Builds it. */
  static async create(): Promise<StandInStage> {
    const stage = new StandInStage(await Cluster.create());
    await Promise.all([...masters, worker].map(({ name }) => stage.syncKubeProxy(name)));
    return stage;
  }

  run(host: string, command: readonly string[], input = ''): Promise<CommandResult> {
    const { namespaces } = this.#cluster;
    return namespaces.run(this.#cluster.namespaceOf(host), withHostname(host, command), { input });
  }

  seat(name: SeatName): Seat {
    return this.#cluster.seat(name);
  }

  startAgent(host: string, command: readonly string[], logFile: string): Promise<DemoAgent> {
    const { namespaces } = this.#cluster;
    const agent = namespaces.start(this.#cluster.namespaceOf(host), withHostname(host, command));
    const log = createWriteStream(logFile);
    agent.stdout?.pipe(log, { end: false });
    agent.stderr?.pipe(log, { end: false });
    return Promise.resolve({
      async stop() {
        // One that ended before would never say so again.
        if (agent.exitCode === null && agent.kill('SIGTERM')) await once(agent, 'exit');
        return agent.exitCode === 0;
      },
    });
  }

  async syncKubeProxy(host: string): Promise<void> {
    const { namespaces } = this.#cluster;
    const namespace = this.#cluster.namespaceOf(host);
    await Promise.all(
      families.map((family) => new KubeProxyStandIn(namespaces, namespace, 'nft', family).sync()),
    );
  }

  close(): Promise<void> {
    return this.#cluster.close();
  }
}

/** With the host's own name: network namespaces share that of the machine. */
function withHostname(host: string, command: readonly string[]): string[] {
  return ['unshare', '--uts', 'sh', '-c', 'hostname "$0" && exec "$@"', host, ...command];
}
