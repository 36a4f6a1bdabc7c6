import type { Stage, DemoAgent } from './stage.ts';
import { masters, apiserverPort, vips, worker, outsider } from '../../../test/support/network/layout.ts';
import { Cluster } from '../../../test/support/network/cluster.ts';
import type { CommandResult } from '../../../test/support/network/namespaces.ts';
import type { ChildProcess } from 'node:child_process';
import { createWriteStream, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { once } from 'node:events';
import { families } from '../../../lib/net.ts';
import { haproxyCommand } from '../../lab/components/haproxy.ts';
import { KubeProxyStandIn } from '../../../test/support/kube-proxy/on-host.ts';

/** Network namespaces with small apiservers, and with what kube-proxy writes. */
export class StandInStage implements Stage {
  readonly isReal = false;
  readonly holder = 'm1';
  readonly description = [
    `masters  ${masters.map(({ name, addresses }) => `${name} ${addresses.ipv4}`).join(', ')}: an apiserver on port ${apiserverPort} each`,
    `VIP      ${vips.ipv4}, held by ${this.holder}`,
    `client   ${outsider.addresses.ipv4}, outside the cluster`,
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

  spawn(host: string, command: readonly string[]): ChildProcess {
    return this.#cluster.start(host, command);
  }

  async startHaproxy(host: string, folder: string): Promise<void> {
    mkdirSync(join(folder, host), { recursive: true });
    await this.startAgent(host, haproxyCommand(host, folder, 'ipv4').command, join(folder, 'haproxy.log'));
  }

  async killApiserver(host: string): Promise<void> {
    await this.#cluster.apiserver(host).kill();
  }

  async startApiserver(host: string): Promise<void> {
    await this.#cluster.apiserver(host).start();
  }

  async cut(host: string): Promise<void> {
    await this.#cluster.shell('switch', `ip link set ${host} down`);
  }

  async join(host: string): Promise<void> {
    await this.#cluster.shell('switch', `ip link set ${host} up`);
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
