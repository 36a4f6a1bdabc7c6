import { fileURLToPath } from 'node:url';
import { Dialogue } from '../shared/dialogue.ts';
import { Seat } from '../../../test/support/network/seat.ts';
import { Namespaces } from '../../../test/support/network/namespaces.ts';
import { HaproxyUnit } from '../../../test/support/devices/haproxy-unit.ts';
import { renderCable } from '../../../test/support/network/wiring.ts';
import { makeCertificate } from '../../../test/support/devices/haproxy-world.ts';
import type { DeviceSettings } from '../../../devices/driver.ts';
import { join } from 'node:path';
import { TemporaryFolder } from '../../../test/support/network/at-end.ts';
import { writeFileSync } from 'node:fs';

const program = fileURLToPath(new URL('cluster-program.ts', import.meta.url));

/** Where clients connect to. */
export const service = { host: '10.60.0.200', port: 80 };

/** Old pods and new ones: the rest of an update is what the next one starts. */
export const podAddresses = Array.from({ length: 8 }, (_, at) => `10.60.0.${101 + at}`);

const unitHosts = ['10.60.0.11', '10.60.0.12'];

/** Two hosts with HAProxy and keepalived, a cluster and a client, each in a network namespace, and one switch. */
export class HaproxyPair {
  readonly cluster: Dialogue;
  readonly client: Seat;
  readonly #namespaces: Namespaces;
  readonly #units: readonly HaproxyUnit[];
  readonly #switch: string;

  private constructor(parts: {
    readonly namespaces: Namespaces;
    readonly units: readonly HaproxyUnit[];
    readonly onSwitch: string;
    readonly cluster: Dialogue;
    readonly client: Seat;
  }) {
    this.#namespaces = parts.namespaces;
    this.#units = parts.units;
    this.#switch = parts.onSwitch;
    this.cluster = parts.cluster;
    this.client = parts.client;
  }

  static async start(): Promise<HaproxyPair> {
    const namespaces = new Namespaces();
    const onSwitch = await namespaces.create('switch');
    await namespaces.shell(onSwitch, 'ip link add bridge type bridge\nip link set bridge up');
    const connect = async (name: string, addresses: readonly string[]) => {
      const full = await namespaces.create(name);
      await namespaces.shell(onSwitch, renderCable(name, full));
      const lines = addresses.map((address) => `ip addr add ${address}/24 dev eth0`);
      await namespaces.shell(full, ['ip link set lo up', 'ip link set eth0 up', ...lines].join('\n'));
      return full;
    };
    const { ca, tls } = await makeCertificate(unitHosts);
    const settings: DeviceSettings = {
      ...{ name: 'edge', cluster: 'prod', units: unitHosts.map((host) => `${host}:9443`), ca },
      ...{ credentials: { username: 'vipnat', password: 'a word' }, options: {} },
    };
    const units: HaproxyUnit[] = [];
    for (const [at, host] of unitHosts.entries()) {
      const full = await connect(`unit-${at + 1}`, [host]);
      const enter = ['ip', 'netns', 'exec', full];
      const unit = await HaproxyUnit.make({ settings, addresses: [service.host], at, tls, enter });
      units.push(unit);
      await unit.start();
      namespaces.start(full, ['keepalived', '--dont-fork', '--log-console', '--use-file', unit.keepalived]);
    }
    const client = await connect('client', ['10.60.0.50']);
    await namespaces.shell(client, 'echo 61000 65535 > /proc/sys/net/ipv4/ip_local_port_range');
    const file = join(new TemporaryFolder('device').path, 'settings.json');
    writeFileSync(file, JSON.stringify(settings));
    const inCluster = await connect('cluster', ['10.60.0.1', ...podAddresses]);
    return new HaproxyPair({
      ...{ namespaces, units, onSwitch },
      cluster: await Dialogue.open(namespaces.start(inCluster, [process.execPath, program, file])),
      client: new Seat('client', namespaces.start(client, Seat.command)),
    });
  }

  /** The processes of its HAProxy are gone at once. The host goes on. */
  async killHaproxy(at: number): Promise<void> {
    await this.#units[at]?.crash();
  }

  /** As systemd does. */
  async startHaproxy(at: number): Promise<void> {
    await this.#units[at]?.start();
  }

  /** Pulls the cable of its host, or puts it in. */
  async setLink(at: number, state: 'up' | 'down'): Promise<void> {
    await this.#namespaces.shell(this.#switch, `ip link set unit-${at + 1} ${state}`);
  }

  async stop(): Promise<void> {
    for (const unit of this.#units) await unit.remove();
    await this.#namespaces.close();
  }
}
