import type {
  DriverContext,
  LoadBalancerDriver,
  Balancer,
  Member,
  Capabilities,
  BalancerId,
  Listener,
} from '../driver.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Address } from '../../lib/net.ts';

/** What the suite tries: a device, and a driver of it. */
export interface ConformanceTarget {
  /** Makes a driver of the device for a cluster. Each of them is as a process of its own: no two share any memory. */
  readonly open: (cluster: string, context: DriverContext) => LoadBalancerDriver;
  readonly clock: Clock;
  /** Where the suite may put balancers; `documentationSites` unless given. */
  readonly sites?: Sites;
  /** What it can do to its device in addition to the driver; an action that is missing is not tried. */
  readonly actions?: TargetActions;
}

/** Addresses and ports that nothing else uses on the device, and that it may listen at, and send connections to. */
export interface Sites {
  /** At least 5. */
  readonly ipv4: readonly Address[];
  /** Without any, IPv6 is not tried. */
  readonly ipv6: readonly Address[];
  /** At which balancers listen: at least 3. */
  readonly ports: readonly number[];
  /** At least 4. */
  readonly memberIpv4: readonly Address[];
  /** At least 2 for a device that can IPv6. */
  readonly memberIpv6: readonly Address[];
  /** At least 2. */
  readonly memberPorts: readonly number[];
}

/** What happens to devices. Each ends when it has happened. */
export interface TargetActions {
  /** Another unit of the pair becomes the active one. */
  readonly switchRole?: () => Promise<void>;
  /** The active unit starts again, with what it has saved. */
  readonly restart?: () => Promise<void>;
  /** The device loses all its configuration. */
  readonly forget?: () => Promise<void>;
  /** No unit answers any more, until what this answers is called. */
  readonly disconnect?: () => Promise<Undo>;
  /** The device refuses all that would change it, until what this answers is called. */
  readonly refuseWrites?: () => Promise<Undo>;
  /** The device does what the next request says, and its answer gets lost. */
  readonly loseNextAnswer?: () => Promise<void>;
  /** The device takes requests and answers none of them, until what this answers is called. */
  readonly holdAnswers?: () => Promise<Undo>;
  /** All objects of the device, whoever's, as texts that differ where anything of them does. Sessions and counters are not in it. */
  readonly listObjects?: () => Promise<readonly string[]>;
  /** Another user makes an object on the device. */
  readonly createForeign?: () => Promise<ForeignObject>;
  /** Another user changes something, and does not apply it. */
  readonly changePending?: () => Promise<PendingChange>;
  /** A client connects to a balancer's first listener, which sends it to one of its members. */
  readonly openSession?: (balancer: Balancer) => Promise<Session>;
}

/** Ends something. */
type Undo = () => Promise<void>;

/** An object of another user. */
interface ForeignObject {
  /** A text that differs where anything of it does. */
  readonly read: () => Promise<string>;
  readonly remove: () => Promise<void>;
}

/** A change of another user that waits to be applied. */
export interface PendingChange {
  /** Whether it still waits as it was made. */
  readonly isPending: () => Promise<boolean>;
  readonly revert: () => Promise<void>;
}

/** A client's open connection. */
export interface Session {
  /** At which member it ends. */
  readonly member: Pick<Member, 'address' | 'port'>;
  readonly isOpen: () => Promise<boolean>;
  readonly close: () => Promise<void>;
}

/**
 * The clusters that the suite says it is. The name of one is the beginning of the other's, which is as long as it may be: whoever tells
 * clusters by the beginning of a text fails.
 */
export const testClusters = ['vipnat-conformance', 'vipnat-conformance-with-the-longest-name'] as const;

/** Addresses for documentation (RFC 5737, RFC 3849), which no network routes. */
export const documentationSites: Sites = {
  ipv4: listAddresses('ipv4', 200, (index) => `192.0.2.${index}`),
  ipv6: listAddresses('ipv6', 2, (index) => `2001:db8::${index}`),
  ports: [8080, 8081, 8443],
  memberIpv4: listAddresses('ipv4', 200, (index) => `198.51.100.${index}`),
  memberIpv6: listAddresses('ipv6', 2, (index) => `2001:db8:1::${index}`),
  memberPorts: [30080, 30443],
};

function listAddresses(
  family: Address['family'],
  count: number,
  write: (index: number) => string,
): Address[] {
  return Array.from({ length: count }, (_, at) => ({ family, text: write(at + 1) }));
}

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
