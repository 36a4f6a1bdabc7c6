import { type Address } from '../../address/address.ts';
import { type Balancer, type BalancerId, type Capabilities, type Listener, type Member } from '../driver.ts';
import { type Sites, testClusters } from './target.ts';

/** The balancers that checks want, as far as a device can have them. */
export class Shapes {
  readonly #sites: Sites;
  readonly #capabilities: Capabilities;

  constructor(sites: Sites, capabilities: Capabilities) {
    this.#sites = sites;
    this.#capabilities = capabilities;
  }

  /** An address, two listeners of TCP, and two members for each. */
  plain(id: Partial<BalancerId> = {}): Balancer {
    return {
      id: this.id(id),
      addresses: [this.address(0)],
      listeners: [
        this.listener(0, [this.member(0), this.member(1)]),
        this.listener(1, [this.member(0, 1), this.member(1, 1)]),
      ],
      method: this.method(0),
      affinityS: null,
    };
  }

  /** `plain` after a change of all that a device can change: a member went, one came; a listener went, one came. */
  changed(): Balancer {
    const [method, otherMethod = method] = this.#capabilities.methods;
    return {
      ...this.plain(),
      listeners: [
        this.listener(0, [this.member(1), this.member(2)]),
        this.listener(2, [this.member(1), this.member(2, 1)]),
      ],
      method: otherMethod ?? this.method(0),
      affinityS: this.#capabilities.affinity ? 600 : null,
    };
  }

  /** Others of the same cluster, from 1 on: each with an address of its own, and none of the first four. */
  another(index: number): Balancer {
    const id = { name: `another-${index}`, uid: writeUid(100 + index) };
    return {
      ...this.plain(id),
      addresses: [this.address(index + 3)],
      listeners: [this.listener(0, [this.member(index % 3)])],
    };
  }

  /** All that the device has. */
  get methods(): readonly Balancer['method'][] {
    return this.#capabilities.methods;
  }

  /** How many others there can be. */
  get anotherCount(): number {
    return this.#sites.ipv4.length - 4;
  }

  /** How many members differ. */
  get memberCount(): number {
    return this.#sites.memberIpv4.length;
  }

  id(part: Partial<BalancerId> = {}): BalancerId {
    return { cluster: testClusters[0], namespace: 'shop', name: 'web', uid: writeUid(1), ...part };
  }

  /** Of IPv4. */
  address(index: number): Address {
    return take(this.#sites.ipv4, index);
  }

  ipv6Address(index: number): Address {
    return take(this.#sites.ipv6, index);
  }

  listener(port: number, members: readonly Member[], protocol: 'tcp' | 'udp' = 'tcp'): Listener {
    return { protocol, port: take(this.#sites.ports, port), members };
  }

  /** Of IPv4. */
  member(address: number, port = 0, weight = 1): Member {
    return {
      address: take(this.#sites.memberIpv4, address),
      port: take(this.#sites.memberPorts, port),
      weight,
    };
  }

  ipv6Member(address: number): Member {
    return {
      address: take(this.#sites.memberIpv6, address),
      port: take(this.#sites.memberPorts, 0),
      weight: 1,
    };
  }

  method(index: number): Balancer['method'] {
    return take(this.#capabilities.methods, index);
  }
}

/** As long as those of Kubernetes. */
export function writeUid(index: number): string {
  return `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`;
}

function take<Item>(items: readonly Item[], index: number): Item {
  const item = items[index];
  if (item === undefined) throw new RangeError(`the target's sites have no item ${index} of a kind`);
  return item;
}
