import { fileURLToPath } from 'node:url';
import { type Family, families } from '../../../lib/net.ts';
import { makeEndpoints, makeVirtualIp } from '../../support/kube-api/service-objects.ts';
import { podHosts, podAddresses } from '../../support/network/layout.ts';
import type { Kind, KubeObject } from '../../support/kube-api/kube-store.ts';
import type { Cluster } from '../../support/network/cluster.ts';
import { TemporaryFolder } from '../../support/network/at-end.ts';
import type { ChildProcess } from 'node:child_process';
import { Agent, vipnatCommand } from '../../support/host/vipnat.ts';
import { createCertificates } from '../../../tools/lab/certificates/certificates.ts';
import { writeKubeconfig } from '../../support/network/kubeconfig.ts';
import { ApiserverProcess } from '../../support/network/apiservers.ts';
import { udpServerCommand, udpClientCommand } from '../../support/network/pod-servers.ts';
import { once } from 'node:events';
import { useCluster } from '../../support/network/use-cluster.ts';
import { afterEach, afterAll } from '@jest/globals';

const program = fileURLToPath(new URL('../../support/network/services-api.ts', import.meta.url));

/** Where the API is: a master without pods. */
const [apiMachine, apiAddress, apiPort] = ['m3', '10.77.0.13', 16_443] as const;

/** Addresses of Services. m1 has them on its interface. */
export const serviceVips: Readonly<Record<Family, string>> = { ipv4: '10.77.0.60', ipv6: 'fd77::60' };

/** The pods, by the names that they say. Each listens on port 6443, on the node behind the dash. */
export const pods = podHosts.map((host) => ({
  name: `pod-${host.name}`,
  node: host.name,
  ipv4: podAddresses(host, 'ipv4').pod,
  ipv6: podAddresses(host, 'ipv6').pod,
}));

export const podPort = 6443;

/** One change of what the API has: an object to put, or the key of one to remove. */
export type ApiChange = readonly [Kind, KubeObject | string];

/** The port for TCP, and the same for UDP. */
export const tcpAndUdp = (port: number) => [
  { port, name: 't' },
  { port, name: 'u', protocol: 'UDP' },
];

/** By their places, the pods that end, that fail and that are gone. */
export type PodStates = Partial<Record<'ending' | 'unready' | 'without', readonly number[]>>;

/** The lists of a Service's endpoints: all pods, by the addresses of these families. */
export function overPods(
  service: string,
  ports: Parameters<typeof makeEndpoints>[1],
  listed: readonly Family[] = families,
  { ending = [], unready = [], without = [] }: PodStates = {},
): ApiChange[] {
  const last = { ready: false, serving: true, terminating: true };
  return listed.map((family) => {
    const ends = pods.flatMap((pod, at) => {
      const conditions = ending.includes(at) ? last : { ready: !unready.includes(at) };
      return without.includes(at) ? [] : [{ addresses: [pod[family]], nodeName: pod.node, conditions }];
    });
    return ['EndpointSlice', makeEndpoints(service, ports, ends)];
  });
}

/** The addresses of both families, given to these Services. */
export const giveVips = (...services: string[]): ApiChange[] =>
  families.map((family) => ['VirtualIP', makeVirtualIp(serviceVips[family], services)]);

interface BalancerStart {
  readonly node?: string;
  readonly words?: readonly string[];
  readonly prefix?: readonly string[];
}

/** A miniature cluster with pods that answer, and an API that has Services. */
export class ServiceWorld {
  readonly cluster: Cluster;
  #folder: TemporaryFolder | null = null;
  #api: ChildProcess | null = null;
  #kubeconfig = '';
  #startApi: () => ChildProcess = () => {
    throw new Error('there is no API yet');
  };
  #balancers: Agent[] = [];

  constructor(cluster: Cluster) {
    this.cluster = cluster;
  }

  /** Adds pods, the API and the addresses to the cluster, which is up. */
  async open(): Promise<void> {
    const { cluster } = this;
    const { path } = (this.#folder = new TemporaryFolder('services'));
    const certificates = await createCertificates(path);
    const pair = certificates.serving(apiMachine);
    const command = [process.execPath, program, apiAddress, String(apiPort), pair.certificate, pair.key];
    this.#startApi = () => cluster.start(apiMachine, command);
    this.#kubeconfig = writeKubeconfig(path, `https://${apiAddress}:${apiPort}`, certificates.authority);
    const servers = pods.map(
      ({ name }) =>
        new ApiserverProcess(cluster.namespaces, { name, namespace: cluster.namespaceOf(name) }, pair),
    );
    await Promise.all([
      this.bringApi(),
      ...servers.map((server) => server.start()),
      ...pods.map(({ name }) => this.#startUdp(name)),
    ]);
    await this.shell(
      'm1',
      `ip addr add ${serviceVips.ipv4}/32 dev eth0
       ip -6 addr add ${serviceVips.ipv6}/128 dev eth0 nodad preferred_lft 0`,
    );
  }

  async #startUdp(pod: string): Promise<void> {
    const server = this.cluster.start(pod, udpServerCommand(pod, podPort));
    if (server.stdout !== null) await once(server.stdout, 'data');
  }

  get kubeconfig(): string {
    return this.#kubeconfig;
  }

  /** What each of so many UDP packets from a machine is answered with, see `udpClientCommand`. */
  async askByUdp(machine: string, ...question: Parameters<typeof udpClientCommand>): Promise<string[]> {
    const { stdout } = await this.cluster.run(machine, udpClientCommand(...question));
    return JSON.parse(stdout) as string[];
  }

  shell(machine: string, script: string): Promise<string> {
    return this.cluster.shell(machine, script);
  }

  /** Changes what the API has; resolves when it has. */
  async put(...changes: readonly ApiChange[]): Promise<void> {
    const answer = once(this.#api?.stdout ?? process, 'data');
    this.#api?.stdin?.write(`${JSON.stringify(changes)}\n`);
    await answer;
  }

  /** Starts the API, with nothing in it. */
  async bringApi(): Promise<void> {
    this.#api = this.#startApi();
    this.#api.stderr?.pipe(process.stderr);
    if (this.#api.stdout !== null) await once(this.#api.stdout, 'data');
  }

  async killApi(): Promise<void> {
    const ended = once(this.#api ?? process, 'exit');
    this.#api?.kill('SIGKILL');
    await ended;
  }

  /** Starts the balancer of a node, by a command that starts another one if need be; resolves when its log has this line. */
  async startBalancer(line: RegExp, options: BalancerStart = {}): Promise<Agent> {
    const { node = 'm1', prefix = [], words = [] } = options;
    const own = ['balancer', '--kubeconfig', this.#kubeconfig, '--node-name', node, ...words];
    const balancer = new Agent(this.cluster.start(node, [...prefix, ...vipnatCommand(own)]));
    this.#balancers.push(balancer);
    await balancer.waitForLine(line);
    return balancer;
  }

  async stopBalancers(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    await Promise.all(this.#balancers.splice(0).map((balancer) => balancer.stop(signal)));
  }

  /**
   * Has the tables of a balancer that is gone count for so many more seconds; 0 is what the kernel does half a minute after the last
   * renewal.
   */
  async letTablesCount(machine: string, seconds: number): Promise<void> {
    const elements = [6, 17, 132].map((protocol) => `${protocol} timeout ${seconds}s`).join(', ');
    const add = seconds === 0 ? '' : `add element $family vipnat-lb alive { ${elements} }`;
    await this.shell(
      machine,
      `for family in $(nft list tables | sed -n 's/^table \\(ip6*\\) vipnat-lb$/\\1/p'); do
         printf '%s\\n' "flush set $family vipnat-lb alive" "${add}" | nft -f -
       done`,
    );
  }

  /** Ends what the cluster does not end. */
  close(): void {
    this.#folder?.remove();
    this.#balancers = [];
  }
}

/** A world that is up for each or for all tests of this block, when `prepare` has done its part. */
export function useServices(
  life: Parameters<typeof useCluster>[0],
  prepare: (world: ServiceWorld) => unknown,
): ServiceWorld {
  const after = { 'each test': afterEach, 'all tests': afterAll }[life];
  const cluster = useCluster(life, async () => {
    await world.open();
    await prepare(world);
  });
  const world = new ServiceWorld(cluster);
  after(() => {
    world.close();
  });
  return world;
}
