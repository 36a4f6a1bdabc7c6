import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { families } from '../../lib/address/address.ts';
import { apiserverPort, hosts, type Machine, masters, podAddresses, vips, worker } from './layout.ts';
import { Namespaces } from './namespaces.ts';
import { Seat } from './seat.ts';

/** Where requests come from, as people name these places. */
export const seatNames = [
  'outside client',
  "VIP holder's host",
  'another master',
  'pod on a master',
  'pod on a worker',
] as const;

/** One of seatNames. */
export type SeatName = (typeof seatNames)[number];

const seatToMachine: Readonly<Record<SeatName, string>> = {
  'outside client': 'client',
  "VIP holder's host": 'm1',
  'another master': 'm3',
  'pod on a master': 'pod-m2',
  'pod on a worker': 'pod-worker',
};

const apiserverProgram = fileURLToPath(new URL('apiserver.ts', import.meta.url));

/**
 * A control plane in network namespaces: three masters with an apiserver each, a worker, an outside client, a pod on
 * m2 and one on the worker, both families, all on one bridge. m1 holds the VIPs. No netfilter rules at all.
 */
export class Cluster {
  readonly namespaces = new Namespaces();
  readonly #machineToNamespace = new Map<string, string>();
  readonly #seats = new Map<SeatName, Seat>();
  readonly #folder = mkdtempSync(join(tmpdir(), 'vipnat-cluster-'));
  readonly #removeFolder = () => {
    rmSync(this.#folder, { recursive: true, force: true });
  };

  /** Builds it all; removes what was built when that fails. */
  static async create(): Promise<Cluster> {
    const cluster = new Cluster();
    process.on('exit', cluster.#removeFolder);
    try {
      await cluster.#build();
    } catch (error) {
      await cluster.close();
      throw error;
    }
    return cluster;
  }

  /** The namespace of a host (`m1`, `worker`, `client`) or pod (`pod-m2`, `pod-worker`). */
  namespaceOf(machine: string): string {
    const namespace = this.#machineToNamespace.get(machine);
    if (namespace === undefined) throw new Error(`no such machine: ${machine}`);
    return namespace;
  }

  /** The client at a place, started when first asked for. */
  seat(name: SeatName): Seat {
    const seat =
      this.#seats.get(name) ?? new Seat(this.namespaces, this.namespaceOf(seatToMachine[name]), name);
    this.#seats.set(name, seat);
    return seat;
  }

  /** Gives the VIPs to a master and takes them from the others; everybody on the wire learns it at once. */
  async moveVips(holder: string): Promise<void> {
    // As keepalived adds IPv6 VIPs: deprecated, or the kernel takes the /128 as the source of the host's own connections.
    const ipv6Options = 'nodad preferred_lft 0';
    for (const { name } of masters) {
      const verb = name === holder ? 'replace' : 'del';
      await this.namespaces.shell(
        this.namespaceOf(name),
        `ip addr ${verb} ${vips.ipv4}/32 dev eth0 2>/dev/null || true
         ip -6 addr ${verb} ${vips.ipv6}/128 dev eth0 ${verb === 'replace' ? ipv6Options : ''} 2>/dev/null || true`,
      );
    }
    await Promise.all(
      hosts.map(({ name }) => this.namespaces.shell(this.namespaceOf(name), 'ip neigh flush all')),
    );
  }

  /** Ends every process and removes every namespace and file. */
  async close(): Promise<void> {
    await this.namespaces.close();
    this.#removeFolder();
    process.off('exit', this.#removeFolder);
  }

  async #build(): Promise<void> {
    const names = ['switch', ...hosts.map(({ name }) => name), 'pod-m2', 'pod-worker'];
    for (const name of names) this.#machineToNamespace.set(name, await this.namespaces.create(name));
    const switchNamespace = this.namespaceOf('switch');
    const cables = hosts.map(
      ({ name }) =>
        `ip link add ${name} type veth peer name eth0 netns ${this.namespaceOf(name)}
         ip link set ${name} master bridge up`,
    );
    await this.namespaces.shell(
      switchNamespace,
      `ip link add bridge type bridge
       ip addr add 10.77.0.1/24 dev bridge
       ip addr add fd77::1/64 dev bridge nodad
       ip link set bridge up
       ${cables.join('\n')}`,
    );
    await Promise.all(hosts.map((host) => this.#setUpHost(host)));
    await Promise.all([masters[1], worker].map((host) => this.#setUpPod(host as Machine)));
    await this.moveVips('m1');
    await this.#startApiservers();
  }

  async #setUpHost(host: Machine): Promise<void> {
    const { ipv4, ipv6 } = host.addresses;
    // What a CNI in routing mode does: every cluster host knows the way to every pod network.
    const podRoutes = [...masters, worker]
      .filter(({ name, pods }) => pods !== undefined && name !== host.name)
      .flatMap((other) =>
        families.map((family) => `ip route add ${network(other, family)} via ${other.addresses[family]}`),
      );
    await this.namespaces.shell(
      this.namespaceOf(host.name),
      `ip link set lo up
       ip link set eth0 up
       ip addr add ${ipv4}/24 dev eth0
       ip addr add ${ipv6}/64 dev eth0 nodad
       ip route add default via 10.77.0.1
       ip -6 route add default via fd77::1
       echo 1 > /proc/sys/net/ipv4/ip_forward
       echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
       ${host.name === 'client' ? '' : podRoutes.join('\n')}`,
    );
  }

  async #setUpPod(host: Machine): Promise<void> {
    const pod = this.namespaceOf(`pod-${host.name}`);
    const [ipv4, ipv6] = [podAddresses(host, 'ipv4'), podAddresses(host, 'ipv6')];
    await this.namespaces.shell(
      this.namespaceOf(host.name),
      `ip link add pod0 type veth peer name eth0 netns ${pod}
       ip addr add ${ipv4.host}/24 dev pod0
       ip addr add ${ipv6.host}/64 dev pod0 nodad
       ip link set pod0 up`,
    );
    await this.namespaces.shell(
      pod,
      `ip link set lo up
       ip link set eth0 up
       ip addr add ${ipv4.pod}/24 dev eth0
       ip addr add ${ipv6.pod}/64 dev eth0 nodad
       ip route add default via ${ipv4.host}
       ip -6 route add default via ${ipv6.host}`,
    );
  }

  async #startApiservers(): Promise<void> {
    const [certificate, key] = [join(this.#folder, 'tls.crt'), join(this.#folder, 'tls.key')];
    await execa('openssl', [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
      ...['-subj', '/CN=kubernetes', '-days', '2', '-out', certificate, '-keyout', key],
    ]);
    await Promise.all(
      masters.map(async ({ name }) => {
        const child = this.namespaces.start(this.namespaceOf(name), [
          ...[process.execPath, apiserverProgram, name, String(apiserverPort), certificate, key],
        ]);
        child.stderr?.pipe(process.stderr);
        if (child.stdout !== null) await once(child.stdout, 'data');
      }),
    );
  }
}

function network(host: Machine, family: (typeof families)[number]): string {
  return family === 'ipv4' ? `${host.pods?.ipv4 ?? ''}.0/24` : `${host.pods?.ipv6 ?? ''}:/64`;
}
