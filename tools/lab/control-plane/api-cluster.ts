import { Api } from './api.ts';
import { type Certificates, createCertificates } from '../certificates/certificates.ts';
import type { LabOptions } from '../settings/options.ts';
import { Sandbox } from '../machines/sandbox.ts';
import { type Machine, runShell } from '../machines/machine.ts';
import { Seats } from './seats.ts';
import { locateLab } from './state.ts';
import { type Host, apiserverPort, masters } from '../../../test/support/network/layout.ts';
import { requireHost } from '../settings/requirements.ts';
import { prepareFolder } from './raise.ts';
import { NamespaceMachine } from '../machines/namespace-machine.ts';
import { renderSwitch, renderHost, renderPodCable, renderPod } from '../../../test/support/network/wiring.ts';
import { locateKernel } from '../build/kernel.ts';
import { powerOn } from './make.ts';
import type { Seat } from '../../../test/support/network/seat.ts';
import { Service, waitUntil } from '../machines/service.ts';
import { join } from 'node:path';
import { writeKubeconfig } from '../certificates/kubeconfig.ts';
import { type ProxySetting, kubeProxyCommand } from '../components/kube-proxy.ts';
import { locateComponents } from '../build/build.ts';
import { rmSync } from 'node:fs';
import { etcdCommand } from '../components/etcd.ts';
import { apiserverCommand } from '../components/apiserver.ts';

/** Ten times what an apiserver takes alone on two cores. */
const startLimitMs = 60_000;

/**
 * One real etcd and kube-apiserver on a host of their own, and hosts that nothing runs on yet, all on one wire. Hosts with a network
 * for pods have a pod.
 */
export class ApiCluster {
  readonly api: Api;
  readonly certificates: Certificates;
  readonly folder: string;
  readonly options: LabOptions;
  readonly #sandbox: Sandbox;
  readonly #machines: ReadonlyMap<string, Machine>;
  readonly #seats = new Seats((host) => this.machine(host));

  /** For `raise`. */
  constructor(options: LabOptions, sandbox: Sandbox, made: [Certificates, Machine[]]) {
    const [certificates, machines] = made;
    this.folder = locateLab(options.name);
    this.certificates = certificates;
    this.options = options;
    this.#sandbox = sandbox;
    this.#machines = new Map(machines.map((machine) => [machine.name, machine]));
    this.api = new Api(this.machine(master.name), options.family, certificates);
  }

  /** Brings it up. It goes away with the calling process. Hosts that are named have a kernel of their own, with IPVS and nftables. */
  static async raise<Raised extends ApiCluster>(
    this: new (...made: ConstructorParameters<typeof ApiCluster>) => Raised,
    options: LabOptions,
    hosts: readonly Host[],
    virtualHosts: readonly string[] = [],
  ): Promise<Raised> {
    // Machines need as much as those of a lab in ipvs mode.
    if (virtualHosts.length > 0) requireHost({ ...options, proxyMode: 'ipvs' });
    const all = [master, ...hosts];
    prepareFolder(
      options,
      all.map(({ name }) => name),
    );
    const sandbox = await Sandbox.create();
    try {
      const made = await Promise.all([
        createCertificates(locateLab(options.name)),
        Promise.all(all.map(({ name }) => NamespaceMachine.create(sandbox, name))),
      ]);
      const nameToAnchor = new Map(made[1].map(({ name, anchor }) => [name, anchor]));
      await sandbox.shell(renderSwitch((name) => nameToAnchor.get(name) ?? 0, all));
      const virtual = { hosts: virtualHosts, kernel: locateKernel() };
      const machines = await Promise.all(
        made[1].map((machine) => powerOn(machine, locateLab(options.name), virtual)),
      );
      const cluster = new this(options, sandbox, [made[0], machines]);
      const withPods = hosts.filter(({ pods }) => pods !== undefined);
      await Promise.all(all.map((host) => runShell(cluster.machine(host.name), renderHost(host, withPods))));
      await Promise.all(withPods.map((host) => runShell(cluster.machine(host.name), renderPodOf(host))));
      await cluster.startApi();
      return cluster;
    } catch (error) {
      await sandbox.remove();
      throw error;
    }
  }

  /** Where the API is. */
  get server(): string {
    return `https://${master.addresses.ipv4}:${apiserverPort}`;
  }

  /** A host by its name. */
  machine(name: string): Machine {
    const machine = this.#machines.get(name);
    if (machine === undefined) throw new Error(`the cluster has no machine ${name}`);
    return machine;
  }

  /** Where the API runs. */
  get apiHost(): Machine {
    return this.machine(master.name);
  }

  /** The client at a host or in its pod, see `Seats.get`. */
  seat(place: string, role?: string): Seat {
    return this.#seats.get(place, role);
  }

  /** What runs, or shall run, in the background of a host. */
  service(host: string, name: string): Service {
    return new Service(this.machine(host), name, this.folder);
  }

  /** The path of the administrator's kubeconfig. */
  writeAdminKubeconfig(): string {
    const { authority, admin } = this.certificates;
    const path = join(this.folder, 'admin.kubeconfig');
    return writeKubeconfig(path, { server: this.server, authority, user: 'admin', pair: admin });
  }

  /** Starts a node's kube-proxy, with the tools of iptables-nft if nothing else is said. */
  async startKubeProxy(
    node: string,
    mode: ProxySetting['mode'],
    more: Partial<Pick<ProxySetting, 'iptables' | 'isStrictArp' | 'tools'>> = {},
  ): Promise<Service> {
    const { authority, kubeProxy } = this.certificates;
    const path = join(this.folder, 'kube-proxy.kubeconfig');
    writeKubeconfig(path, { server: this.server, authority, user: 'kube-proxy', pair: kubeProxy });
    const program = locateComponents(this.options.kubernetes)['kube-proxy'];
    const setting = { ...this.options, mode, iptables: 'nft' as const, ...more };
    const { command, environment } = kubeProxyCommand(program, node, this.folder, setting);
    const service = this.service(node, 'kube-proxy');
    await service.start(command, environment);
    return service;
  }

  /** Pulls a host's cable out of the switch, or plugs it in. */
  async setCable(host: string, isPlugged: boolean): Promise<void> {
    await this.#sandbox.shell(`ip link set ${host} ${isPlugged ? 'up' : 'down'}`);
  }

  /** Ends everything and removes the folder. */
  async down(): Promise<void> {
    await this.end();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Ends everything, but leaves the folder with the logs. */
  async end(): Promise<void> {
    await this.#sandbox.remove();
  }

  /** Starts etcd and kube-apiserver, and waits until the API answers. `raise` does it. */
  async startApi(): Promise<void> {
    const { name } = master;
    const programs = locateComponents(this.options.kubernetes);
    const etcd = etcdCommand(programs.etcd, master, this.options, [master]);
    await this.service(name, 'etcd').start(etcd.command, etcd.environment);
    const program = programs['kube-apiserver'];
    const apiserver = apiserverCommand(program, master, this.options, this.certificates);
    const service = this.service(name, 'kube-apiserver');
    await service.start(apiserver.command, apiserver.environment);
    await waitUntil(() => this.#findObstacle('/api/v1/namespaces/default'), {
      ...{ what: 'the API answers', service, limitMs: startLimitMs },
    });
  }

  /** Waits until there is something at a path. */
  async waitFor(path: string): Promise<void> {
    const service = this.service(master.name, 'kube-apiserver');
    const what = `there is ${path}`;
    await waitUntil(() => this.#findObstacle(path), { what, service, limitMs: startLimitMs });
  }

  async #findObstacle(path: string): Promise<string | null> {
    const { code, object } = await this.api.ask({ method: 'GET', path });
    return code === 200 ? null : `${code} ${object.message ?? ''}`;
  }
}

/** Where the API is. The certificates are for it. */
const [{ name: masterName, addresses }] = masters as readonly [Host, ...Host[]];
const master: Host = { name: masterName, addresses };

function renderPodOf(host: Host): string {
  return `ip netns add pod
    ${renderPodCable(host, 'pod')}
    ip netns exec pod sh -ec '${renderPod(host)}'`;
}
