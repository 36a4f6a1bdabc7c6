import { type Kind, type StepEvent, type Step, formatKey, nothing, toStep } from '../step.ts';
import {
  earlySliceKind,
  getGateParts,
  listEndpointsOf,
  type WantedEndpoint,
  listReadyFamilies,
  readGroupText,
  toGroupText,
} from './endpoints.ts';
import type { Clock, Cancel } from '../../lib/clock.ts';
import type { Change } from '../../lib/kubernetes/informer.ts';
import {
  type EarlySlice,
  nameEarlyOwner,
  listClosedGates,
  listGates,
  readPodWeight,
  isServing,
  readWaitingSince,
  type Pod,
  toOpeningWrite,
} from '../../lib/api/endpoints.ts';
import { type Known, type DeviceBalancer, watchReadiness } from '../cache/known.ts';
import { listChangedEndpoints, toEndpointText } from '../cache/nodes.ts';
import type { ClusterView } from '../cache/cache.ts';
import { shorten, isDeleted, isServed, isJudged, getIngress, findBalancer, toTime } from '../cache/parts.ts';
import { chooseDevice, type LoadBalancerDevice } from '../../lib/api/device.ts';
import type { Service } from '../../lib/api/service.ts';
import { parseAddress } from '../../lib/net.ts';
import { findAllocations } from './allocations.ts';

/** Gates of pods. */
export const pod: Kind = {
  name: 'Pod',
  source: 'pods',
  subject: { apiVersion: 'v1', kind: 'Pod' },
  watches: [
    { source: 'pods', toKeys: ({ key }) => [key] },
    {
      source: 'services',
      part: getGateParts,
      isAskedBefore: true,
      toKeys: ({ key }, { serviceToPods }) => serviceToPods.get(key) ?? [],
    },
    {
      source: 'virtualIps',
      part: ({ spec }) => [spec.services, spec.pool],
      toKeys: ({ before, after }, { serviceToPods }) =>
        [...(before?.spec.services ?? []), ...(after?.spec.services ?? [])].flatMap(({ namespace, name }) => [
          ...(serviceToPods.get(`${namespace}/${name}`) ?? []),
        ]),
    },
    watchReadiness((node, { nodeToPods }) => nodeToPods.get(node) ?? []),
    { source: 'earlySlices', toKeys: listChanged },
    {
      source: 'deviceBalancers',
      part: ({ gated, addresses }) => [gated, addresses],
      toKeys: ({ before, after }, { serviceToPods }) =>
        [before, after].flatMap((one) =>
          one === null ? [] : [...(serviceToPods.get(`${one.id.namespace}/${one.id.name}`) ?? [])],
        ),
    },
    {
      source: 'devices',
      part: ({ spec: { targets } }) => targets,
      toKeys: ({ key }, { deviceToServices, serviceToPods }) =>
        [...(deviceToServices.get(key) ?? [])].flatMap((service) => [...(serviceToPods.get(service) ?? [])]),
    },
  ],
  next: nextGateStep,
  mayRepeat: true,
};

/** The pods whose endpoints are others now, or of another version. */
function listChanged(change: Change<EarlySlice>, { serviceToPods, pods }: Known): string[] {
  const uids = listChangedEndpoints(change);
  const owners = [change.before, change.after].flatMap((slice) =>
    slice === null ? [] : nameEarlyOwner(slice),
  );
  const selected = [...new Set(owners)].flatMap((owner) => [...(serviceToPods.get(owner) ?? [])]);
  return selected.filter((name) => uids.has(pods.get(name)?.metadata.uid ?? ''));
}

/** What opens a gate. Published: docs/services-reference.md has a row for each. */
interface Verdict {
  readonly reason: 'LBHealthy' | 'NoService' | 'NotFollowed' | 'NodePorts' | 'Timeout' | 'Refused';
  readonly message: string;
  readonly event?: StepEvent;
}

/** Nodes have an endpoint within a second. Who waits for longer waits for something that is broken, and new pods are needed meanwhile. */
export const timeoutMs = 10 * 60_000;

/**
 * The next step of a pod with gates. They open when every node that may hold an address of its Services sends connections to it, and every
 * device that has one; immediately where there is none; and after ten minutes anyway. They are never closed again.
 */
function nextGateStep(key: string, view: ClusterView): Step {
  const { pods, nodes, settings, nowMs } = view;
  const pod = pods.get(key);
  if (pod === undefined || isDeleted(pod)) return nothing;
  const types = listClosedGates(pod, settings.gateTypes);
  if (types.length === 0 || !isServing(pod, settings.gateTypes, nodes)) return nothing;
  const untilMs = readWaitingSince(pod, settings.gateTypes, nowMs) + timeoutMs;
  const awaited = listAwaited(pod, key, view);
  const verdict = judge(awaited, untilMs <= nowMs);
  if (verdict !== null) return open(pod, types, { verdict, view });
  return { does: 'wait', waitsFor: 'nodes', why: 'nodes do not send connections to the pod yet', untilMs };
}

/** What a gate waits for: of one address, the nodes that have not programmed the pod. */
interface Awaited {
  readonly state:
    | 'done'
    | 'missing'
    /** The API does not take the early EndpointSlice, so nodes cannot know of the pod. */
    | 'refused'
    /** No node says how far it is with early EndpointSlices. */
    | 'unknown'
    /** A device sends to ports of nodes: these have the pod when it is ready. */
    | 'node ports';
  /** What is missing, as a clause. It asks each node: a thousand pods may wait for a thousand. */
  readonly explain: () => string;
}

function judge(awaited: readonly Awaited[], isOver: boolean): Verdict | null {
  if (awaited.length === 0)
    return { reason: 'NoService', message: 'No Service with an address of vipnat selects the pod.' };
  const missing = awaited.filter(({ state }) => state === 'missing' || state === 'refused');
  if (missing.length === 0) return judgeDone(new Set(awaited.map(({ state }) => state)));
  if (!isOver) return null;
  const clauses = [...new Set(missing.map(({ explain }) => explain()))].sort();
  const message = `After 10 minutes the gate opens, although ${shorten(clauses)}.`;
  const event = { type: 'Warning', reason: 'GateTimedOut', message } as const;
  if (missing.some(({ state }) => state === 'refused')) return { reason: 'Refused', message, event };
  return { reason: 'Timeout', message, event };
}

function judgeDone(states: ReadonlySet<Awaited['state']>): Verdict {
  if (states.has('done')) return { reason: 'LBHealthy', message: 'LB synced successfully' };
  return states.has('unknown')
    ? { reason: 'NotFollowed', message: 'No balancer follows early EndpointSlices.' }
    : {
        reason: 'NodePorts',
        message: 'The device sends connections to ports of nodes, which have the pod when it is ready.',
      };
}

function listAwaited(pod: Pod, key: string, view: ClusterView): Awaited[] {
  return [...(view.podToServices.get(key) ?? [])].flatMap((name) => {
    const service = view.services.get(name);
    if (service === undefined) return [];
    const device = chooseDevice(service, view.settings.defaultDevice);
    if (device !== null) return listOfDevice(pod, service, { device: view.devices.get(device), view });
    return isServed(service, view.settings.isDefaultClass) ? listOfService(pod, service, view) : [];
  });
}

/**
 * A device that sends to pods has got the pod when it has done what its writer asked for with it. One that is not there gets nothing, nor does
 * a Service that says why it has no address.
 */
function listOfDevice(
  pod: Pod,
  service: Service,
  { device, view }: { readonly device: LoadBalancerDevice | undefined; readonly view: ClusterView },
): Awaited[] {
  const endpoints = listEndpointsOf(pod, service, view);
  const isRefused = isJudged(service) && getIngress(service).length === 0;
  if (device === undefined || endpoints.length === 0 || isRefused) return [];
  if (device.spec.targets !== 'pods') return [{ state: 'node ports', explain: () => '' }];
  const { name } = device.metadata;
  const balancer = findBalancer(view, name, service);
  if (!hasFamilyOf(balancer, endpoints)) return [];
  return [
    {
      state: balancer?.gated.includes(pod.metadata.uid) === true ? 'done' : 'missing',
      explain: () => `the device ${name} does not send connections to the pod yet`,
    },
  ];
}

/** Whether a device can have one of these endpoints: it serves one family of a Service. As long as nobody knows which, it can. */
function hasFamilyOf(balancer: DeviceBalancer | undefined, endpoints: readonly WantedEndpoint[]): boolean {
  const families = (balancer?.addresses ?? []).flatMap((text) => parseAddress(text)?.family ?? []);
  return families.length === 0 || endpoints.some(({ family }) => families.includes(family));
}

/**
 * Of each endpoint that the pod is of a Service, and each address of that family. One without an address is awaited until the Service
 * says that it gets none.
 */
function listOfService(pod: Pod, service: Service, view: ClusterView): Awaited[] {
  const { held } = findAllocations(service, view);
  return listEndpointsOf(pod, service, view).flatMap((endpoint) => {
    const own = held.filter(({ address }) => address.family === endpoint.family);
    // Its VirtualIP may have been deleted by hand: it is made again.
    const isLost = listReadyFamilies(service).includes(endpoint.family);
    if (own.length === 0) return isJudged(service) && !isLost ? [] : [awaitAddress(service)];
    const version = findVersion(endpoint, service, view);
    const refusal = version === null ? findRefusal(service, view) : null;
    if (refusal !== null) return [refusal];
    return own.map(({ virtualIp: { spec } }) => judgeNodes(version, spec.pool, view));
  });
}

function awaitAddress({ metadata: { namespace, name } }: Service): Awaited {
  return { state: 'missing', explain: () => `the Service ${namespace}/${name} has no address yet` };
}

/** Null unless the API did not take the Service's last early EndpointSlice. */
function findRefusal({ metadata: { namespace, name } }: Service, { refusals }: ClusterView): Awaited | null {
  const key = `${namespace}/${name}`;
  const detail = refusals.get(formatKey({ kind: earlySliceKind.name, key }));
  if (detail === undefined) return null;
  const clause = `the API does not take the early EndpointSlices of ${key}: ${detail}`;
  return { state: 'refused', explain: () => clause };
}

function judgeNodes(version: string | null, pool: string, { candidates }: ClusterView): Awaited {
  const isKnown = version !== null && candidates.list(pool).length > 0;
  if (!isKnown)
    return { state: 'missing', explain: () => 'no node reports that it sends connections to the pod' };
  if (candidates.isWithoutEarly(pool)) return { state: 'unknown', explain: () => '' };
  return {
    state: candidates.haveProgrammed(pool, 'earlyslices', version) ? 'done' : 'missing',
    explain: () => {
      const names = candidates.listBehind(pool, version, 'earlyslices');
      return `nodes do not send connections to the pod yet: ${shorten(names)}`;
    },
  };
}

/** The first version of an early EndpointSlice that has the endpoint as it is, and ready; null where none has. */
function findVersion(
  endpoint: WantedEndpoint,
  service: Service,
  { serviceToSlices, earlySlices, sliceToSince }: ClusterView,
): string | null {
  const { namespace, name, uid } = service.metadata;
  if (!endpoint.ready) return null;
  const keys = [...(serviceToSlices.get(`${namespace}/${name}`) ?? [])];
  const versions = keys.map((key) => {
    const slice = earlySlices.get(key);
    const text = slice === undefined ? null : findText(slice, endpoint, uid);
    return text === null ? null : (sliceToSince.get(key)?.get(text) ?? null);
  });
  return versions.find((version) => version !== null) ?? null;
}

/** How a slice of a Service has an endpoint that is ready; null where it does not. */
function findText(slice: EarlySlice, endpoint: WantedEndpoint, service: string): string | null {
  const isOwn = slice.metadata.ownerReferences?.some(({ uid }) => uid === service) === true;
  if (!isOwn || readGroupText(slice) !== toGroupText(endpoint)) return null;
  const found = (slice.endpoints ?? []).find(
    ({ addresses, conditions, targetRef }) =>
      targetRef?.uid === endpoint.pod.uid && addresses[0] === endpoint.address && conditions?.ready === true,
  );
  return found === undefined ? null : toEndpointText(found, slice);
}

function open(
  pod: Pod,
  types: readonly string[],
  { verdict: { reason, message, event }, view }: { readonly verdict: Verdict; readonly view: ClusterView },
): Step {
  const opening = toOpeningWrite(pod, types, { reason, message, at: toTime(view.nowMs) });
  const { namespace, name } = pod.metadata;
  const target = { kind: 'Pod', key: `${namespace}/${name}`, confirm: [] } as const;
  return toStep({ ...opening, ...target }, event ?? null);
}

/**
 * How long it takes until no node sends new connections to a pod that ends.
 *
 * Goal: people choose how long their pods serve on by a figure of their own cluster.
 * Tension: a pod's deletionTimestamp is in whole seconds, and by the clock of another host.
 * Compromise: time runs from when this controller saw the deletion, by its own clock. What was deleted before it led is not timed. So the time
 * before is missing: milliseconds while watches work.
 */

/** Its dependencies. */
interface DrainTimesPorts {
  readonly clock: Clock;
  /** All that is known now. */
  readonly view: () => ClusterView;
  /** Called for each pod, once, by its UID. */
  readonly onDrained: (seconds: number, pod: string) => void;
}

/** More of them at a time say no more, and each check goes through the endpoints of the Services of each. */
const maxPods = 100;

/** Reports of a thousand nodes come one by one. */
const gatherMs = 20;

/** What has taken so long is not timed on: it is above all buckets. */
const limitMs = 120_000;

interface Ending {
  readonly key: string;
  readonly uid: string;
  readonly seenMs: number;
  /** Services that send connections to it: in how many endpoints, and the version in which all of these end; null before. */
  readonly services: Map<string, { readonly endpoints: number; readonly version: string | null }>;
}

/** Times pods that end, from the first `take` to `stop`. */
export class DrainTimes {
  readonly #ports: DrainTimesPorts;
  readonly #uidToEnding = new Map<string, Ending>();
  #cancel: Cancel | null = null;
  #isStopped = false;

  constructor(ports: DrainTimesPorts) {
    this.#ports = ports;
  }

  /** A pod has changed, and the cache knows it. */
  take({ key, before, after }: Change<Pod>): void {
    if (before === null || after === null || before.metadata.uid !== after.metadata.uid) return;
    if (isDeleted(before) || !isDeleted(after)) return;
    const { clock } = this.#ports;
    const view = this.#ports.view();
    if (!isTimed(before, view) || this.#uidToEnding.size >= maxPods) return;
    const services = listServices(after, key, view);
    if (services.size === 0) return;
    this.#uidToEnding.set(after.metadata.uid, {
      key,
      uid: after.metadata.uid,
      seenMs: clock.now(),
      services,
    });
    this.sync();
  }

  /** Something has changed that pods may wait for. Cheap while none ends. */
  sync(): void {
    if (this.#isStopped || this.#cancel !== null || this.#uidToEnding.size === 0) return;
    this.#cancel = this.#ports.clock.schedule(gatherMs, () => {
      this.#cancel = null;
      this.#check();
    });
  }

  /** Times nothing any more. */
  stop(): void {
    this.#isStopped = true;
    this.#cancel?.();
    this.#uidToEnding.clear();
  }

  #check(): void {
    const { clock, onDrained } = this.#ports;
    const view = this.#ports.view();
    for (const [uid, ending] of this.#uidToEnding) {
      const tookMs = clock.now() - ending.seenMs;
      const state = judgeEnding(ending, view);
      const isOver = tookMs >= limitMs;
      if (state === 'waits' && !isOver) continue;
      this.#uidToEnding.delete(uid);
      if (state !== 'untold') onDrained(tookMs / 1000, uid);
    }
  }
}

/** Of other pods, early EndpointSlices may not say that they end. */
function isTimed(pod: Pod, { nodes, settings: { gateTypes } }: ClusterView): boolean {
  const isFollowed = listGates(pod, gateTypes).length > 0 || readPodWeight(pod.metadata.annotations) !== null;
  return isFollowed && isServing(pod, gateTypes, nodes);
}

/** The Services with an address whose nodes send connections to a pod until it ends. Where all pods are published, they do so until it is gone. */
function listServices(pod: Pod, key: string, view: ClusterView): Ending['services'] {
  const keys = [...(view.podToServices.get(key) ?? [])];
  return new Map(
    keys.flatMap((name) => {
      const service = view.services.get(name);
      const isPublished = service?.spec.publishNotReadyAddresses === true;
      if (service === undefined || isPublished || listPools(name, view).length === 0) return [];
      const endpoints = listEndpointsOf(pod, service, view).length;
      return endpoints === 0 ? [] : [[name, { endpoints, version: null }] as const];
    }),
  );
}

/** The pools of a Service's addresses whose nodes report early EndpointSlices. None for one that is not served. */
function listPools(key: string, view: ClusterView): readonly string[] {
  const { services, candidates, settings } = view;
  const service = services.get(key);
  if (service === undefined || !isServed(service, settings.isDefaultClass)) return [];
  const pools = new Set(findAllocations(service, view).held.map(({ virtualIp }) => virtualIp.spec.pool));
  return [...pools].filter((pool) => candidates.list(pool).length > 0 && !candidates.isWithoutEarly(pool));
}

/** `untold`: no node is left that could report it, or the pod went before the controller wrote that it ends. */
function judgeEnding(ending: Ending, view: ClusterView): 'waits' | 'done' | 'untold' {
  const { services, uid, key } = ending;
  for (const [name, { endpoints, version }] of services)
    if (version === null) services.set(name, { endpoints, version: findEnd(name, uid, endpoints, view) });
  const reported = [...services].map(([name, { version }]) => ({ version, pools: listPools(name, view) }));
  const awaited = reported.filter(({ pools }) => pools.length > 0);
  if (awaited.length === 0) return 'untold';
  const isGone = view.pods.get(key)?.metadata.uid !== uid;
  if (awaited.some(({ version }) => version === null)) return isGone ? 'untold' : 'waits';
  const isDone = awaited.every(({ version, pools }) =>
    pools.every((pool) => view.candidates.haveProgrammed(pool, 'earlyslices', version ?? '')),
  );
  return isDone ? 'done' : 'waits';
}

/** The version since which all endpoints of a pod end in a Service's early EndpointSlices; null where they do not. */
function findEnd(service: string, uid: string, count: number, view: ClusterView): string | null {
  const { serviceToSlices, earlySlices, sliceToSince } = view;
  const found = [...(serviceToSlices.get(service) ?? [])].flatMap((key) => {
    const slice = earlySlices.get(key);
    const own = (slice?.endpoints ?? []).filter(({ targetRef }) => targetRef?.uid === uid);
    return own.map((endpoint) => ({
      isEnding: endpoint.conditions?.terminating === true,
      since:
        slice === undefined ? null : (sliceToSince.get(key)?.get(toEndpointText(endpoint, slice)) ?? null),
    }));
  });
  if (found.length < count || found.some(({ isEnding: ends, since }) => !ends || since === null)) return null;
  const versions = found.map(({ since }) => BigInt(since ?? '0'));
  return String(versions.reduce((last, one) => (one > last ? one : last)));
}
