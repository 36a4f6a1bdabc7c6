import { type ChildProcess } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { locateComponents } from '../../lab/build/build.ts';
import { createCertificates, type Certificates } from '../../lab/certificates/certificates.ts';
import { writeKubeconfig } from '../../lab/certificates/kubeconfig.ts';
import { apiserverCommand } from '../../lab/components/apiserver.ts';
import { etcdCommand } from '../../lab/components/etcd.ts';
import { kubeProxyCommand, type ProxySetting } from '../../lab/components/kube-proxy.ts';
import { Api } from '../../lab/control-plane/api.ts';
import { prepareFolder } from '../../lab/control-plane/raise.ts';
import { locateLab } from '../../lab/control-plane/state.ts';
import { type Machine, runShell } from '../../lab/machines/machine.ts';
import { NamespaceMachine } from '../../lab/machines/namespace-machine.ts';
import { Sandbox } from '../../lab/machines/sandbox.ts';
import { Service, waitUntil } from '../../lab/machines/service.ts';
import { LabError } from '../../lab/settings/error.ts';
import { type LabOptions } from '../../lab/settings/options.ts';
import { apiserverPort, type Host, masters } from '../../test/support/network/layout.ts';
import { renderHost, renderSwitch } from '../../test/support/network/wiring.ts';
import { locateProgram } from './go-program.ts';
import { type Order } from './service-objects.ts';

/** Ten times what an apiserver takes alone on two cores. */
const startLimitMs = 60_000;
const writeLimitMs = 180_000;

/** One real etcd and kube-apiserver on a host of their own, and hosts that nothing runs on yet, all on one wire. */
export class SmallCluster {
  readonly api: Api;
  readonly certificates: Certificates;
  readonly folder: string;
  readonly #sandbox: Sandbox;
  readonly #options: LabOptions;
  readonly #machines: ReadonlyMap<string, Machine>;

  private constructor(options: LabOptions, sandbox: Sandbox, made: [Certificates, NamespaceMachine[]]) {
    const [certificates, machines] = made;
    this.folder = locateLab(options.name);
    this.certificates = certificates;
    this.#options = options;
    this.#sandbox = sandbox;
    this.#machines = new Map(machines.map((machine) => [machine.name, machine]));
    this.api = new Api(this.machine(master.name), options.family, certificates);
  }

  /** Brings it up. It goes away with the calling process. */
  static async raise(options: LabOptions, hosts: readonly Host[]): Promise<SmallCluster> {
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
      const cluster = new SmallCluster(options, sandbox, made);
      await Promise.all(all.map((host) => runShell(cluster.machine(host.name), renderHost(host, []))));
      await cluster.#startApi();
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

  /** Starts a node's kube-proxy. */
  async startKubeProxy(node: string, mode: ProxySetting['mode']): Promise<Service> {
    const { authority, kubeProxy } = this.certificates;
    const path = join(this.folder, 'kube-proxy.kubeconfig');
    writeKubeconfig(path, { server: this.server, authority, user: 'kube-proxy', pair: kubeProxy });
    const setting = { mode, iptables: 'nft', family: this.#options.family } as const;
    const program = locateComponents(this.#options.kubernetes)['kube-proxy'];
    const { command, environment } = kubeProxyCommand(program, node, this.folder, setting);
    const service = this.service(node, 'kube-proxy');
    await service.start(command, environment);
    return service;
  }

  /**
   * Writes objects, as the administrator.
   * @throws LabError with what the API does not take.
   */
  async write(orders: readonly Order[]): Promise<void> {
    const input = orders.map((order) => `${JSON.stringify(order)}\n`).join('');
    const command = this.#command('write');
    const options = { input, limitMs: writeLimitMs };
    const { exitCode, stderr } = await this.machine(master.name).run(command, options);
    if (exitCode !== 0) throw new LabError(`objects were not written: ${stderr.slice(0, 1000)}`);
  }

  /** Starts what sees changes come by the API and in the kernel of a node. */
  follow(node: string): ChildProcess {
    return this.machine(node).spawn(this.#command('follow'));
  }

  /** Pulls a host's cable out of the switch, or plugs it in. */
  async setCable(host: string, isPlugged: boolean): Promise<void> {
    await this.#sandbox.shell(`ip link set ${host} ${isPlugged ? 'up' : 'down'}`);
  }

  /** Ends everything and removes the folder. */
  async down(): Promise<void> {
    await this.#sandbox.remove();
    rmSync(this.folder, { recursive: true, force: true });
  }

  #command(word: string): string[] {
    const { authority, admin } = this.certificates;
    return [
      ...[locateProgram('services'), word, '-server', this.server, '-authority', authority],
      ...['-certificate', admin.certificate, '-key', admin.key],
    ];
  }

  async #startApi(): Promise<void> {
    const { name } = master;
    const programs = locateComponents(this.#options.kubernetes);
    const etcd = etcdCommand(programs.etcd, master, this.#options, [master]);
    await this.service(name, 'etcd').start(etcd.command, etcd.environment);
    const program = programs['kube-apiserver'];
    const apiserver = apiserverCommand(program, master, this.#options, this.certificates);
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
const [master] = masters as readonly [Host, ...Host[]];

/** So many nodes with nothing on them. */
export function listNodes(names: readonly string[]): Host[] {
  return names.map((name, at) => ({
    name,
    addresses: { ipv4: `10.77.0.${31 + at}`, ipv6: `fd77::${31 + at}` },
  }));
}
