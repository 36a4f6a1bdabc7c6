import type { Balancer, BalancerId, Capabilities, Listener, Member } from '../driver.ts';
import type { Address } from '../../lib/net.ts';

/** The clusters of the suite. One's name begins the other's, which is as long as it may be: whoever tells clusters by a text's beginning fails. */
export const testClusters = ['vipnat-conformance', 'vipnat-conformance-with-the-longest-name'] as const;

/** Addresses and ports that nothing else uses on the device, and that it may listen at, and send connections to. */
export interface Sites {
  /** At least 5. */
  readonly ipv4: readonly Address[];
  /** Without any, IPv6 is not tried. */
  readonly ipv6: readonly Address[];
  /** At which balancers listen: at least 3. */
  readonly ports: readonly number[];
  /** At least one. */
  readonly memberIpv4: readonly Address[];
  /** At least one for a device that can IPv6. */
  readonly memberIpv6: readonly Address[];
  /** Two for each member of an address. There are at least four members of a family. */
  readonly memberPorts: readonly number[];
}

/** Addresses for documentation (RFC 5737, RFC 3849), which no network routes. */
export const documentationSites: Sites = {
  ipv4: listAddresses('ipv4', '192.0.2.', 200),
  ipv6: listAddresses('ipv6', '2001:db8::', 2),
  ports: [8080, 8081, 8443],
  memberIpv4: listAddresses('ipv4', '198.51.100.', 200),
  memberIpv6: listAddresses('ipv6', '2001:db8:1::', 2),
  memberPorts: [30080, 30443],
};

function listAddresses(family: Address['family'], prefix: string, count: number): Address[] {
  return Array.from({ length: count }, (_, at) => ({ family, text: `${prefix}${at + 1}` }));
}

/** The balancers that checks want, as far as a device can have them. */
export class Shapes {
  readonly sites: Sites;
  readonly #capabilities: Capabilities;

  constructor(sites: Sites, capabilities: Capabilities) {
    this.sites = sites;
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
      method: take(this.methods, 0),
      affinityS: null,
    };
  }

  /** `plain` after a change of all that a device can change: a member went, one came; a listener went, one came. */
  changed(): Balancer {
    const [first, method = first] = this.methods;
    return {
      ...this.plain(),
      listeners: [
        this.listener(0, [this.member(1), this.member(2)]),
        this.listener(2, [this.member(1), this.member(2, 1)]),
      ],
      ...(method === undefined ? {} : { method }),
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

  /** A Service that is made again under its name: of `plain` it has neither address nor members. */
  successor(id: Partial<BalancerId> = {}): Balancer {
    return {
      ...this.plain({ ...id, uid: writeUid(2) }),
      addresses: [this.address(1)],
      listeners: [this.listener(0, [this.member(2)])],
    };
  }

  /** `plain` with one listener, which has these members. */
  withMembers(...members: readonly Member[]): Balancer {
    return { ...this.plain(), listeners: [this.listener(0, members)] };
  }

  /** All that the device has. */
  get methods(): readonly Balancer['method'][] {
    return this.#capabilities.methods;
  }

  id(part: Partial<BalancerId> = {}): BalancerId {
    return { cluster: testClusters[0], namespace: 'shop', name: 'web', uid: writeUid(1), ...part };
  }

  /** Of IPv4. */
  address(index: number): Address {
    return take(this.sites.ipv4, index);
  }

  ipv6Address(index: number): Address {
    return take(this.sites.ipv6, index);
  }

  listener(port: number, members: readonly Member[], protocol: 'tcp' | 'udp' = 'tcp'): Listener {
    return { protocol, port: take(this.sites.ports, port), members };
  }

  /** Of IPv4, each with two ports. Where addresses are few, each has several members. */
  member(at: number, port = 0, weight = 1, all = this.sites.memberIpv4): Member {
    const ofMember = 2 * Math.floor(at / all.length);
    return {
      address: take(all, at % all.length),
      port: take(this.sites.memberPorts, ofMember + port),
      weight,
    };
  }

  ipv6Member(at: number): Member {
    return this.member(at, 0, 1, this.sites.memberIpv6);
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
