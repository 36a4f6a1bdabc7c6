import { type Address } from '../../address/address.ts';
import { type Clock } from '../../control/clock.ts';
import { type Balancer, type DriverContext, type LoadBalancerDriver, type Member } from '../driver.ts';

/** What the suite tries: a device, and a driver of it. */
export interface ConformanceTarget {
  /** Makes a driver of the device for a cluster. Each of them is as a process of its own: no two share any memory. */
  readonly open: (cluster: string, context: DriverContext) => LoadBalancerDriver;
  readonly clock: Clock;
  /** Where the suite may put balancers; `documentationSites` unless given. */
  readonly sites?: Sites;
  /** What it can do to its device beside the driver; what is not there is not tried. */
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
  readonly silence?: () => Promise<Undo>;
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
export type Undo = () => Promise<void>;

/** An object of another user. */
export interface ForeignObject {
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
