import type { ProxiedPlan, ProxySetUp, ProxiedNode } from './proxied-plan.ts';
import type { ApiCluster } from '../../../tools/lab/control-plane/api-cluster.ts';
import { raiseTestCluster } from '../../support/lab/test-lab.ts';
import { outsider } from '../../support/network/layout.ts';
import { setReady, writeServices, services, podPort, secondPodPort } from './proxied-services.ts';
import { type Machine, runShell } from '../../../tools/lab/machines/machine.ts';
import type { Seat } from '../../support/network/seat.ts';
import { udpClientCommand, tcpServerCommand, udpServerCommand } from '../../support/network/pod-servers.ts';
import { waitUntil, type Service } from '../../../tools/lab/machines/service.ts';
import { cleanUpKubeProxy } from '../../../tools/lab/control-plane/kube-proxy-cleanup.ts';
import { vipnatCommand } from '../../../tools/lab/components/agent.ts';
import { unpackSuite } from '../../support/suites/suites.ts';
import { inPod } from '../../../tools/lab/control-plane/seats.ts';

/** On a machine with more to do. */
const startLimitMs = 60_000;

/**
 * A real API with Services of both families, and a node for each set-up: with its real kube-proxy, a real balancer beside it, a pod, and
 * addresses of all Services that it holds. One client is outside.
 */
export class ProxiedNodes {
  readonly plan: ProxiedPlan;
  readonly #cluster: ApiCluster;

  private constructor(plan: ProxiedPlan, cluster: ApiCluster) {
    this.plan = plan;
    this.#cluster = cluster;
  }

  /** Brings it up; balancers do not run yet. Nodes with kube-proxy in mode ipvs are virtual machines. */
  static async raise(plan: ProxiedPlan): Promise<ProxiedNodes> {
    const virtual = plan.names.filter((name) => plan.setUpOf(name).mode === 'ipvs');
    const virtualHosts = virtual.map((name) => plan.nodeOf(name).name);
    const cluster = await raiseTestCluster({ isDualStack: true }, [...plan.hosts, outsider], virtualHosts);
    const made = new ProxiedNodes(plan, cluster);
    try {
      await writeServices(cluster, plan.nodes);
      await Promise.all(plan.nodes.map((node) => made.#prepare(node)));
      await Promise.all(plan.proxiedNames.map((name) => made.startKubeProxy(name)));
      return made;
    } catch (error) {
      await cluster.end();
      throw error;
    }
  }

  async end(): Promise<void> {
    await this.#cluster.end();
  }

  /** Where the logs of all programs are. */
  get folder(): string {
    return this.#cluster.folder;
  }

  /** A node, or the client outside (`client`). */
  machine(name: string): Machine {
    return this.#cluster.machine(name);
  }

  async setCable(node: string, isPlugged: boolean): Promise<void> {
    await this.#cluster.setCable(node, isPlugged);
  }

  /** A client outside (`client`), on a node or in its pod; one for each role. */
  seat(place: string, role?: string): Seat {
    return this.#cluster.seat(place, role);
  }

  /** What each of so many UDP packets is answered with, from outside, see `udpClientCommand`. */
  async askByUdp(...question: Parameters<typeof udpClientCommand>): Promise<string[]> {
    const { stdout } = await this.#cluster.machine(outsider.name).run(udpClientCommand(...question));
    return JSON.parse(stdout) as string[];
  }

  /** Starts the kube-proxy of a set-up's node, in its mode or another one, and waits until it has rules for the node's addresses. */
  async startKubeProxy(name: string, setUp: ProxySetUp = this.plan.setUpOf(name)): Promise<void> {
    const { name: node, vips } = this.plan.nodeOf(name);
    const { mode, suites, ...more } = setUp;
    const tools = suites === undefined ? {} : { tools: `${unpackSuite(suites.kubeProxy)}/bin` };
    const service = await this.#cluster.startKubeProxy(node, mode, { ...more, ...tools });
    const dumps = listDumps(setUp);
    await waitUntil(() => this.#findMissing(node, dumps, Object.values(vips)), {
      ...{ what: 'kube-proxy has rules for the addresses', service, limitMs: startLimitMs },
    });
  }

  /**
   * Leaves these nodes' pods ready, and no others, by IPv4 for the Service `web`, and waits until the kube-proxy of a set-up has them.
   * Its mode is nftables.
   */
  async setReady(name: string, ready: readonly ProxiedNode[]): Promise<void> {
    await setReady(this.#cluster, this.plan.nodes, ready);
    const { name: node } = this.plan.nodeOf(name);
    const service = this.#cluster.service(node, 'kube-proxy');
    const wanted = ready.map(({ pod }) => pod).join();
    const findObstacle = async () => {
      const { stdout } = await this.machine(node).run(['nft', 'list', 'table', 'ip', 'kube-proxy']);
      const chain = /chain service-\w+-default\/web\/tcp\/t \{[^]*?\n\t\}/.exec(stdout)?.[0] ?? '';
      const has = this.plan.nodes.filter(({ podAddresses }) =>
        new RegExp(`(?<!\\d)${podAddresses.ipv4}(?!\\d)`).test(chain),
      );
      const names = has.map(({ pod }) => pod).join();
      return names === wanted ? null : `it has ${names} in ${chain}`;
    };
    await waitUntil(findObstacle, { what: `web has ${wanted}`, service, limitMs: startLimitMs });
  }

  /** Ends the kube-proxy of a set-up's node; its rules stay. */
  async stopKubeProxy(name: string): Promise<void> {
    await this.#cluster.service(this.plan.nodeOf(name).name, 'kube-proxy').stop();
  }

  /** Removes the rules of a kube-proxy that has ended, as a person does who gives it other tools. */
  async removeRules(name: string, iptables: ProxySetUp['iptables']): Promise<void> {
    await cleanUpKubeProxy(this.#cluster, this.plan.nodeOf(name).name, iptables);
  }

  /** Starts the balancers of these set-ups, and waits until they balance everything. */
  async startBalancers(names: readonly string[] = this.plan.names): Promise<void> {
    await Promise.all(names.map((name) => this.#startBalancer(name)));
  }

  async killBalancers(): Promise<void> {
    await Promise.all(this.plan.nodes.map(({ name }) => this.#balancer(name).stop('KILL')));
  }

  #balancer(node: string): Service {
    return this.#cluster.service(node, 'balancer');
  }

  async #startBalancer(name: string): Promise<void> {
    const { name: node, vips } = this.plan.nodeOf(name);
    const { suites } = this.plan.setUpOf(name);
    const path = process.env['PATH'] ?? '';
    const tools: Record<string, string> =
      suites === undefined ? {} : { PATH: `${unpackSuite(suites.balancer)}/bin:${path}` };
    const service = this.#balancer(node);
    const options = ['--kubeconfig', this.#cluster.writeAdminKubeconfig(), '--node-name', node];
    await service.start(vipnatCommand('balancer', ...options, '--listen', 'off'), tools);
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
    for (const [server, command] of Object.entries(servers))
      await this.#cluster.service(name, `pod-${server}`).start([...inPod, ...command]);
  }
}

/** What a kube-proxy writes, as commands print it. */
function listDumps({ mode, iptables }: ProxySetUp): string[] {
  if (mode === 'ipvs') return ['ipvsadm --save --numeric'];
  if (mode === 'nftables') return ['ip', 'ip6'].map((ip) => `nft list map ${ip} kube-proxy service-ips`);
  return [`iptables-${iptables}-save -t nat`, `ip6tables-${iptables}-save -t nat`];
}
