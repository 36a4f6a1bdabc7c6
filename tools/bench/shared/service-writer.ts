import {
  type Order,
  type EndpointPort,
  type BenchService,
  orderBasics,
  orderPool,
  orderServices,
  servicesPath,
  orderRest,
} from './service-objects.ts';
import type { Host } from '../../../test/support/network/layout.ts';
import { virtualIps } from '../../../lib/api/vipnat.ts';

/** A cluster's API, as whoever writes many objects needs it. */
export interface ObjectStore {
  readonly api: { read(path: string): Promise<unknown> };
  /** Writes objects; rejects with what the API does not take. */
  write(orders: readonly Order[]): Promise<void>;
  /** Waits until there is something at a path. */
  waitFor(path: string): Promise<void>;
}

/** Writes Services, with all that controllers would write of them. */
export class ServiceWriter {
  readonly #cluster: ObjectStore;
  readonly #port: EndpointPort;
  #services: readonly BenchService[] = [];

  constructor(cluster: ObjectStore, port: EndpointPort) {
    this.#cluster = cluster;
    this.#port = port;
  }

  /** Those that there are. */
  get services(): readonly BenchService[] {
    return this.#services;
  }

  /** Namespaces, kinds, nodes, and the pool whose one seat these nodes may hold, the first one first. */
  async writeBasics(nodes: readonly Host[], network: string, holders: readonly string[]): Promise<void> {
    await this.#cluster.write(
      orderBasics(nodes.map(({ name, addresses }) => ({ name, address: addresses.ipv4 }))),
    );
    await this.#cluster.waitFor(virtualIps.path);
    await this.#cluster.write(orderPool(network, holders));
  }

  /** Adds those that are not there yet. */
  async growTo(services: readonly BenchService[]): Promise<void> {
    const more = services.slice(this.#services.length);
    await this.#cluster.write(orderServices(more, this.#port));
    const { items } = (await this.#cluster.api.read(servicesPath)) as {
      readonly items: readonly { readonly metadata: { readonly name: string; readonly uid: string } }[];
    };
    const nameToUid = new Map(items.map(({ metadata: { name, uid } }) => [name, uid]));
    await this.#cluster.write(orderRest(more, this.#port, nameToUid));
    this.#services = services;
  }
}
