import { vipnatCommand } from '../../../lab/components/agent.ts';
import { cleanUpKubeProxy } from '../../../lab/control-plane/kube-proxy-cleanup.ts';
import { inPod } from '../../../lab/control-plane/seats.ts';
import { type ApiCluster } from '../../../lab/control-plane/api-cluster.ts';
import { runShell } from '../../../lab/machines/machine.ts';
import { type Service, waitUntil } from '../../../lab/machines/service.ts';
import { type Host, outsider, podAddresses } from '../../support/network/layout.ts';
import { tcpServerCommand, udpClientCommand, udpServerCommand } from '../../support/network/pod-servers.ts';
import { type Seat } from '../../support/network/seat.ts';
import { raiseTestCluster } from '../../support/lab/test-lab.ts';
import { podPort, type ProxiedNode, secondPodPort, services, writeServices } from './proxied-services.ts';

/** kube-proxy's mode on a node, and the backend of its tools. */
export interface ProxySetUp {
  readonly mode: 'iptables' | 'nftables' | 'none';
  readonly iptables: 'nft' | 'legacy';
}

/** By the words for it, one for each node: every mode that this kernel has. */
export const setUps = {
  'iptables (nft)': { mode: 'iptables', iptables: 'nft' },
  'iptables (legacy)': { mode: 'iptables', iptables: 'legacy' },
  nftables: { mode: 'nftables', iptables: 'nft' },
  'no kube-proxy': { mode: 'none', iptables: 'nft' },
} as const satisfies Readonly<Record<string, ProxySetUp>>;

/** One of them. */
export type SetUpName = keyof typeof setUps;

/** All of them. */
export const setUpNames = Object.keys(setUps) as readonly SetUpName[];

/** Those with a kube-proxy. */
export const proxiedNames = setUpNames.filter((name) => setUps[name].mode !== 'none');

const hosts = setUpNames.map((_, at): Host => ({
  name: `n${at + 1}`,
  addresses: { ipv4: `10.77.0.${31 + at}`, ipv6: `fd77::${31 + at}` },
  pods: { ipv4: `10.244.${11 + at}`, ipv6: `fd00:244:${11 + at}:` },
}));

/** Its place for each node. */
const nodes = hosts.map((host, at): ProxiedNode => ({
  ...{ name: host.name, addresses: host.addresses, pod: `pod-${host.name}` },
  podAddresses: { ipv4: podAddresses(host, 'ipv4').pod, ipv6: podAddresses(host, 'ipv6').pod },
  vips: { ipv4: `10.77.0.${61 + at}`, ipv6: `fd77::${61 + at}` },
}));

/** The pods of all Services, by the names that they say. */
export const podNames = nodes.map(({ pod }) => pod);

/** The node of a set-up. */
export function nodeOf(name: SetUpName): ProxiedNode {
  const node = nodes[setUpNames.indexOf(name)];
  if (node === undefined) throw new Error(`no node has the set-up ${name}`);
  return node;
}

/** On a machine with more to do. */
const startLimitMs = 60_000;

/**
 * A real API with Services of both families, and a node for each set-up: with its real kube-proxy, a real balancer beside it, a pod, and
 * addresses of all Services that it holds. One client is outside.
 */
export class ProxiedNodes {
  readonly #cluster: ApiCluster;

  private constructor(cluster: ApiCluster) {
    this.#cluster = cluster;
  }

  /** Brings it up; balancers do not run yet. */
  static async raise(): Promise<ProxiedNodes> {
    const cluster = await raiseTestCluster({ isDualStack: true }, [...hosts, outsider]);
    const made = new ProxiedNodes(cluster);
    try {
      await writeServices(cluster, nodes);
      await Promise.all(nodes.map((node) => made.#prepare(node)));
      await Promise.all(proxiedNames.map((name) => made.startKubeProxy(name)));
      return made;
    } catch (error) {
      await cluster.end();
      throw error;
    }
  }

  /** Ends everything. */
  async end(): Promise<void> {
    await this.#cluster.end();
  }

  /** Where the logs of all programs are. */
  get folder(): string {
    return this.#cluster.folder;
  }

  /** A client outside (`client`), on a node or in its pod; one for each role. */
  seat(place: string, role?: string): Seat {
    return this.#cluster.seat(place, role);
  }

  /** What each of so many UDP packets is answered with, from outside: `POD CLIENT`, `refused` or `lost`. */
  async askByUdp(host: string, port: number, count: number): Promise<string[]> {
    const { stdout } = await this.#cluster.machine(outsider.name).run(udpClientCommand(host, port, count));
    return JSON.parse(stdout) as string[];
  }

  /** Starts the kube-proxy of a set-up's node, in its mode or another one, and waits until it has rules for the node's addresses. */
  async startKubeProxy(name: SetUpName, { mode, iptables }: ProxySetUp = setUps[name]): Promise<void> {
    const { name: node, vips } = nodeOf(name);
    const service = await this.#cluster.startKubeProxy(node, mode, iptables);
    const dumps =
      mode === 'nftables'
        ? ['nft list map ip kube-proxy service-ips', 'nft list map ip6 kube-proxy service-ips']
        : [`iptables-${iptables}-save -t nat`, `ip6tables-${iptables}-save -t nat`];
    await waitUntil(() => this.#findMissing(node, dumps, Object.values(vips)), {
      ...{ what: 'kube-proxy has rules for the addresses', service, limitMs: startLimitMs },
    });
  }

  /** Ends the kube-proxy of a set-up's node; its rules stay. */
  async stopKubeProxy(name: SetUpName): Promise<void> {
    await this.#cluster.service(nodeOf(name).name, 'kube-proxy').stop();
  }

  /** Removes the rules of a kube-proxy that has ended, as a person does who gives it other tools. */
  async removeRules(name: SetUpName, iptables: ProxySetUp['iptables']): Promise<void> {
    await cleanUpKubeProxy(this.#cluster, nodeOf(name).name, iptables);
  }

  /** Starts the balancers of these set-ups, and waits until they balance everything. */
  async startBalancers(names: readonly SetUpName[] = setUpNames): Promise<void> {
    await Promise.all(names.map((name) => this.#startBalancer(nodeOf(name))));
  }

  /** Ends all balancers at once. */
  async killBalancers(): Promise<void> {
    await Promise.all(nodes.map(({ name }) => this.#balancer(name).stop('KILL')));
  }

  #balancer(node: string): Service {
    return this.#cluster.service(node, 'balancer');
  }

  async #startBalancer({ name: node, vips }: ProxiedNode): Promise<void> {
    const service = this.#balancer(node);
    const options = ['--kubeconfig', this.#cluster.writeAdminKubeconfig(), '--node-name', node];
    await service.start(vipnatCommand('balancer', ...options, '--listen', 'off'));
    const tables = ['nft list map ip vipnat-lb vips', 'nft list map ip6 vipnat-lb vips'];
    const ports = Object.values(services).flatMap(({ port }) =>
      Object.values(vips).map((vip) => `${vip} . tcp . ${port}`),
    );
    const alive = ['ip', 'ip6'].map((ip) => `nft list set ${ip} vipnat-lb alive`);
    const findObstacle = async () =>
      (await this.#findMissing(node, tables, ports)) ?? (await this.#findMissing(node, alive, ['expires']));
    await waitUntil(findObstacle, { what: 'all ports are balanced', service, limitMs: startLimitMs });
  }

  /** What is in none of the commands' output. */
  async #findMissing(
    node: string,
    dumps: readonly string[],
    words: readonly string[],
  ): Promise<string | null> {
    const { stdout, stderr } = await this.#cluster.machine(node).run(['sh', '-c', dumps.join('; ')]);
    const missing = words.filter((word) => !stdout.includes(word));
    return missing.length === 0 ? null : `${missing.join(', ')} in none of ${dumps.join('; ')}: ${stderr}`;
  }

  /** The addresses that it holds, and the servers of its pod. */
  async #prepare({ name, pod, vips }: ProxiedNode): Promise<void> {
    const { certificates } = this.#cluster;
    await runShell(
      this.#cluster.machine(name),
      `ip addr add ${vips.ipv4}/32 dev eth0
       ip -6 addr add ${vips.ipv6}/128 dev eth0 nodad preferred_lft 0`,
    );
    const servers = {
      tcp: tcpServerCommand(pod, podPort, certificates.serving('m1')),
      udp: udpServerCommand(pod, podPort),
      second: udpServerCommand(`${pod}-second`, secondPodPort),
    };
    for (const [server, command] of Object.entries(servers)) {
      await this.#cluster.service(name, `pod-${server}`).start([...inPod, ...command]);
    }
  }
}
