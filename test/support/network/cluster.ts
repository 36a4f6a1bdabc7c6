import { type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { execa } from 'execa';
import { ApiserverProcess } from './apiservers.ts';
import { TemporaryFolder } from './at-end.ts';
import { type Host, hosts, masters, podHosts, vips } from './layout.ts';
import { type CommandResult, Namespaces } from './namespaces.ts';
import { Seat } from './seat.ts';
import { renderHost, renderPod, renderPodCable, renderSwitch } from './wiring.ts';

/** Where requests come from, as people name these places. */
export const seatNames = [
  'outside client',
  "VIP holder's host",
  'another master',
  'pod on a master',
  'pod on a worker',
] as const;

export type SeatName = (typeof seatNames)[number];

const seatToMachine: Readonly<Record<SeatName, string>> = {
  'outside client': 'client',
  "VIP holder's host": 'm1',
  'another master': 'm3',
  'pod on a master': 'pod-m2',
  'pod on a worker': 'pod-worker',
};

/** The arguments of a function without its first one. */
type Tail<Fn extends (first: never, ...rest: never[]) => unknown> =
  Parameters<Fn> extends [unknown, ...infer Rest] ? Rest : never;

/**
 * A control plane in network namespaces: three masters with an apiserver each, a worker, an outside client, a pod on
 * m2 and one on the worker, both families, all on one bridge. m1 holds the VIPs. No netfilter rules at all.
 */
export class Cluster {
  #namespaces: Namespaces | null = null;
  readonly #machineToNamespace = new Map<string, string>();
  readonly #seats = new Map<string, Seat>();
  readonly #apiservers = new Map<string, ApiserverProcess>();
  #folder: TemporaryFolder | null = null;

  static async create(): Promise<Cluster> {
    const cluster = new Cluster();
    await cluster.open();
    return cluster;
  }

  /** Builds it all, also once more after `close`; removes what was built when that fails. */
  async open(): Promise<void> {
    this.#namespaces = new Namespaces();
    this.#folder = new TemporaryFolder('cluster');
    try {
      await this.#build();
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  get namespaces(): Namespaces {
    if (this.#namespaces === null) throw new Error('the cluster is not up');
    return this.#namespaces;
  }

  /** The namespace of a host (`m1`, `worker`, `client`) or pod (`pod-m2`, `pod-worker`). */
  namespaceOf(machine: string): string {
    const namespace = this.#machineToNamespace.get(machine);
    if (namespace === undefined) throw new Error(`no such machine: ${machine}`);
    return namespace;
  }

  /** Runs a command on a machine to its end. Never rejects for a failing command. */
  run(machine: string, ...how: Tail<Namespaces['run']>): Promise<CommandResult> {
    return this.namespaces.run(this.namespaceOf(machine), ...how);
  }

  /** Runs a shell script on a machine; rejects with what it printed when it fails. */
  shell(machine: string, script: string): Promise<string> {
    return this.namespaces.shell(this.namespaceOf(machine), script);
  }

  /** Starts a process on a machine that lives until `close` or until it is killed. */
  start(machine: string, ...how: Tail<Namespaces['start']>): ChildProcess {
    return this.namespaces.start(this.namespaceOf(machine), ...how);
  }

  /** The client at a place, started when first asked for; one for each role, which do not wait for each other. */
  seat(name: SeatName, role = 'client'): Seat {
    const key = `${name}, ${role}`;
    const seat = this.#seats.get(key) ?? new Seat(key, this.start(seatToMachine[name], Seat.command));
    this.#seats.set(key, seat);
    return seat;
  }

  apiserver(master: string): ApiserverProcess {
    const apiserver = this.#apiservers.get(master);
    if (apiserver === undefined) throw new Error(`no such master: ${master}`);
    return apiserver;
  }

  /** Gives the VIPs to a master and takes them from the others; everybody on the wire learns it at once. */
  async moveVips(holder: string): Promise<void> {
    // As keepalived adds IPv6 VIPs: deprecated, or the kernel takes the /128 as the source of the host's own connections.
    const ipv6Options = 'nodad preferred_lft 0';
    for (const { name } of masters) {
      const verb = name === holder ? 'replace' : 'del';
      await this.shell(
        name,
        `ip addr ${verb} ${vips.ipv4}/32 dev eth0 2>/dev/null || true
         ip -6 addr ${verb} ${vips.ipv6}/128 dev eth0 ${verb === 'replace' ? ipv6Options : ''} 2>/dev/null || true`,
      );
    }
    await Promise.all(hosts.map(({ name }) => this.shell(name, 'ip neigh flush all')));
  }

  /** Ends every process and removes every namespace and file. */
  async close(): Promise<void> {
    await this.#namespaces?.close();
    this.#namespaces = null;
    for (const known of [this.#machineToNamespace, this.#seats, this.#apiservers]) known.clear();
    this.#folder?.remove();
  }

  async #build(): Promise<void> {
    const pods = podHosts.map(({ name }) => `pod-${name}`);
    const names = ['switch', ...hosts.map(({ name }) => name), ...pods];
    for (const name of names) this.#machineToNamespace.set(name, await this.namespaces.create(name));
    await this.shell(
      'switch',
      renderSwitch((host) => this.namespaceOf(host)),
    );
    await Promise.all(hosts.map((host) => this.shell(host.name, renderHost(host))));
    await Promise.all(podHosts.map((host) => this.#setUpPod(host)));
    await this.moveVips('m1');
    await this.#startApiservers();
  }

  async #setUpPod(host: Host): Promise<void> {
    const pod = this.namespaceOf(`pod-${host.name}`);
    await this.shell(host.name, renderPodCable(host, pod));
    await this.namespaces.shell(pod, renderPod(host));
  }

  async #startApiservers(): Promise<void> {
    const folder = this.#folder?.path ?? '';
    const [certificate, key] = [join(folder, 'tls.crt'), join(folder, 'tls.key')];
    await execa('openssl', [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
      ...['-subj', '/CN=kubernetes', '-days', '365', '-out', certificate, '-keyout', key],
      ...[
        '-addext',
        `subjectAltName=${Object.values(vips)
          .map((vip) => `IP:${vip}`)
          .join()}`,
      ],
    ]);
    for (const { name } of masters) {
      const place = { name, namespace: this.namespaceOf(name) };
      this.#apiservers.set(name, new ApiserverProcess(this.namespaces, place, { certificate, key }));
    }
    await Promise.all([...this.#apiservers.values()].map((apiserver) => apiserver.start()));
  }
}
