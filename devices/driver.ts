import { type Address, parseAddress } from '../lib/net.ts';
import type { Clock } from '../lib/clock.ts';
import { X509Certificate } from 'node:crypto';
import { VipnatError } from '../lib/errors.ts';

/** Why a device did not answer as it should. */
export class DeviceError extends Error {
  override readonly name = 'DeviceError';
  readonly kind: DeviceErrorKind;

  constructor(kind: DeviceErrorKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

/** Null for a DeviceError; throws any other error. For `catch`. */
export function ignoreDeviceError(error: unknown): null {
  if (error instanceof DeviceError) return null;
  throw error;
}

/** What came between. */
export type DeviceErrorKind =
  /** No unit that is needed answers. */
  | 'unreachable'
  /** A unit does not take the credentials. */
  | 'unauthorized'
  /** No unit is active, or both say that they are. */
  | 'no-active-unit'
  /** Another unit became active meanwhile. */
  | 'role-changed'
  /** Another user's changes wait to be applied: applying vipnat's would apply them, too. */
  | 'foreign-changes'
  /** A unit says that it cannot do this. */
  | 'refused'
  /** Its answer cannot be read. */
  | 'nonsense';

/** What an object's name begins with, unlike other users' and clusters': `vipnat_CLUSTER_NAMESPACE_NAME_UID`. Kubernetes' have no underscores. */
export function formatMark({ cluster, namespace, name, uid }: BalancerId): string {
  return ['vipnat', cluster, namespace, name, uid].join('_');
}

/** Whose an object is, by its name; null where it is not of this cluster. What follows the mark after an underscore is `rest`. */
export function parseMark(
  text: string,
  cluster: string,
): { readonly id: BalancerId; readonly rest: readonly string[] } | null {
  const [program, ofCluster, namespace = '', name = '', uid = '', ...rest] = text.split('_');
  if (program !== 'vipnat' || ofCluster !== cluster || uid === '') return null;
  return { id: { cluster, namespace, name, uid }, rest };
}

/** Whether an identity that is written next to a mark is another cluster's. Who knows no identity of its own takes all for its own. */
export function isOtherCluster(written: string | undefined, own: string | undefined): boolean {
  return written !== undefined && written !== (own ?? written);
}

/** Whether a cluster may have this name: lower case letters, digits and `-`, 40 at most, and none of the three at an end but the first two. */
export function isClusterName(text: string): boolean {
  return /^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$/.test(text);
}

/**
 * What a driver of a load balancer outside of the cluster promises.
 *
 * Goal: a device is what Services want, whatever happened to it, to this process or between both.
 * Tension: devices have no transactions across calls, forget, change their roles, and have other users.
 * Compromise: a driver has no memory. Each call reads the device first and writes what differs. The controller calls it again until nothing does.
 *
 * `vipnat device conformance` tries all of this on any driver: docs/drivers.md.
 */

/** Whose a balancer is. Its cluster and uid are the mark that each object of vipnat on a device has, as `formatMark` writes it. */
export interface BalancerId {
  /** The name of the cluster, as configured for each device: two clusters on one device have different ones. */
  readonly cluster: string;
  readonly namespace: string;
  readonly name: string;
  /** Of the Service: one that is created again under its old name is another one. */
  readonly uid: string;
}

/** How a device chooses a member for a new connection: in turn, one with few open connections, by the client's address. */
export type DeviceMethod = 'rr' | 'lc' | 'hash';

/** What a Service is to be on a device: the one desired state. */
export interface Balancer {
  readonly id: BalancerId;
  /** At least one; each listener listens at all of them. */
  readonly addresses: readonly Address[];
  /** At least one, and no two of one protocol and port. */
  readonly listeners: readonly Listener[];
  readonly method: DeviceMethod;
  /** For so many seconds a client stays with its member; null for not at all. */
  readonly affinityS: number | null;
}

/** One port of a balancer. */
export interface Listener {
  readonly protocol: 'tcp' | 'udp';
  readonly port: number;
  /** No two of one address and port. None: new connections are refused, or dropped. */
  readonly members: readonly Member[];
}

/** Where connections go. */
export interface Member {
  readonly address: Address;
  readonly port: number;
  /** 0 to 256, relative to the others of its listener. 0 drains: it keeps its open connections, and gets no new ones. */
  readonly weight: number;
}

/** `10.1.2.3:8080`, `[fd00::1]:8080`. */
export function formatMember({ address, port }: Pick<Member, 'address' | 'port'>): string {
  return address.family === 'ipv6' ? `[${address.text}]:${port}` : `${address.text}:${port}`;
}

/** A balancer as lines, which are the same for all that mean the same. */
export function describeBalancer({ id, addresses, listeners, method, affinityS }: Balancer): string[] {
  const name = `${id.cluster}/${id.namespace}/${id.name}/${id.uid}`;
  const affinity = affinityS === null ? 'no affinity' : `affinity of ${affinityS} s`;
  return [
    `${name} ${method}, ${affinity}`,
    ...addresses.map(({ text }) => `${name} at ${text}`),
    ...listeners.flatMap(({ protocol, port, members }) => {
      const place = `${name} ${protocol}/${port}`;
      return [place, ...members.map((one) => `${place} to ${formatMember(one)} weight ${one.weight}`)];
    }),
  ].sort();
}

/** Open connections by member, as `formatMember` writes it: of one member there may be several counts. */
export function sumSessions(counts: Iterable<readonly [Member, number]>): ReadonlyMap<string, number> {
  const memberToSessions = new Map<string, number>();
  for (const [member, count] of counts) {
    const name = formatMember(member);
    memberToSessions.set(name, (memberToSessions.get(name) ?? 0) + count);
  }
  return memberToSessions;
}

/** Each address once, without what is none. */
export function readAddresses(texts: readonly string[]): readonly Address[] {
  const addresses = texts.flatMap((text) => parseAddress(text) ?? []);
  return [...new Map(addresses.map((address) => [address.text, address])).values()];
}

/** None weighs more than `most`: where one does, all weights become smaller by the same factor, and none becomes 0 that was not. */
export function fitWeights<Item extends Pick<Member, 'weight'>>(
  all: readonly Item[],
  most: number,
): readonly Item[] {
  const highest = Math.max(0, ...all.map(({ weight }) => weight));
  if (highest <= most) return all;
  const fit = (weight: number) => (weight === 0 ? 0 : Math.max(1, Math.round((weight * most) / highest)));
  return all.map((item) => ({ ...item, weight: fit(item.weight) }));
}

/** What a device can do. What it cannot is left out, and named in a condition; the suite then does not ask for it. */
export interface Capabilities {
  readonly methods: readonly DeviceMethod[];
  /** Members have weights. Without them each has its share, and 0 alone counts. */
  readonly weights: boolean;
  /** A member with weight 0 keeps its open connections. */
  readonly drain: boolean;
  /** It counts the open connections of each member. */
  readonly sessions: boolean;
  readonly affinity: boolean;
  readonly ipv6: boolean;
  readonly udp: boolean;
  /** Either all of an `ensure` is in force, or nothing of it. */
  readonly atomicCommit: boolean;
  /** Two units, of which one is active. */
  readonly pair: boolean;
  /** Changes on the device that wait to be applied are seen, also those of other users. */
  readonly pendingChanges: boolean;
  /** Each balancer has the identity of its cluster, too. Those of another cluster of the same name stay as they are. False where it is left out. */
  readonly identity?: boolean;
  /** How many `ensure` and `remove` it takes together, of different balancers, as they cost less then. 1 where it is left out. */
  readonly changesAtOnce?: number;
}

/** A balancer of vipnat as the device has it. */
export interface Owned {
  readonly balancer: Balancer;
  /** The identity of another cluster of this name, whose it is. Left out for what is this cluster's, or has no identity. */
  readonly otherCluster?: string | undefined;
  /** Open connections by member, as `formatMember` writes it; null where the device does not count them. */
  readonly memberToSessions: ReadonlyMap<string, number> | null;
}

/** One thing that `ensure` or `remove` would do. `before` is null for what is created, `after` for what is deleted. */
export interface Change {
  /** In the device's own words: `real server vipnat_prod_1f2e_10.1.2.3_8080`. */
  readonly object: string;
  readonly before: string | null;
  readonly after: string | null;
}

/** The outcome of a call. It is never partial: what is not `done` is tried again, and continues from the device's current state. */
export type Progress =
  /** The device has it, and serves so. `unit` is the active one, as it was given; left out where the driver does not say it. */
  | { readonly result: 'done'; readonly unit?: string | undefined }
  /** It is in progress. */
  | { readonly result: 'running'; readonly retryInMs: number; readonly why: string }
  /** However often it is asked: a person has to change something. What serves continues, with the wanted members, as far as the device can. */
  | { readonly result: 'refused'; readonly why: string }
  /** It did not work this time. A unit that is `unauthorized` is asked for nothing more until the credentials may be others. */
  | { readonly result: 'failed'; readonly why: string; readonly kind?: DeviceErrorKind };

/** What a unit of a device says of itself. */
export interface UnitState {
  /** As it was given: a URL or `HOST:PORT`. */
  readonly unit: string;
  readonly role: 'active' | 'standby' | 'unknown' | 'unresponsive';
  /** Whether it has what the active one has; null where nobody can tell. */
  readonly isInSync: boolean | null;
  /** For people: why it is unresponsive, behind or unknown; empty otherwise. */
  readonly why: string;
}

/** Whether a unit could not follow the active one, as far as anybody can tell. */
export function isBehind({ role, isInSync }: Pick<UnitState, 'role' | 'isInSync'>): boolean {
  return role === 'unresponsive' || role === 'unknown' || isInSync === false;
}

/** What a device says of itself. */
export interface DeviceState {
  readonly units: readonly UnitState[];
  /** What other users have changed and not applied, as the device prints it; empty for nothing. It is published: without passwords and keys. */
  readonly foreignChanges: readonly string[];
}

/**
 * A driver. All methods may be called again and again, and end at `signal`. One caller at a time changes anything.
 * They reject with a DeviceError; `ensure` and `remove` never reject, unless `signal` ends them.
 */
export interface LoadBalancerDriver {
  readonly capabilities: Capabilities;
  /** All that has vipnat's mark and this cluster's name. Other users' objects are not listed. */
  list(signal: AbortSignal): Promise<readonly Owned[]>;
  /** What `ensure` would do. Writes nothing. Empty when the device has it. Rejects with a DeviceError `refused` what `ensure` would refuse. */
  plan(wanted: Balancer, signal: AbortSignal): Promise<readonly Change[]>;
  /** Makes it so: first what is new, then what changes, then weights of 0, and at last what goes. `done` only when the device serves so. */
  ensure(wanted: Balancer, signal: AbortSignal): Promise<Progress>;
  /** Takes away all that has its mark. Absence is `done`. */
  remove(id: BalancerId, signal: AbortSignal): Promise<Progress>;
  /**
   * For a device that forgets: the balancers that the cluster has served there, after each of them was compared since a unit said that it may lack
   * some. Only this makes such a unit `isInSync`, where no other unit has all. `failed` where one is lacking. As `ensure`, it never rejects.
   */
  readonly confirm?: ((all: readonly BalancerId[], signal: AbortSignal) => Promise<Progress>) | undefined;
  /** Reads only. */
  readState(signal: AbortSignal): Promise<DeviceState>;
}

/** A device, as its LoadBalancerDevice and Secret say. */
export interface DeviceSettings {
  /** Of its LoadBalancerDevice. */
  readonly name: string;
  readonly cluster: string;
  /** What no other cluster of this name has: 8 hexadecimal digits. Left out where it is not known; then all of the name is this cluster's. */
  readonly identity?: string | undefined;
  /** One, or two of a pair: URLs, or `HOST:PORT`, as the driver documents. */
  readonly units: readonly string[];
  readonly credentials: { readonly username: string; readonly password: string } | null;
  /** What signs the certificates of the units, as PEM; null for what the system trusts. */
  readonly ca: string | null;
  /** What the driver documents. */
  readonly options: Readonly<Record<string, string>>;
}

/** What the caller supplies to a driver. */
export interface DriverContext {
  readonly clock: Clock;
  /**
   * To be called right before each request to a unit, with a name for it. What it throws goes up unchanged: then nothing was sent. The
   * controller paces and counts with it, and the suite ends a driver between any two calls.
   */
  readonly beforeCall: (call: string) => Promise<void> | void;
}

/** Makes a driver. Throws VipnatError DEVICE_SETTINGS_INVALID where settings cannot be meant. Opens nothing yet. */
export type CreateDriver = (settings: DeviceSettings, context: DriverContext) => LoadBalancerDriver;

/** That settings cannot be meant: DEVICE_SETTINGS_INVALID. `what` continues the sentence. */
export type Refuse = (what: string) => VipnatError;

/** For these settings. */
export function refuseSettings({ name }: Pick<DeviceSettings, 'name'>): Refuse {
  return (what) => new VipnatError('DEVICE_SETTINGS_INVALID', `device ${name} cannot be used: ${what}`);
}

/** Checks what all drivers ask of settings, and answers the credentials. @throws VipnatError DEVICE_SETTINGS_INVALID */
export function checkSettings(settings: DeviceSettings): NonNullable<DeviceSettings['credentials']> {
  const { cluster, units, credentials, ca } = settings;
  const refuse = refuseSettings(settings);
  if (!isClusterName(cluster)) throw refuse(`the cluster's name ${JSON.stringify(cluster)} is none`);
  if (units.length < 1 || units.length > 2) throw refuse(`it has ${units.length} units: give one or two`);
  if (credentials === null) {
    const where = 'name them in spec.credentialsSecret, for vipnat device by --credentials';
    throw refuse(`it has no credentials: ${where}`);
  }
  if (ca !== null && !isCertificate(ca)) throw refuse('its CA is not a certificate in PEM');
  return credentials;
}

function isCertificate(text: string): boolean {
  try {
    new X509Certificate(text);
    return true;
  } catch {
    return false;
  }
}

/** That both units of a pair are one. */
export function refuseSameUnits(refuse: Refuse, units: readonly string[]): void {
  if (new Set(units).size < units.length) throw refuse('both units are the same: give two or one');
}

/** That an option is none of the known ones, which the driver lists. */
export function refuseUnknown(refuse: Refuse, others: object, known: string): void {
  const [other] = Object.keys(others);
  if (other !== undefined) throw refuse(`option ${JSON.stringify(other)} is unknown: ${known} are known`);
}
