import { type EarlySlice, nameEarlyOwner, readWeights } from '../../lib/api/endpoints.ts';
import {
  type ServiceSlice,
  toPodNumber,
  type Service,
  serviceNameLabel,
  isAwaited,
} from '../../lib/api/service.ts';
import type { AddressUser, VirtualIp } from '../../lib/api/vipnat.ts';
import { type FollowedNode, type AwaitedVersion, NodeStates } from '../../lib/api/node.ts';
import {
  type BalancedService,
  protocolToNumber,
  nameTaken,
  isSamePod,
  isReady,
  isTerminating,
  hasHints,
  isLocal,
  LeftEndpoints,
} from './backends.ts';
import { families, type Family, parseObjectName } from '../../lib/net.ts';
import type { Change } from '../../lib/kubernetes/informer.ts';

/** With policy Local, other nodes may not know yet that no controller leads: their connections are taken, if nobody else here takes them. */
const servingLast = { ready: false, serving: true, terminating: true };

/** What is remembered of a pod of an early slice. */
interface PodMemory {
  readonly address: string;
  readonly pod: number | null;
  /** Kubernetes' slices have, or had, it. */
  isListed: boolean;
  /** They called it ready. */
  wasReady: boolean;
}

type EarlyEndpoint = NonNullable<EarlySlice['endpoints']>[number];
type Endpoint = NonNullable<ServiceSlice['endpoints']>[number];

/**
 * Merges early EndpointSlices, which the controller writes, with Kubernetes' own.
 * Of all Services, by their keys. What is remembered are pods of early slices that are there.
 *
 * Goal: a pod gets connections before Kubernetes calls it ready, and none once it ends.
 * Tension: two watches have no common order, and a controller that is gone leaves its slices as they were.
 * Compromise: the early word counts only until Kubernetes' slices have called the same pod ready. It counts for pods that these
 * slices have, or have not had yet in this process's life. Whoever says that a pod ends is right. While no controller leads, Kubernetes alone is
 * right, unless it calls nobody ready: a pod of which nobody knows is better than none.
 */
export class EarlyEndpoints {
  readonly #serviceToPods = new Map<string, Map<string, PodMemory>>();
  /** Services with pods that get connections by the early word alone, to the versions of their slices; or with ones that end by it, to none. */
  readonly #waiting = new Map<string, readonly string[]>();
  /** The same of those that end: the controller times how long nodes take to report it. */
  readonly #ending = new Map<string, readonly string[]>();
  #isFollowing = false;
  /** Whether no controller leads, which would take back what it has said. */
  isControllerAway = false;

  /** Services of which the early word alone decides something. */
  get dependent(): readonly string[] {
    return [...this.#waiting.keys()];
  }

  /** Versions of early slices with pods that get connections by the early word alone, or end by it. */
  get awaited(): readonly string[] {
    return [...this.#waiting.values(), ...this.#ending.values()].flat();
  }

  /** All kinds were listed: from now on, a pod that Kubernetes' slices do not have can be newer than they are. */
  follow(): void {
    this.#isFollowing = true;
  }

  /** Takes the early slices that a Service has from now on, and Kubernetes' slices as they are. */
  takeEarly(service: string, early: readonly EarlySlice[], slices: Iterable<ServiceSlice>): void {
    const before = this.#serviceToPods.get(service);
    const pods = new Map<string, PodMemory>();
    for (const endpoint of listEarly(early)) {
      const key = describePod(endpoint);
      const [address = '', pod] = [endpoint.addresses[0], toPodNumber(endpoint.targetRef)];
      pods.set(key, before?.get(key) ?? { address, pod, isListed: !this.#isFollowing, wasReady: false });
    }
    this.#ending.set(service, listVersions(early, isTakenOut));
    this.#serviceToPods.set(service, pods);
    const memories = [this.#serviceToPods, this.#waiting, this.#ending];
    if (pods.size === 0) for (const memory of memories) memory.delete(service);
    for (const slice of slices) this.takeSlice(service, slice);
  }

  /** Takes one of Kubernetes' slices, each as it comes: what it said a moment ago counts, too. */
  takeSlice(service: string, { endpoints }: ServiceSlice): void {
    const pods = this.#serviceToPods.get(service);
    if (pods === undefined) return;
    const addressToEndpoints = groupByAddress(endpoints ?? []);
    for (const memory of pods.values()) {
      const own = listOwn(memory, addressToEndpoints);
      memory.isListed ||= own.length > 0;
      memory.wasReady ||= own.some(isReady);
    }
  }

  /** Takes that nothing is decided about a Service any more: it is not balanced. What was said of its pods stays known. */
  leave(service: string): void {
    this.#waiting.delete(service);
  }

  /** What counts of both on a node, as slices: of Kubernetes' own the same objects where nothing differs. */
  merge(
    service: string,
    slices: readonly ServiceSlice[],
    early: readonly EarlySlice[],
    { node, isLocal }: { readonly node: string; readonly isLocal: boolean },
  ): readonly ServiceSlice[] {
    const pods = this.#serviceToPods.get(service);
    this.leave(service);
    if (pods === undefined) return slices;
    const ending = groupByAddress([...listEarly(early)].filter(isTakenOut));
    const reported = slices.flatMap(({ endpoints }) => endpoints ?? []);
    const addressToReported = groupByAddress(reported);
    const isEarly = (endpoint: EarlyEndpoint) => {
      const memory = pods.get(describePod(endpoint));
      if (memory === undefined || memory.wasReady || !isMeant(endpoint, node)) return false;
      const own = listOwn(memory, addressToReported);
      return own.length === 0 ? !memory.isListed : !own.some(isTerminating);
    };
    const isAway = this.isControllerAway && reported.some(isReady);
    const isAlone = isLocal && !reported.some((one) => one.nodeName === node && isReady(one));
    const isUsed = (one: EarlyEndpoint) => isEarly(one) && (!isAway || (isAlone && one.nodeName === node));
    const isHinted = reported.some(hasHints);
    const added = early.flatMap((slice): ServiceSlice[] => {
      const ready = (slice.endpoints ?? []).filter(isUsed).map((one) => toReady(one, isHinted));
      const endpoints = isAway ? ready.map((one) => ({ ...one, conditions: servingLast })) : ready;
      return endpoints.length === 0 ? [] : [{ ...slice, endpoints }];
    });
    const ended = slices.map((slice) => end(slice, ending));
    const versions = listVersions(early, isEarly);
    const isDependent = versions.length > 0 || ended.some((slice, at) => slice !== slices[at]);
    if (isDependent) this.#waiting.set(service, versions);
    return [...(isAway ? slices : ended), ...added];
  }
}

/** Of the slices that have such an endpoint. */
function listVersions(
  early: readonly EarlySlice[],
  isChosen: (endpoint: EarlyEndpoint) => boolean,
): string[] {
  return early.flatMap(({ metadata, endpoints }) =>
    endpoints?.some(isChosen) === true ? [metadata.resourceVersion] : [],
  );
}

/** Whether an endpoint is for a node: with policy Local its own node gets it first, as one that serves and is not ready. */
function isMeant({ conditions, nodeName }: EarlyEndpoint, node: string): boolean {
  const isNear = conditions?.serving === true && nodeName === node;
  return !isTerminating({ conditions }) && (conditions?.ready === true || isNear);
}

/** What Kubernetes' slices say of a pod. */
function listOwn({ address, pod }: PodMemory, endpoints: ReadonlyMap<string, Endpoint[]>): Endpoint[] {
  return endpoints.get(address)?.filter((one) => isSamePod(one, pod)) ?? [];
}

/** Where a Service publishes pods that are not ready, one that ends is ready, too: Kubernetes says the same. */
function isTakenOut(endpoint: EarlyEndpoint): boolean {
  return isTerminating(endpoint) && endpoint.conditions?.ready !== true;
}

/**
 * Near its own node and zone where Kubernetes hints for others: without a hint, theirs would not count. Where Kubernetes hints for nobody,
 * every node sends connections to it: its gate waits for all of them.
 */
function toReady({ addresses, nodeName, zone, targetRef }: EarlyEndpoint, isHinted: boolean): Endpoint {
  const toNames = (text: string | null | undefined) => (typeof text === 'string' ? [{ name: text }] : []);
  return {
    ...{ addresses, nodeName, zone, targetRef: toPodNumber(targetRef) },
    conditions: { ready: true, serving: true, terminating: false },
    ...(isHinted ? { hints: { forZones: toNames(zone), forNodes: toNames(nodeName) } } : {}),
  };
}

/** A slice with the endpoints that end by the early word. */
function end(slice: ServiceSlice, ending: ReadonlyMap<string, readonly EarlyEndpoint[]>): ServiceSlice {
  const isEnding = (endpoint: Endpoint) => {
    const reported = ending.get(endpoint.addresses[0] ?? '') ?? [];
    const isIt = ({ targetRef }: EarlyEndpoint) => isSamePod(endpoint, toPodNumber(targetRef));
    return !isTerminating(endpoint) && reported.some(isIt);
  };
  if (slice.endpoints?.some(isEnding) !== true) return slice;
  const endpoints = slice.endpoints.map((endpoint) => {
    if (!isEnding(endpoint)) return endpoint;
    const serving = endpoint.conditions?.serving ?? isReady(endpoint);
    return { ...endpoint, conditions: { ready: false, serving, terminating: true } };
  });
  return { ...slice, endpoints };
}

/** Several pods may have one, as with the host's network. */
function groupByAddress<T extends Pick<Endpoint, 'addresses'>>(endpoints: readonly T[]): Map<string, T[]> {
  return Map.groupBy(endpoints, ({ addresses }) => addresses[0] ?? '');
}

function* listEarly(slices: readonly EarlySlice[]): Iterable<EarlyEndpoint> {
  for (const { endpoints } of slices) yield* endpoints ?? [];
}

/** By its address and what tells it from another pod that gets the address later. */
function describePod({ addresses, targetRef }: EarlyEndpoint): string {
  return `${addresses[0] ?? ''} ${toPodNumber(targetRef) ?? ''}`;
}

/** Of the objects of all kinds: what belongs to which Service, and which Services may be balanced otherwise since last asked. Services are named `NAMESPACE/NAME`. */
export class ServiceIndex {
  readonly #services = new Map<string, Service>();
  readonly #serviceToSlices = new Map<string, Map<string, ServiceSlice>>();
  readonly #serviceToEarlySlices = new Map<string, Map<string, EarlySlice>>();
  /** What counts of early slices. */
  readonly early = new EarlyEndpoints();
  /** What slices have lost. */
  readonly left = new LeftEndpoints();
  /** Service to the addresses that VirtualIPs give it, each with the UID that it is given to. */
  readonly #serviceToAddresses = new Map<string, Map<string, string>>();
  /** Addresses to who has them, the one first that has had it for the longest. */
  readonly #addressToUsers = new Map<string, readonly AddressUser[]>();
  readonly #vips = new Set<string>();
  /** The addresses of all Services. */
  readonly vips: ReadonlySet<string> = this.#vips;
  readonly #changed = new Set<string>();
  readonly #node: string;
  /** As their Nodes say. */
  readonly nodes: NodeStates;

  constructor(node: string) {
    this.#node = node;
    this.nodes = new NodeStates(node);
  }

  /** The Services that have an address. */
  get balanced(): readonly string[] {
    return [...this.#serviceToAddresses.keys()];
  }

  /** The addresses of some Services. */
  listAddresses(isChosen: (service: string) => boolean): ReadonlySet<string> {
    const chosen = this.balanced.filter(isChosen).flatMap((key) => this.find(key) ?? []);
    return new Set(chosen.flatMap(({ addresses }) => families.flatMap((family) => addresses[family])));
  }

  takeServices(changes: readonly Change<Service>[]): void {
    for (const { key, before, after } of changes) {
      if (after === null) this.#services.delete(key);
      else this.#services.set(key, after);
      if (after === null) this.left.drop((service) => service === key);
      this.#changed.add(key);
      if (describePorts(before) !== describePorts(after)) this.touch(this.#listSharers(key));
    }
  }

  takeSlices(changes: readonly Change<ServiceSlice>[]): void {
    for (const { key, before, after } of changes) {
      if (before !== null) this.#removeSlice(key, nameOwner(before));
      if (after !== null) this.#addSlice(key, after);
    }
    // An endpoint may have moved from one slice to another.
    for (const { before } of changes) if (before !== null) this.#noteLost(before);
  }

  #noteLost(before: ServiceSlice): void {
    const owner = nameOwner(before);
    const lost = this.left.lose(before, [...(this.#serviceToSlices.get(owner)?.values() ?? [])]);
    if (this.#services.has(owner) && this.#serviceToAddresses.has(owner)) this.left.add(owner, lost);
    this.touch(this.left.dropEnded(lost));
  }

  /** Takes what has happened to early EndpointSlices. */
  takeEarlySlices(changes: readonly Change<EarlySlice>[]): void {
    const owners = new Set<string>();
    for (const { key, before, after } of changes) {
      for (const slice of [before, after]) if (slice !== null) owners.add(nameEarlyOwner(slice));
      if (before !== null) this.#serviceToEarlySlices.get(nameEarlyOwner(before))?.delete(key);
      if (after === null) continue;
      const owner = nameEarlyOwner(after);
      const slices = this.#serviceToEarlySlices.get(owner) ?? new Map<string, EarlySlice>();
      this.#serviceToEarlySlices.set(owner, slices.set(key, after));
    }
    for (const owner of owners) this.#settleEarly(owner);
  }

  #settleEarly(owner: string): void {
    const early = this.#serviceToEarlySlices.get(owner) ?? new Map<string, EarlySlice>();
    this.early.takeEarly(owner, [...early.values()], this.#serviceToSlices.get(owner)?.values() ?? []);
    if (early.size === 0) this.#serviceToEarlySlices.delete(owner);
    this.#changed.add(owner);
  }

  /**
   * Takes what has happened to Nodes, and all that are there. Answers whether Services may be balanced otherwise: those that ask who is near, if this node's zone is
   * another one, and those with pods on a node that ends now, or ends no more.
   */
  takeNodes(changes: readonly Change<FollowedNode>[], all: Iterable<FollowedNode> = []): boolean {
    const { turned, isZoneOther } = this.nodes.take(changes, all);
    if (turned.size === 0 && !isZoneOther) return false;
    const concerned = this.#listWith(
      ({ nodeName, hints }) =>
        turned.has(nodeName ?? '') || (isZoneOther && (hints?.forZones?.length ?? 0) > 0),
    );
    this.touch(concerned);
    return concerned.length > 0;
  }

  takeVirtualIps(changes: readonly Change<VirtualIp>[]): void {
    for (const { before, after } of changes) {
      if (before !== null) this.#removeAddress(before);
      if (after !== null) this.#addAddress(after);
    }
  }

  /** The Services that may be balanced otherwise since this was last asked, and all that are balanced if `isAll`. */
  takeChanged(isAll: boolean): readonly string[] {
    const changed = [...new Set([...this.#changed, ...(isAll ? this.balanced : [])])];
    this.#changed.clear();
    return changed;
  }

  /** The Services that are balanced otherwise if these addresses are this host's: by an endpoint, or by who may come. */
  listConcerned(addresses: ReadonlySet<string>): readonly string[] {
    const named = new Set(
      this.#listWith((endpoint) => endpoint.addresses.some((address) => addresses.has(address))),
    );
    return this.balanced.filter(
      (key) => named.has(key) || (this.#services.get(key)?.spec.loadBalancerSourceRanges ?? []).length > 0,
    );
  }

  /** The Services that are balanced and have such an endpoint. */
  #listWith(isChosen: (endpoint: Pick<Endpoint, 'addresses' | 'nodeName' | 'hints'>) => boolean): string[] {
    return this.balanced.filter((key) => {
      const slices = [...(this.#serviceToSlices.get(key)?.values() ?? [])];
      const early = [...(this.#serviceToEarlySlices.get(key)?.values() ?? [])];
      return [...slices, ...early].some(({ endpoints }) => (endpoints ?? []).some(isChosen));
    });
  }

  /** Has Services looked at again, for what objects do not say of them. */
  touch(services: readonly string[]): void {
    for (const service of services) this.#changed.add(service);
  }

  /** For what the controller waits: addresses with their Services, and pods that early slices call ready or ended. */
  listAwaited(virtualIps: readonly VirtualIp[]): AwaitedVersion[] {
    const awaited = virtualIps.filter(isAwaited);
    return [
      ...awaited.flatMap(({ metadata: { name: object, resourceVersion: version }, spec }) => [
        { kind: 'virtualips' as const, version, object },
        ...spec.services.flatMap((user) => {
          const service = this.#services.get(nameUser(user));
          if (service === undefined) return [];
          return [{ kind: 'services' as const, version: service.metadata.resourceVersion, object }];
        }),
      ]),
      ...this.early.awaited.map((version) => ({ kind: 'earlyslices' as const, version })),
    ];
  }

  /** Whether a Service that is balanced has clients that kube-proxy sends to no other node. */
  get isAnyLocal(): boolean {
    return this.balanced.some((key) => this.#services.get(key)?.spec.externalTrafficPolicy === 'Local');
  }

  /** A Service as it is to be balanced; null where it is not there, or has no address. */
  find(key: string): BalancedService | null {
    const service = this.#services.get(key);
    const addresses = this.#serviceToAddresses.get(key);
    if (service === undefined || addresses === undefined || service.spec.type !== 'LoadBalancer') {
      this.early.leave(key);
      return null;
    }
    const early = [...(this.#serviceToEarlySlices.get(key)?.values() ?? [])];
    const slices = [...(this.#serviceToSlices.get(key)?.values() ?? [])];
    // What is said twice of an address has no order: the greater weight counts, since a pod that ends may have 0.
    const weights = early.flatMap(({ metadata }) => [...readWeights(metadata.annotations)]);
    const own = [...addresses].filter(([, uid]) => uid === service.metadata.uid);
    const texts = own.map(([text]) => text).sort();
    const place = { node: this.#node, isLocal: isLocal(service) };
    const ofFamily = (family: Family) => texts.filter((text) => text.includes(':') === (family === 'ipv6'));
    return {
      service,
      slices: [...this.early.merge(key, slices, early, place), ...this.left.list(key)],
      weights: new Map(weights.sort(([, one], [, other]) => one - other)),
      addresses: { ipv4: ofFamily('ipv4'), ipv6: ofFamily('ipv6') },
      taken: this.#listTaken(key, own),
      guarded: this.#listGuarded(key, own),
    };
  }

  /** The ports of these addresses that Services have which had the address before this one. */
  #listTaken(key: string, addresses: readonly (readonly [text: string, uid: string])[]): Map<string, string> {
    const taken = new Map<string, string>();
    for (const [text, uid] of addresses) {
      const users = this.#addressToUsers.get(text) ?? [];
      const own = users.findIndex((user) => nameUser(user) === key && user.uid === uid);
      const former = users.slice(0, own).flatMap((user) => this.#listUsing(user));
      // The first one has it.
      for (const service of former.reverse())
        for (const port of service.spec.ports ?? [])
          taken.set(nameTaken(text, port), nameUser(service.metadata));
    }
    return taken;
  }

  /** The Service of a user, if it has the address still. */
  #listUsing(user: AddressUser): readonly Service[] {
    const service = this.#services.get(nameUser(user));
    return service?.metadata.uid === user.uid && service.spec.type === 'LoadBalancer' ? [service] : [];
  }

  /** Of these addresses, those that no Service has had for longer, to the ports that the Services of each name. */
  #listGuarded(key: string, addresses: readonly (readonly [text: string, uid: string])[]) {
    const guarded = new Map<string, readonly string[]>();
    for (const [text] of addresses) {
      const using = (this.#addressToUsers.get(text) ?? []).flatMap((user) => this.#listUsing(user));
      const [first] = using;
      if (first === undefined || nameUser(first.metadata) !== key) continue;
      const named = using.flatMap(({ spec }) =>
        (spec.ports ?? []).map(({ protocol, port }) => `${protocolToNumber.get(protocol) ?? ''} . ${port}`),
      );
      guarded.set(text, [...new Set(named)].sort());
    }
    return guarded;
  }

  /** The Services that have an address together with this one. */
  #listSharers(key: string): string[] {
    const addresses = [...(this.#serviceToAddresses.get(key)?.keys() ?? [])];
    return addresses.flatMap((text) => (this.#addressToUsers.get(text) ?? []).map(nameUser));
  }

  #removeSlice(key: string, owner: string): void {
    const slices = this.#serviceToSlices.get(owner);
    slices?.delete(key);
    // A cluster may make and delete namespaces all day.
    if (slices?.size === 0) this.#serviceToSlices.delete(owner);
    this.#changed.add(owner);
  }

  #addSlice(key: string, slice: ServiceSlice): void {
    const owner = nameOwner(slice);
    const slices = this.#serviceToSlices.get(owner) ?? new Map<string, ServiceSlice>();
    this.#serviceToSlices.set(owner, slices.set(key, slice));
    this.early.takeSlice(owner, slice);
    this.touch(this.left.dropListed(owner, slice));
    this.#changed.add(owner);
  }

  #removeAddress({ metadata, spec }: VirtualIp): void {
    const text = parseObjectName(metadata.name)?.text ?? '';
    this.#vips.delete(text);
    this.#addressToUsers.delete(text);
    for (const user of spec.services) {
      const key = nameUser(user);
      const addresses = this.#serviceToAddresses.get(key);
      addresses?.delete(text);
      if (addresses?.size === 0) this.#serviceToAddresses.delete(key);
      this.#changed.add(key);
    }
  }

  /** An object whose name is no address is nobody's. */
  #addAddress({ metadata, spec }: VirtualIp): void {
    const address = parseObjectName(metadata.name);
    if (address === null) return;
    this.#vips.add(address.text);
    this.#addressToUsers.set(address.text, spec.services);
    for (const user of spec.services) {
      const [key, { uid }] = [nameUser(user), user];
      const addresses = this.#serviceToAddresses.get(key) ?? new Map<string, string>();
      this.#serviceToAddresses.set(key, addresses.set(address.text, uid));
      this.#changed.add(key);
    }
  }
}

function nameOwner({ metadata }: ServiceSlice): string {
  return `${metadata.namespace}/${metadata.labels?.[serviceNameLabel] ?? ''}`;
}

function nameUser({ namespace, name }: Pick<AddressUser, 'namespace' | 'name'>): string {
  return `${namespace}/${name}`;
}

/** What decides which ports a Service has of its addresses. */
function describePorts(service: Service | null): string {
  if (service === null) return '';
  const { metadata, spec } = service;
  const ports = (spec.ports ?? []).map(({ protocol, port }) => `${protocol}/${port}`);
  return [metadata.uid, spec.type, ...ports].join();
}
