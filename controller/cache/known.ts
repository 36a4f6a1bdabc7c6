import type { Change } from '../../lib/kubernetes/informer.ts';
import { type NodeReport, type Namespace, type Node, type ServiceCidr } from '../../lib/api/node.ts';
import type { Service, ServiceSlice } from '../../lib/api/service.ts';
import type { VirtualIp, AddressPool } from '../../lib/api/vipnat.ts';
import type { EndpointSlice } from '../../lib/kubernetes/client.ts';
import type { Pod, EarlySlice } from '../../lib/api/endpoints.ts';
import type { LoadBalancerDevice, DeviceNode, DeviceUnit, DeviceDrain } from '../../lib/api/device.ts';
import type { BalancerId } from '../../devices/driver.ts';
import type { AddressRange } from '../../lib/net.ts';

/** What steps are asked for: each has its own place in the queue. */
export interface StepKey {
  /** See `Kind`. */
  readonly kind: string;
  /** `NAMESPACE/NAME`, or the name alone. */
  readonly key: string;
}

/** What keys can wait for. A change of what a kind watches is always such a thing. */
export type WaitsFor =
  /** A report of a node, a node that comes or goes, a Lease that ran out. */
  | 'nodes'
  /** A VirtualIP that is deleted or given back, a pool, a namespace's labels. */
  | 'addresses'
  /** Each of both: one address is missing, and nodes are to have another one. */
  | 'nodes or addresses'
  /** Time alone: see `untilMs`. */
  | 'time';

/** Whether what has happened is what a key waits for. */
export function isWoken(waitsFor: WaitsFor, wakes: ReadonlySet<WaitsFor>): boolean {
  if (waitsFor === 'nodes or addresses') return wakes.has('nodes') || wakes.has('addresses');
  return wakes.has(waitsFor);
}

/** What is to be checked after a change: these keys, and all keys whose last step waits for one of these. */
export interface Affected {
  readonly keys: readonly StepKey[];
  readonly wakes: ReadonlySet<WaitsFor>;
}

/** What can be watched: objects, and what the cache concludes. */
interface Watchable extends Objects {
  /** A pool, or what others have, has changed: all pools are judged again. */
  readonly judgements: true;
  /** By the names of pools: other addresses of the pool are excluded. */
  readonly exclusions: true;
}

/** A name of one. */
export type Source = keyof Watchable;

/** What a change means for a kind. */
export interface Watching<T> {
  /** What of an object is of interest, to be compared as JSON: a change of anything else is no news. All of it unless given. */
  readonly part?: (object: T) => unknown;
  /** The keys of the kind that are to be checked. */
  readonly toKeys?: (change: Change<T>, known: Known) => Iterable<string>;
  /** Whether `toKeys` is asked before the change, too: the objects that it finds then are not to be found any more afterwards. */
  readonly isAskedBefore?: true;
  /** Which keys that wait, of whatever kind, are to be checked. */
  readonly wakes?: (change: Change<T>, known: Known) => readonly WaitsFor[];
}

/** What changes of a source mean for a kind. */
export type Watch = { [S in Source]: { readonly source: S } & Watching<Watchable[S]> }[Source];

/** The keys of the Services of a node's pods. */
export function listServicesOfNode({ key }: { readonly key: string }, known: Known): string[] {
  return listAll(known.nodeToPods.get(key), known.podToServices);
}

/** All that some keys are found by. */
export function listAll(keys: Iterable<string> | undefined, found: Found): string[] {
  return [...(keys ?? [])].flatMap((key) => [...(found.get(key) ?? [])]);
}

/** What a list has of an object before a change, and after it. */
export function listBoth<T>(
  { before, after }: Change<T>,
  list: (object: T) => readonly string[],
): readonly [was: readonly string[], is: readonly string[]] {
  return [before === null ? [] : list(before), after === null ? [] : list(after)];
}

/** The key of the Service of what a device has. */
export function listServed({ id: { namespace, name } }: DeviceBalancer): string[] {
  return [`${namespace}/${name}`];
}

/** Gathers what a change means. */
export class News implements Affected {
  readonly #textToKey = new Map<string, StepKey>();
  readonly wakes = new Set<WaitsFor>();

  /** Each once. */
  get keys(): readonly StepKey[] {
    return [...this.#textToKey.values()];
  }

  add(kind: string, keys: Iterable<string>): void {
    for (const key of keys) this.#textToKey.set(`${kind}/${key}`, { kind, key });
  }

  wake(waits: Iterable<WaitsFor>): void {
    for (const wait of waits) this.wakes.add(wait);
  }

  join(...others: readonly Affected[]): this {
    for (const { kind, key } of others.flatMap(({ keys }) => keys)) this.add(kind, [key]);
    for (const { wakes } of others) this.wake(wakes);
    return this;
  }
}

/** Whether a change is one of what is of interest. */
export function isNews<T>({ before, after }: Change<T>, part?: (object: T) => unknown): boolean {
  if (part === undefined) return true;
  const [was, is] = [before, after].map((object) => (object === null ? null : (part(object) ?? 0)));
  return JSON.stringify(was) !== JSON.stringify(is);
}

/** What is configured at the controller's start. */
export interface Settings {
  /** Services without a class are vipnat's, too. */
  readonly isDefaultClass: boolean;
  /** The types of readiness gates that wait for nodes. */
  readonly gateTypes: ReadonlySet<string>;
  /** Where the Leases of nodes are. Without it they are read only. */
  readonly namespace?: string;
  /** The device of Services without a class that have annotations of another controller of devices. None unless given. */
  readonly defaultDevice?: string;
}

/** The Lease of a node, as it was received last. */
interface ReceivedLease {
  readonly metadata: { readonly name: string; readonly uid: string; readonly resourceVersion: string };
  readonly node: string;
  readonly renewal: string;
  /** The renewal since which a controller has judged it to be over; null for none. */
  readonly noted: string | null;
  /** Whether it was renewed since it was received first. Else nobody knows how old it is. */
  readonly isProven: boolean;
}

/** What there is, by the names of sources: all objects of each, by their keys. */
export interface Objects {
  /** All Services, whatever their type: by `NAMESPACE/NAME`. */
  readonly services: Service;
  readonly virtualIps: VirtualIp;
  readonly pools: AddressPool;
  readonly namespaces: Namespace;
  readonly nodes: Node;
  readonly serviceCidrs: ServiceCidr;
  readonly apiservers: EndpointSlice;
  /** Pods with a gate or a weight, and those that are about to be evicted, by `NAMESPACE/NAME`. */
  readonly pods: Pod;
  /** By `NAMESPACE/NAME`. */
  readonly earlySlices: EarlySlice;
  /** The Leases of nodes, whatever they say. */
  readonly leases: ReceivedLease;
  /** Nodes whose Lease lives, to what they last reported. See `NodeLeases`. */
  readonly livingReports: NodeReport;
  /** Nodes whose Lease is over, with the last renewal and report that were received. Those that do not exist are among them. */
  readonly unresponsiveNodes: { readonly renewal: string; readonly report: NodeReport };
  readonly devices: LoadBalancerDevice;
  /** By `NAMESPACE/NAME`, where there are devices. */
  readonly endpointSlices: ServiceSlice;
  /** Nodes as targets, where there are devices. */
  readonly deviceNodes: DeviceNode;
  /** By the names of devices. */
  readonly deviceReports: DeviceReport;
  /** By `DEVICE UID`: see `toBalancerKey`. */
  readonly deviceBalancers: DeviceBalancer;
}

type Found = ReadonlyMap<string, ReadonlySet<string>>;

/** What finds objects. */
export interface Indexes {
  /** Keys of Services to names of the VirtualIPs that have them in `services` or `leaving`. */
  readonly serviceToVirtualIps: Found;
  /** Share keys to names of the VirtualIPs that are shared under them. */
  readonly shareKeyToVirtualIps: Found;
  /** Pools to names of the VirtualIPs that are of them. */
  readonly poolToVirtualIps: Found;
  /** The same family by family: see `nameFamily`. */
  readonly familyToVirtualIps: Found;
  /** Addresses, in canonical text, to keys of the Services whose status has them, of whatever class. */
  readonly addressToPublishers: Found;
  /** Addresses, in canonical text, to keys of the Services that name them for themselves. */
  readonly addressToRequesters: Found;
  /** `NAMESPACE/LABEL=VALUE`, the first one of a selector, to keys of Services. */
  readonly labelToServices: Found;
  /** Keys of Services to keys of their early EndpointSlices. */
  readonly serviceToSlices: Found;
  /** The uids of pods to keys of the early EndpointSlices that have them, and to keys of the pods. */
  readonly uidToSlices: Found;
  readonly uidToPods: Found;
  readonly namespaceToPods: Found;
  readonly nodeToPods: Found;
  /** Keys of Services to keys of Kubernetes' own EndpointSlices of them. */
  readonly serviceToEndpointSlices: Found;
  /** Names of devices to keys of the Services that choose them, or that they may have something of. */
  readonly deviceToServices: Found;
  /** Keys of Services to keys of what devices have of them. */
  readonly serviceToBalancers: Found;
  /** Addresses, in canonical text, to keys of what devices have there. */
  readonly addressToBalancers: Found;
  /** Addresses, in canonical text, to keys of the Services that ask a device for them. */
  readonly addressToAskers: Found;
}

/** All that is known of objects. It can be behind the API: versions and confirmations of a step are for that. */
export interface Known extends Indexes, Readonly<{ [S in keyof Objects]: ReadonlyMap<string, Objects[S]> }> {
  /** Keys of Services of type LoadBalancer to keys of the pods that they select, and back. */
  readonly serviceToPods: Found;
  readonly podToServices: Found;
  /** Keys of early EndpointSlices to: endpoints, as they are now, to the first version that is known to have them so. See `toEndpointText`. */
  readonly sliceToSince: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** VirtualIPs that somebody deleted while Services had them, or gave them back, as they were: until they are there again. */
  readonly lostVirtualIps: ReadonlyMap<string, VirtualIp>;
  /** The pools, with their ranges read, and why nothing is given of some. */
  readonly judgedPools: ReadonlyMap<string, JudgedPool>;
  readonly settings: Settings;
}

/** Keys to sets of names. A key without names is not there. */
export class MultiMap {
  readonly #map = new Map<string, Set<string>>();

  /** A view, which changes with it. */
  readonly map: ReadonlyMap<string, ReadonlySet<string>> = this.#map;

  /** A name that had some keys has others now. */
  move(name: string, before: Iterable<string>, after: Iterable<string>): void {
    for (const key of before) {
      const names = this.#map.get(key);
      names?.delete(name);
      if (names?.size === 0) this.#map.delete(key);
    }
    for (const key of after) findOrAdd(this.#map, key, () => new Set()).add(name);
  }
}

/** What a key stands for; made where there is nothing yet. */
export function findOrAdd<K, T>(map: Map<K, T>, key: K, make: () => T): T {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}

/** Puts what a key stands for now; null removes it. */
export function put<T>(map: Map<string, T>, key: string, value: T | null): void {
  if (value === null) map.delete(key);
  else map.set(key, value);
}

/** The texts that one of two lists has and the other has not, each once. Its cost grows with their lengths, not with the square. Pure. */
export function listDiffering(old: Iterable<string> = [], now: Iterable<string> = []): string[] {
  const [were, are] = [new Set(old), new Set(now)];
  return [...[...were].filter((text) => !are.has(text)), ...[...are].filter((text) => !were.has(text))];
}

/** What the controller's writers of devices say of them: steps are decided from it, as from the reports of nodes. It is as old as this leadership. */

/** How a device does. */
export interface DeviceReport {
  /** Of the LoadBalancerDevice that this is about. */
  readonly generation: number;
  readonly units: readonly DeviceUnit[];
  /** How many Services it has something of; null before that was read. */
  readonly balancers: number | null;
  /** What other users have changed there and not applied: the first 10. */
  readonly foreignChanges: readonly string[];
  /** Members that get no new connections: the 100 that have drained for longest. */
  readonly draining: readonly DeviceDrain[];
  readonly isReady: boolean;
  readonly reason: string;
  readonly message: string;
}

/** What one device has of one Service. */
export interface DeviceBalancer {
  readonly device: string;
  readonly id: BalancerId;
  readonly deviceStatus:
    /** It serves the Service at these addresses, or did so when it said something last. */
    | 'serves'
    /** It has something of it, or may have it soon. */
    | 'unknown'
    /** It has nothing of it. */
    | 'absent';
  /** Canonical texts: nobody else gets them meanwhile. */
  readonly addresses: readonly string[];
  /** Why the device does not do what the Service wants; null where it does, or may do it soon. */
  readonly problem: DeviceProblem | null;
  /** What of the Service's requests it leaves out: a sentence. Null for nothing. */
  readonly remark: string | null;
  /** The uids of pods with readiness gates that it sends connections to, as far as their weights say so. */
  readonly gated: readonly string[];
  /** Another controller's finalizer is nowhere but on the Service. */
  readonly isTakenOver: boolean;
}

/** For a condition. Reasons are published: cli/reference.ts. */
export interface DeviceProblem {
  readonly reason:
    /** The device does not answer, or it did not work: it is tried again. */
    | 'DeviceFailed'
    /** The device will not do it: a person has to change something. */
    | 'DeviceRefused'
    /** It takes long. */
    | 'WaitingForDevice'
    /** The Service asks for what a device cannot have, or what others have. */
    | 'AddressTaken'
    | 'NoFreeAddress'
    | 'OutsideDevice'
    | 'AddressesMalformed'
    | 'NotSupported';
  readonly message: string;
}

/** The key of what a device has of the Service of a uid. */
export function toBalancerKey(device: string, uid: string): string {
  return `${device} ${uid}`;
}

/** Why nothing is given of a pool. Reasons are published, as those of its condition `Accepted`. */
export interface PoolRefusal {
  readonly reason:
    | 'AddressesMalformed'
    | 'AddressesNotUnicast'
    | 'SelectorMalformed'
    | 'DurationMalformed'
    | 'PoolsOverlap'
    | 'AddressesReserved'
    | 'Deleted';
  readonly message: string;
}

/** Of a pool that is gone, or whose own cannot be read. */
export const defaultReuseMs = 60_000;

/** A pool as it is used. */
export interface JudgedPool {
  readonly pool: AddressPool;
  /** Merged, in order. Without those that could not be read. */
  readonly ranges: readonly AddressRange[];
  readonly reuseAfterMs: number;
  /** Null: addresses are given of it. Otherwise those that were given stay, and no more are. */
  readonly refusal: PoolRefusal | null;
  /** Its addresses that Services have, or that are anchors, and that Nodes report as their own: `10.0.9.10 (the node w1)`. */
  readonly misreported: readonly string[];
}
