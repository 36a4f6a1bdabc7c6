/**
 * Merges early EndpointSlices, which the controller writes, with Kubernetes' own.
 *
 * Goal: a pod gets connections before Kubernetes calls it ready, and none once it ends.
 * Tension: two watches have no common order, and a controller that is gone leaves its slices as they were.
 * Compromise: the early word counts only until Kubernetes' slices have called the same pod ready. It counts for pods that these
 * slices have, or have not had yet in this process's life. Whoever says that a pod ends is right.
 */
import { type EarlySlice } from '../../lib/services/early-slices.ts';
import { type EndpointSlice, toPodNumber } from '../../lib/services/services.ts';

/** What is remembered of a pod of an early slice. */
interface PodMemory {
  /** Kubernetes' slices have, or had, it. */
  isListed: boolean;
  /** They called it ready. */
  wasReady: boolean;
}

type EarlyEndpoint = NonNullable<EarlySlice['endpoints']>[number];
type Endpoint = NonNullable<EndpointSlice['endpoints']>[number];
type Slices<T> = Iterable<T>;

/** Of all Services, by their keys. What is remembered are pods of early slices that are there. */
export class EarlyEndpoints {
  readonly #serviceToPods = new Map<string, Map<string, PodMemory>>();
  readonly #waiting = new Set<string>();
  /** Services with early slices that say of a pod that it ends. */
  readonly #ending = new Set<string>();
  #isFollowing = false;

  /** Whether any pod gets connections by the early word alone. */
  get isAnyEarly(): boolean {
    return this.#waiting.size > 0;
  }

  /** Whether early slices say of any pod that it ends: the controller times how long nodes take to report it. */
  get isAnyEnding(): boolean {
    return this.#ending.size > 0;
  }

  /** All kinds were listed: from now on, a pod that Kubernetes' slices do not have can be newer than they are. */
  follow(): void {
    this.#isFollowing = true;
  }

  /** Takes the early slices that a Service has from now on, and Kubernetes' slices as they are. */
  takeEarly(service: string, early: Slices<EarlySlice>, slices: Slices<EndpointSlice>): void {
    const before = this.#serviceToPods.get(service);
    const pods = new Map<string, PodMemory>();
    this.#ending.delete(service);
    for (const endpoint of listEarly(early)) {
      const key = describePod(endpoint);
      pods.set(key, before?.get(key) ?? { isListed: !this.#isFollowing, wasReady: false });
      if (isTakenOut(endpoint)) this.#ending.add(service);
    }
    if (pods.size === 0) this.forget(service);
    else this.#serviceToPods.set(service, pods);
    for (const slice of slices) this.takeSlice(service, slice);
  }

  /** Takes one of Kubernetes' slices, each as it comes: what it said a moment ago counts, too. */
  takeSlice(service: string, { endpoints }: EndpointSlice): void {
    const pods = this.#serviceToPods.get(service);
    if (pods === undefined) return;
    const addressToEndpoint = new Map((endpoints ?? []).map((one) => [one.addresses[0] ?? '', one]));
    for (const [key, memory] of pods) {
      const { address, pod } = parsePod(key);
      const endpoint = addressToEndpoint.get(address);
      if (endpoint === undefined || !isSamePod(endpoint, pod)) continue;
      memory.isListed = true;
      memory.wasReady ||= endpoint.conditions?.ready ?? true;
    }
  }

  /** A Service has no early slice any more. */
  forget(service: string): void {
    this.#serviceToPods.delete(service);
    this.#waiting.delete(service);
    this.#ending.delete(service);
  }

  /** What counts of both, as slices: of Kubernetes' own the same objects where nothing differs. */
  merge(
    service: string,
    slices: readonly EndpointSlice[],
    early: readonly EarlySlice[],
  ): readonly EndpointSlice[] {
    const pods = this.#serviceToPods.get(service);
    this.#waiting.delete(service);
    if (pods === undefined) return slices;
    const ending = new Map(
      [...listEarly(early)].filter(isTakenOut).map((one) => [one.addresses[0] ?? '', one]),
    );
    const told = slices.flatMap(({ endpoints }) => endpoints ?? []);
    const addressToTold = Map.groupBy(told, ({ addresses }) => addresses[0] ?? '');
    const isEarly = (endpoint: EarlyEndpoint) =>
      judge(endpoint, pods.get(describePod(endpoint)), addressToTold.get(endpoint.addresses[0] ?? '') ?? []);
    const isHinted = told.some(hasHints);
    const added = early.flatMap((slice): EndpointSlice[] => {
      const endpoints = (slice.endpoints ?? []).filter(isEarly).map((one) => toReady(one, isHinted));
      return endpoints.length === 0 ? [] : [{ ...slice, endpoints }];
    });
    if (added.length > 0) this.#waiting.add(service);
    return [...slices.map((slice) => (ending.size === 0 ? slice : end(slice, ending))), ...added];
  }
}

/** Whether the early word counts, and calls an endpoint ready. */
function judge(endpoint: EarlyEndpoint, memory: PodMemory | undefined, told: readonly Endpoint[]): boolean {
  if (endpoint.conditions?.ready !== true || isTerminating(endpoint)) return false;
  if (memory === undefined || memory.wasReady) return false;
  const own = told.find((one) => isSamePod(one, toPodNumber(endpoint.targetRef)));
  return own === undefined ? !memory.isListed : !isTerminating(own);
}

function isTerminating({ conditions }: Pick<Endpoint, 'conditions'>): boolean {
  return conditions?.terminating === true;
}

/** Where a Service publishes pods that are not ready, one that ends is ready, too: Kubernetes says the same. */
function isTakenOut(endpoint: EarlyEndpoint): boolean {
  return isTerminating(endpoint) && endpoint.conditions?.ready !== true;
}

/** Where only one side says which pod it is, the address has to do. */
function isSamePod({ targetRef }: Pick<Endpoint, 'targetRef'>, pod: number | null): boolean {
  return typeof targetRef !== 'number' || pod === null || targetRef === pod;
}

/** Whether Kubernetes says of an endpoint that takes connections who is near it. */
function hasHints({ conditions, hints }: Endpoint): boolean {
  const isReady = conditions?.ready ?? true;
  return isReady && (hints?.forZones?.length ?? 0) + (hints?.forNodes?.length ?? 0) > 0;
}

/**
 * Near its own node and zone where Kubernetes hints for others: without a hint, theirs would not count. Where Kubernetes hints for nobody,
 * every node sends connections to it: its gate waits for all of them.
 */
function toReady({ addresses, nodeName, zone }: EarlyEndpoint, isHinted: boolean): Endpoint {
  const toNames = (text: string | null | undefined) => (typeof text === 'string' ? [{ name: text }] : []);
  return {
    ...{ addresses, nodeName, zone },
    conditions: { ready: true, serving: true, terminating: false },
    ...(isHinted ? { hints: { forZones: toNames(zone), forNodes: toNames(nodeName) } } : {}),
  };
}

/** A slice with the endpoints that end by the early word. */
function end(slice: EndpointSlice, ending: ReadonlyMap<string, EarlyEndpoint>): EndpointSlice {
  const isEnding = (endpoint: Endpoint) => {
    const told = ending.get(endpoint.addresses[0] ?? '');
    return told !== undefined && !isTerminating(endpoint) && isSamePod(endpoint, toPodNumber(told.targetRef));
  };
  if (slice.endpoints?.some(isEnding) !== true) return slice;
  const endpoints = slice.endpoints.map((endpoint) => {
    if (!isEnding(endpoint)) return endpoint;
    const { ready, serving } = endpoint.conditions ?? {};
    const conditions = { ready: false, serving: serving ?? ready ?? true, terminating: true };
    return { ...endpoint, conditions };
  });
  return { ...slice, endpoints };
}

function* listEarly(slices: Slices<EarlySlice>): Iterable<EarlyEndpoint> {
  for (const { endpoints } of slices) yield* endpoints ?? [];
}

/** By its address and what tells it from another pod that gets the address later. */
function describePod({ addresses, targetRef }: EarlyEndpoint): string {
  return `${addresses[0] ?? ''} ${toPodNumber(targetRef) ?? ''}`;
}

function parsePod(key: string): { address: string; pod: number | null } {
  const [address = '', pod = ''] = key.split(' ');
  return { address, pod: pod === '' ? null : Number(pod) };
}
