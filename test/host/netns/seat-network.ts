import { masters, type Host, outsider } from '../../support/network/layout.ts';
import { makeSeat, makePool, makeVirtualIp } from '../../support/fakes/seat-objects.ts';
import type { VirtualIp } from '../../../lib/api/vipnat.ts';
import { Namespaces } from '../../support/network/namespaces.ts';
import { SeatNode } from './seat-node.ts';
import { renderSwitch, renderHost } from '../../support/network/wiring.ts';
import type { SeatsInput } from '../../../balancer/seats/plan.ts';
import { waitUntil } from '../../support/jest/waiting.ts';
import { beforeEach, afterEach } from '@jest/globals';

const names = masters.map(({ name }) => name);

/** Eight seats, four of each family, each with another node first. */
export const seats = ['10.77.0.50', 'fd77::50'].flatMap((network, family) =>
  [0, 1, 2, 3].map((at) =>
    makeSeat(
      4 * family + at,
      network,
      names.map((_, place) => names[(at + place) % names.length] ?? ''),
    ),
  ),
);

export const pool = makePool('default', seats);

/** Whoever has one of these holds its seat. */
export const anchors = seats.map(({ anchor }) => anchor) as [string, string, string, string, ...string[]];

/** The VirtualIPs of some Services, in seat 0, or 4 for IPv6. */
export const give = (...addresses: string[]): VirtualIp[] =>
  addresses.map((one) =>
    makeVirtualIp(one.replaceAll(':', '-'), one.includes(':') ? 'default/4' : 'default/0'),
  );

/** Three nodes and a client on a switch. */
class SeatNetwork {
  #namespaces: Namespaces | null = null;
  #switch = '';
  #client: SeatNode | null = null;
  nodes: readonly SeatNode[] = [];

  async open(): Promise<void> {
    const namespaces = (this.#namespaces = new Namespaces());
    const hosts: readonly Host[] = [...masters, outsider];
    this.#switch = await namespaces.create('switch');
    const names = new Map<string, string>();
    for (const { name } of hosts) names.set(name, await namespaces.create(name));
    await namespaces.shell(
      this.#switch,
      renderSwitch((host) => names.get(host) ?? '', hosts),
    );
    for (const host of hosts) await namespaces.shell(names.get(host.name) ?? '', renderHost(host, []));
    const make = ({ name }: Host) => new SeatNode(name, namespaces, names.get(name) ?? '');
    this.#client = make(outsider);
    this.nodes = masters.map(make);
  }

  get client(): SeatNode {
    if (this.#client === null) throw new Error('the network is not up');
    return this.#client;
  }

  async setCable(node: SeatNode, isPlugged: boolean): Promise<void> {
    await this.#namespaces?.shell(this.#switch, `ip link set ${node.name} ${isPlugged ? 'up' : 'down'}`);
  }

  /** Tells all nodes what the API has. */
  update(input: SeatsInput): void {
    for (const node of this.nodes) node.order({ input });
  }

  /**
   * Starts balancers and keepalived on all nodes, and tells them what the API has once each seat is with the first of its nodes: seat 0
   * on the first one. Ends when that has the addresses.
   */
  async start(virtualIps: readonly VirtualIp[]): Promise<void> {
    for (const node of this.nodes) node.startSeats();
    this.update({ pools: [pool], virtualIps: [] });
    await Promise.all(this.nodes.map((node) => node.startKeepalived()));
    await this.waitForOrder();
    if (virtualIps.length === 0) return;
    this.update({ pools: [pool], virtualIps });
    await this.waitForOneHolder(...virtualIps.map(({ metadata }) => metadata.name.replaceAll('-', ':')));
  }

  /** The same with addresses that nobody has to ask the network for: seat 0 has them before anybody holds it, wherever it goes then. */
  async startWith(virtualIps: readonly VirtualIp[]): Promise<void> {
    for (const node of this.nodes) node.startSeats();
    this.update({ pools: [pool], virtualIps });
    await Promise.all(this.nodes.map((node) => node.startKeepalived()));
    await this.waitForOneHolder(...anchors);
  }

  async waitForOneHolder(...addresses: string[]): Promise<void> {
    let last = '';
    await waitUntil(
      async () => {
        const lists = await Promise.all(this.nodes.map(async (node) => new Set(await node.listAddresses())));
        const holders = addresses.map((one) =>
          this.nodes.filter((_, at) => lists[at]?.has(one)).map(({ name }) => name),
        );
        last = JSON.stringify(holders.slice(0, 10));
        return holders.every(({ length }) => length === 1);
      },
      () => `not one holder of each of ${addresses.join(', ')}: ${last}\n${this.describe()}`,
    );
  }

  /** Waits until each seat is held by the first of its nodes, which says so. */
  async waitForOrder(): Promise<void> {
    await waitUntil(
      () =>
        seats.every(({ index, nodes: [first] }) =>
          this.nodes.every(({ name, held }) => held.includes(`default/${index}`) === (name === first)),
        ),
      'seats are not in order',
    );
  }

  async findHolder(address: string): Promise<SeatNode> {
    const [name] = await this.listHolders(address);
    const node = this.nodes.find((one) => one.name === name);
    if (node === undefined) throw new Error(`nobody holds ${address}`);
    return node;
  }

  countTransitions(): number[] {
    return this.nodes.map((node) => node.countTransitions());
  }

  /** All that was told and logged, for a failing test. */
  describe(): string {
    return this.nodes
      .map(({ name, told, keepalivedLog }) => `${name}: ${JSON.stringify(told)}\n${keepalivedLog}`)
      .join('\n');
  }

  async listHolders(address: string): Promise<string[]> {
    const lists = await Promise.all(this.nodes.map((node) => node.listAddresses()));
    return this.nodes.filter((_, index) => lists[index]?.includes(address)).map(({ name }) => name);
  }

  async close(): Promise<void> {
    await this.#namespaces?.close();
  }
}

/** A network that is up for each test, with nothing running on it. */
export function useSeatNetwork(): SeatNetwork {
  const network = new SeatNetwork();
  beforeEach(() => network.open());
  afterEach(() => network.close());
  return network;
}
