import { type Kind, type StepEvent, type Step, formatKey, nothing, patchMetadata, toStep } from '../step.ts';
import {
  earlySliceKind,
  getGateParts,
  listEndpointsOf,
  type WantedEndpoint,
  listReadyFamilies,
  findSince,
} from './endpoints.ts';
import { type NodesState, readSince, listChangedEndpoints } from '../cache/nodes.ts';
import type { Clock, Cancel } from '../../lib/clock.ts';
import type { Change } from '../../lib/kubernetes/informer.ts';
import { listClosedGates, listGates, readPodWeight, isServing, type Pod } from '../../lib/api/endpoints.ts';
import { type DeviceBalancer, listAll, listBoth, listServed } from '../cache/known.ts';
import { isNodeReady } from '../../lib/api/node.ts';
import type { ClusterView } from '../cache/cache.ts';
import { shorten } from '../../lib/text.ts';
import { isDeleted, isServed, isJudged, getIngress, findBalancer, toTime } from '../cache/parts.ts';
import { chooseDevice, type LoadBalancerDevice } from '../../lib/api/device.ts';
import { readAnnotation, type Service } from '../../lib/api/service.ts';
import { parseAddress } from '../../lib/net.ts';
import { type Allocation, findAllocations } from './allocations.ts';

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
      toKeys: (change, { serviceToPods }) => listAll(listBoth(change, listServiceKeys).flat(), serviceToPods),
    },
    { source: 'nodes', part: isNodeReady, toKeys: ({ key }, { nodeToPods }) => nodeToPods.get(key) ?? [] },
    {
      // Endpoints that are others now, or of another version.
      source: 'earlySlices',
      toKeys: (change, { uidToPods }) => listAll(listChangedEndpoints(change), uidToPods),
    },
    {
      source: 'deviceBalancers',
      part: ({ gated, addresses }) => [gated, addresses],
      toKeys: (change, { serviceToPods }) => listAll(listBoth(change, listServed).flat(), serviceToPods),
    },
    {
      source: 'devices',
      part: ({ spec: { targets } }) => targets,
      toKeys: ({ key }, { deviceToServices, serviceToPods }) =>
        listAll(deviceToServices.get(key), serviceToPods),
    },
  ],
  next: nextGateStep,
  mayRepeat: true,
};

function listServiceKeys({ spec: { services } }: Allocation['virtualIp']): string[] {
  return services.map(({ namespace, name }) => `${namespace}/${name}`);
}

/** What opens a gate. Published: docs/services-reference.md has a row for each. */
interface Verdict {
  readonly reason: (typeof doneReasons)[number][1] | 'NoService' | 'Refused';
  readonly message: string;
  readonly event?: StepEvent;
  readonly overdue?: ReadonlyMap<string, string>;
}

/**
 * Nodes have an endpoint within a second, and a device within two minutes. Who waits for longer waits for something that is broken, and new pods
 * are needed meanwhile: before `helm --wait` (5 minutes) and `progressDeadlineSeconds` (10) give the rollout up.
 */
export const timeoutMs = 3 * 60_000;

/** For so long a Lease counts (leaseDurationMs): whoever lives was received. */
const aliveMs = 40_000;

/**
 * The next step of a pod with gates. They open when every node that may hold an address of its Services sends connections to it, and every
 * device that has one; immediately where there is none, after 40 seconds where no node lives that could, and after three minutes anyway. They
 * are never closed again.
 */
function nextGateStep(key: string, view: ClusterView): Step {
  const { pods, nodes, settings, nowMs, waitedMs } = view;
  const pod = pods.get(key);
  if (pod === undefined || isDeleted(pod)) return nothing;
  const types = listClosedGates(pod, settings.gateTypes);
  if (types.length === 0 || !isServing(pod, settings.gateTypes, nodes)) return nothing;
  const awaited = listAwaited(pod, key, view);
  const isMissing = ({ state }: Awaited) =>
    state === 'missing' || state === 'refused' || (state === 'nobody' && waitedMs < aliveMs);
  const missing = awaited.filter(isMissing);
  const verdict = judge(awaited, missing, waitedMs);
  if (verdict !== null) return open(pod, types, verdict, view);
  const areNobody = missing.some(({ state }) => state === 'nobody');
  const isStill = (later: ClusterView) => missing[0]?.ask?.(later) === missing[0]?.state;
  const untilMs = nowMs + (areNobody ? aliveMs : timeoutMs) - waitedMs;
  const why = 'nodes do not send connections to the pod yet';
  return { does: 'wait', waitsFor: 'nodes', why, untilMs, isStill };
}

/** What a gate waits for: of one address, the nodes that have not programmed the pod. */
interface Awaited {
  readonly state:
    | NodesState
    /** The API does not take the early EndpointSlice, so nodes cannot know of the pod. */
    | 'refused'
    /** A device sends to ports of nodes: these have the pod when it is ready. */
    | 'node ports';
  /** What is missing, as a clause. It asks each node: a thousand pods may wait for a thousand. */
  readonly explain: () => string;
  /** The state as nodes report it later. Absent where news of the Service, its slices or its device are awaited. */
  readonly ask?: (view: ClusterView) => Awaited['state'];
  readonly listOverdue?: () => readonly (readonly [node: string, version: string])[];
}

function judge(awaited: readonly Awaited[], missing: readonly Awaited[], waitedMs: number): Verdict | null {
  if (awaited.length === 0)
    return { reason: 'NoService', message: 'No Service with an address of vipnat selects the pod.' };
  if (missing.length === 0) return judgeDone(awaited);
  if (waitedMs < timeoutMs) return null;
  const message = `After 3 minutes the gate opens, although ${explainAll(missing)}.`;
  const event = { type: 'Warning', reason: 'GateTimedOut', message } as const;
  const reason = missing.some(({ state }) => state === 'refused') ? 'Refused' : 'Timeout';
  const overdue = new Map(missing.flatMap(({ listOverdue }) => listOverdue?.() ?? []));
  return { reason, message, event, overdue };
}

function explainAll(awaited: readonly Awaited[]): string {
  return shorten([...new Set(awaited.map(({ explain }) => explain()))].sort());
}

/** What is said of a gate that waits for nothing: the first of these that is so. */
const doneReasons = [
  ['kube-proxy', 'KubeProxy'],
  ['overdue', 'Timeout'],
  ['done', 'LBHealthy'],
  ['nobody', 'NoLivingNode'],
  ['unknown', 'NotFollowed'],
  ['node ports', 'NodePorts'],
] as const satisfies readonly (readonly [Awaited['state'], string])[];

function judgeDone(awaited: readonly Awaited[]): Verdict {
  const [state, reason] =
    doneReasons.find(([one]) => awaited.some((each) => each.state === one)) ?? doneReasons[2];
  if (state === 'done') return { reason, message: 'LB synced successfully' };
  const clause = explainAll(awaited.filter((each) => each.state === state));
  return { reason, message: `${clause.charAt(0).toUpperCase()}${clause.slice(1)}.` };
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
  const atPorts = () => 'the device sends to ports of nodes, which have the pod when it is ready';
  if (device.spec.targets !== 'pods') return [{ state: 'node ports', explain: atPorts }];
  const { name } = device.metadata;
  const balancer = findBalancer(view, name, service);
  if (!hasFamilyOf(balancer, endpoints)) return [];
  const state = balancer?.gated.includes(pod.metadata.uid) === true ? 'done' : 'missing';
  return [{ state, explain: () => `the device ${name} does not send connections to the pod yet` }];
}

/** Whether a device can have one of these endpoints: it serves one family of a Service. As long as nobody knows which, it can. */
function hasFamilyOf(balancer: DeviceBalancer | undefined, endpoints: readonly WantedEndpoint[]): boolean {
  const families = (balancer?.addresses ?? []).flatMap((text) => parseAddress(text)?.family ?? []);
  return families.length === 0 || endpoints.some(({ family }) => families.includes(family));
}

/** Of each endpoint of the pod, and each address of its family. One without an address is awaited until the Service says that it gets none. */
function listOfService(pod: Pod, service: Service, view: ClusterView): Awaited[] {
  const { held } = findAllocations(service, view);
  return listEndpointsOf(pod, service, view).flatMap((endpoint) => {
    const own = held.filter(({ address }) => address.family === endpoint.family);
    // Its VirtualIP may have been deleted by hand: it is made again.
    const isLost = listReadyFamilies(service).includes(endpoint.family);
    if (own.length === 0) return isJudged(service) && !isLost ? [] : [awaitAddress(service)];
    if (readAnnotation(service, 'dataplane') === 'kube-proxy')
      return [{ state: 'kube-proxy', explain: () => 'the Service asks for kube-proxy' }];
    if (!endpoint.ready) return [{ state: 'missing', explain: () => 'the pod is about to be evicted' }];
    const version = findSince(endpoint, service, view);
    const pools = [...new Set(own.map(({ virtualIp: { spec } }) => spec.pool))];
    if (service.spec.externalTrafficPolicy === 'Local' && version === null) {
      // Its own node translates what others send there: nobody else knows the pod before that one does.
      const prepared = findSince(endpoint, service, view, true);
      const own = judgeNodes(`/${endpoint.node ?? ''}`, service, prepared, view);
      if (own.state !== 'done') return [own];
    }
    return pools.map((pool) => judgeNodes(pool, service, version, view));
  });
}

function awaitAddress({ metadata: { namespace, name } }: Service): Awaited {
  return { state: 'missing', explain: () => `the Service ${namespace}/${name} has no address yet` };
}

/** The version is null while no early EndpointSlice has the pod. */
function judgeNodes(pool: string, service: Service, version: string | null, view: ClusterView): Awaited {
  const { candidates } = view;
  const key = `${service.metadata.namespace}/${service.metadata.name}`;
  const ask = (later: ClusterView) => judgeNodes(pool, service, version, later).state;
  const state = candidates.judge(pool, key, version);
  if (state === 'missing' && version === null) return { ...judgeUnwritten(key, view), ask };
  const list = () => candidates.listDelaying(pool, key, version ?? '');
  const explain = () => {
    if (state === 'done') return '';
    const place = pool.startsWith('/') ? `the pod’s node ${pool.slice(1)}` : `the AddressPool ${pool}`;
    if (state === 'nobody') return `no balancer lives that could serve for ${place}`;
    return `${clauses[state]}: ${shorten(state === 'missing' ? list() : candidates.listNodes(state, pool, key))}`;
  };
  return { state, explain, ask, listOverdue: () => list().map((node) => [node, version ?? '']) };
}

const clauses = {
  missing: 'nodes do not send connections to the pod yet',
  unknown: 'balancers do not follow early EndpointSlices',
  overdue: 'nodes made a gate time out before, and have not caught up',
  'kube-proxy': 'kube-proxy serves the Service on nodes',
} as const satisfies Partial<Record<NodesState, string>>;

/** No node can have what no EndpointSlice has. */
function judgeUnwritten(service: string, { refusals }: ClusterView): Pick<Awaited, 'state' | 'explain'> {
  const detail = refusals.get(formatKey({ kind: earlySliceKind.name, key: service }));
  const unwritten = 'the controller has not written the pod into an EndpointSlice yet';
  if (detail === undefined) return { state: 'missing', explain: () => unwritten };
  const refused = `the API does not take the early EndpointSlices of ${service}: ${detail}`;
  return { state: 'refused', explain: () => refused };
}

/** Foreign conditions stay: they are merged by their types. It is refused if the pod is another one by now, or has changed. */
function open(pod: Pod, types: readonly string[], verdict: Verdict, { nowMs }: ClusterView): Step {
  const { reason, message, event = null, overdue } = verdict;
  const lastTransitionTime = toTime(nowMs);
  const conditions = types.map((type) => ({ type, status: 'True', reason, message, lastTransitionTime }));
  const write = patchMetadata('Pod', pod, { uid: pod.metadata.uid }, { status: { conditions } });
  const opening = { ...write, path: `${write.path}/status`, isStrategic: true } as const;
  return { ...toStep(opening, event), ...(overdue && { overdue }) };
}

/**
 * How long it takes until no node sends new connections to a pod that ends.
 *
 * Goal: people choose how long their pods serve on by a figure of their own cluster.
 * Tension: a pod's deletionTimestamp is in whole seconds, and by the clock of another host.
 * Compromise: time runs from when this controller saw the deletion, by its own clock. What was deleted before it led is not timed. So the time
 * before is missing: milliseconds while watches work.
 */

interface DrainTimesPorts {
  readonly clock: Clock;
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
  readonly seenMs: number;
  /** Services that send connections to it: in how many endpoints, and the version in which all of these end; null before. */
  readonly services: Map<string, { readonly endpoints: number; readonly version: string | null }>;
}

/** Times pods that end, from the first `take` to `stop`. */
export class DrainTimes {
  readonly #ports: DrainTimesPorts;
  readonly #uidToEnding = new Map<string, Ending>();
  #cancel: Cancel | null = null;

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
    const { uid } = after.metadata;
    this.#uidToEnding.set(uid, { key, seenMs: clock.now(), services });
    this.sync();
  }

  /** Something has changed that pods may wait for. Cheap while none ends. */
  sync(): void {
    if (this.#cancel !== null || this.#uidToEnding.size === 0) return;
    this.#cancel = this.#ports.clock.schedule(gatherMs, () => {
      this.#cancel = null;
      this.#check();
    });
  }

  stop(): void {
    this.#cancel?.();
    this.#uidToEnding.clear();
  }

  #check(): void {
    const { clock, onDrained } = this.#ports;
    const view = this.#ports.view();
    for (const [uid, ending] of this.#uidToEnding) {
      const tookMs = clock.now() - ending.seenMs;
      const state = judgeEnding(uid, ending, view);
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
  return [...pools].filter(
    (pool) => candidates.listNodes('unknown', pool, key).length < candidates.list(pool).length,
  );
}

/** `untold`: no node is left that could report it, or the pod went before the controller wrote that it ends. */
function judgeEnding(uid: string, { services, key }: Ending, view: ClusterView): 'waits' | 'done' | 'untold' {
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
  const { serviceToSlices, earlySlices } = view;
  const slices = [...(serviceToSlices.get(service) ?? [])].flatMap((key) => earlySlices.get(key) ?? []);
  const found = slices.flatMap((slice) => {
    const own = (slice.endpoints ?? []).filter(({ targetRef }) => targetRef?.uid === uid);
    return own.map((one) => (one.conditions?.terminating === true ? readSince(view, slice, one) : null));
  });
  const versions = found.flatMap((since) => (since === null ? [] : [BigInt(since)]));
  if (found.length < count || versions.length < found.length) return null;
  return String(versions.reduce((last, one) => (one > last ? one : last)));
}
