import {
  type ServiceObjects,
  type ServicesView,
  type ServiceView,
  judgeService,
  listCandidates,
  type ClusterView,
  type DeviceView,
  type DeviceOfService,
  type ControllerView,
  type PodView,
} from './view.ts';
import {
  nameEarlyOwner,
  readGateTypes,
  type EarlySlice,
  type Pod,
  toPodResource,
  listClosedGates,
  isReadyButForUs,
  readWaitingSince,
} from '../../lib/api/endpoints.ts';
import { type Service, type ServiceSlice, serviceNameLabel } from '../../lib/api/service.ts';
import {
  type VirtualIp,
  finalizer,
  loadBalancerClass,
  type Condition,
  electionLease,
} from '../../lib/api/vipnat.ts';
import { parseAddress, parseObjectName, parseRange, contains } from '../../lib/net.ts';
import { type LoadBalancerDevice, listCurrentOwners, chooseDevice } from '../../lib/api/device.ts';
import {
  readReports,
  judgeRenewal,
  type LeaseReport,
  type Lease,
  isProgrammed,
  type NodeReport,
  mayFollowEarly,
} from '../../lib/api/node.ts';
import type { Resource } from '../../lib/kubernetes/client.ts';

/** How Services do, by what the API has; nodes and controller count as long as their Leases last by this host's date. Pure. */
export function viewServices(objects: ServiceObjects, nowMs: number): ServicesView {
  const { services, slices, earlySlices, virtualIps, pools, devices, leases } = objects;
  const reports = readReports(leases, nowMs);
  const seen = devices.map(viewDevice).sort((one, other) => (one.name < other.name ? -1 : 1));
  const cluster = { reports, pools, devices: seen, controller: viewController(leases, nowMs) };
  const uses = virtualIps.flatMap((virtualIp) =>
    [...virtualIp.spec.services, ...virtualIp.spec.leaving].map(({ uid }) => ({ uid, virtualIp })),
  );
  const uidToUses = Map.groupBy(uses, ({ uid }) => uid);
  const keyToSlices = Map.groupBy(
    slices,
    ({ metadata: { namespace, labels } }) => `${namespace}/${labels?.[serviceNameLabel] ?? ''}`,
  );
  const keyToEarly = Map.groupBy(earlySlices, nameEarlyOwner);
  const waiting = Map.groupBy(
    findWaiting(objects.pods, readGateTypes(leases)),
    ({ pod }) => pod.split('/')[0] ?? '',
  );
  const views = services.map((service): ServiceView | null => {
    const key = `${service.metadata.namespace}/${service.metadata.name}`;
    const given = (uidToUses.get(service.metadata.uid) ?? []).map(({ virtualIp }) => virtualIp);
    const ofDevices = listDevicesOf(service, devices);
    if (ofDevices.length === 0 && !isOwn(service, given)) return null;
    const own = keyToSlices.get(key) ?? [];
    const addresses = listAddresses(service, given, cluster).map((one) => ({
      ...one,
      device: findDeviceOf(one.address, service, ofDevices, devices),
    }));
    const early = keyToEarly.get(key) ?? [];
    const near = waiting.get(service.metadata.namespace) ?? [];
    const gated = addGates(listPods(chooseFamily(own)), early, near, listCandidates(addresses, reports));
    const pods = addDrains(gated, key, reports);
    const facts = { service, key, addresses, pods, devices: ofDevices, slices: own, earlySlices: early };
    return { ...facts, ...judgeService(facts, cluster) };
  });
  const visible = views.filter((view) => view !== null);
  return { ...cluster, services: visible.sort((one, other) => (one.key < other.key ? -1 : 1)) };
}

/** Whether something does not work: of a Service, of a device, or of what gives Services their addresses. */
export function isInTrouble({ services, devices, controller }: ServicesView): boolean {
  const isUnready = devices.some(({ isReady }) => isReady !== true);
  return (
    !controller.isLeading || isUnready || services.some(({ state }) => !['ready', 'leaving'].includes(state))
  );
}

/**
 * By class, or by what the controller has done to it. One without a class and without an address waits for whoever serves such
 * Services, and may wait for us.
 */
function isOwn({ metadata, spec, status }: Service, given: readonly VirtualIp[]): boolean {
  if (given.length > 0 || metadata.finalizers?.includes(finalizer) === true) return true;
  if (spec.type !== 'LoadBalancer') return false;
  const ownClass = spec.loadBalancerClass ?? '';
  if (ownClass !== '') return ownClass === loadBalancerClass;
  return (status?.loadBalancer?.ingress ?? []).length === 0;
}

/** Those of its status first, in their order. */
function listAddresses({ status }: Service, given: readonly VirtualIp[], { reports, pools }: ClusterView) {
  const published = (status?.loadBalancer?.ingress ?? []).flatMap(({ ip, hostname }) => {
    const text = ip ?? hostname ?? '';
    return text === '' ? [] : [parseAddress(text)?.text ?? text];
  });
  const toText = ({ metadata: { name } }: VirtualIp) => parseObjectName(name)?.text ?? name;
  return [...new Set([...published, ...given.map(toText)])].map((address) => {
    const virtualIp = given.find((one) => toText(one) === address) ?? null;
    const base = { address, isPublished: published.includes(address), virtualIp };
    if (virtualIp === null) return { ...base, seat: null, seatHolders: [], nodes: [] };
    const { pool, seat: index } = virtualIp.spec;
    const seat = `${pool}/${index}`;
    const seatHolders = reports.filter(({ isLiving, seats }) => isLiving && seats.includes(seat));
    const seats = pools.find(({ metadata }) => metadata.name === pool)?.status?.seats ?? [];
    return {
      ...base,
      seat,
      seatHolders: seatHolders.map(({ node, mode }) => ({ node, mode })),
      nodes: seats.find((one) => one.index === index)?.nodes ?? [],
    };
  });
}

function viewDevice({ metadata: { name }, spec, status }: LoadBalancerDevice): DeviceView {
  const { units, balancers, foreignChanges, draining, conditions } = status ?? {};
  return {
    ...{ name, driver: spec.driver, units: units ?? [], balancers: balancers ?? null },
    ...{ foreignChanges: foreignChanges ?? [], draining: draining?.length ?? 0 },
    ...judge(conditions?.find(({ type }) => type === 'Ready')),
  };
}

function judge(condition: Condition | undefined): Pick<DeviceView, 'isReady' | 'reason' | 'why' | 'since'> {
  if (condition === undefined)
    return { isReady: null, reason: 'NotSeen', why: 'no controller has looked at it yet', since: null };
  const { status, reason, message, lastTransitionTime } = condition;
  const since = lastTransitionTime ?? null;
  return { isReady: status === 'True', reason, why: message.replace(/\.$/, ''), since };
}

/** The devices that are to have a Service, or have something of it: the one that it chooses first. None for one that nodes serve. Pure. */
function listDevicesOf(service: Service, devices: readonly LoadBalancerDevice[]): DeviceOfService[] {
  const seatHolders = listCurrentOwners(service);
  const chosen = chooseDevice(service, undefined);
  const names = [...(chosen === null ? [] : [chosen]), ...seatHolders];
  const key = `${service.metadata.namespace}/${service.metadata.name}`;
  return [...new Set(names)].map((name) => {
    const device = devices.find(({ metadata }) => metadata.name === name);
    const draining = (device?.status?.draining ?? []).filter((drain) => drain.service === key);
    return { name, view: device === undefined ? null : viewDevice(device), draining };
  });
}

/** Which of a Service's own devices has an address of its status; null for a node. Pure. */
function findDeviceOf(
  address: string,
  service: Service,
  own: readonly DeviceOfService[],
  devices: readonly LoadBalancerDevice[],
): string | null {
  const isOfDevice = (service.status?.loadBalancer?.ingress ?? []).some(
    ({ ip, ipMode }) => ipMode === 'Proxy' && parseAddress(ip ?? '')?.text === address,
  );
  if (!isOfDevice) return null;
  const parsed = parseAddress(address);
  const hasIt = (text: string) => {
    const range = parseRange(text);
    return range !== null && parsed !== null && contains(range, parsed);
  };
  const found = devices.find(
    ({ metadata, spec }) => own.some(({ name }) => name === metadata.name) && spec.addresses.some(hasIt),
  );
  return found?.metadata.name ?? own[0]?.name ?? null;
}

/** Lasts for 15 s where the Lease does not say. Source: client-go, tools/leaderelection. */
const defaultSeconds = 15;

/** Which controller leads, by its Lease. Pure. */
function viewController(leases: readonly Lease[], nowMs: number): ControllerView {
  const spec = leases.find(({ metadata }) => metadata.name === electionLease)?.spec;
  const durationMs = (spec?.leaseDurationSeconds ?? defaultSeconds) * 1000;
  const { msSinceRenewal, isLiving } = judgeRenewal(spec?.renewTime ?? '', durationMs, nowMs);
  const leader = spec?.holderIdentity ?? '';
  return { isLeading: isLiving && leader !== '', leader: leader === '' ? null : leader, msSinceRenewal };
}

/** A node that may hold an address of a Service, or does. */
export interface NodeOfService {
  readonly node: string;
  /** What its balancer said last; null where it has none. */
  readonly report: LeaseReport | null;
  /** Whether it has said that its kernel has all of the Service, as the API has it now. It says so within 10 s. */
  readonly isProgrammed: boolean;
}

/** The nodes on which a Service's addresses depend, in the order in which they may hold the first one. Pure. */
export function listNodes(
  { service, addresses, slices, earlySlices }: ServiceView,
  reports: readonly LeaseReport[],
): NodeOfService[] {
  const names = addresses.flatMap(({ nodes, seatHolders }) => [
    ...nodes,
    ...seatHolders.map(({ node }) => node),
  ]);
  const hasAll = (report: LeaseReport) =>
    isProgrammed(report, 'services', service.metadata.resourceVersion) &&
    slices.every(({ metadata }) => isProgrammed(report, 'endpointslices', metadata.resourceVersion)) &&
    earlySlices.every(({ metadata }) => isProgrammed(report, 'earlyslices', metadata.resourceVersion)) &&
    addresses.every(
      ({ virtualIp }) =>
        virtualIp === null || isProgrammed(report, 'virtualips', virtualIp.metadata.resourceVersion),
    );
  return [...new Set(names)].map((node) => {
    const report = reports.find((one) => one.node === node) ?? null;
    return { node, report, isProgrammed: report?.isLiving === true && hasAll(report) };
  });
}

type Endpoint = NonNullable<ServiceSlice['endpoints']>[number];

/** The pods of some slices, each once, in the order of their addresses as texts. Pure. */
function listPods(slices: readonly ServiceSlice[]): PodView[] {
  const addressToPod = new Map<string, PodView>();
  for (const slice of slices) {
    const ports = (slice.ports ?? []).flatMap(({ port }) => (typeof port === 'number' ? [port] : []));
    for (const endpoint of slice.endpoints ?? []) {
      // Of several addresses the first counts: all are the same pod's. Source: discovery/v1, Endpoint.addresses.
      const [address] = endpoint.addresses;
      if (address === undefined) continue;
      const pod = toPod(address, [...new Set(ports)], endpoint);
      addressToPod.set(address, merge(addressToPod.get(address), pod));
    }
  }
  return [...addressToPod.values()].sort((one, other) => (one.address < other.address ? -1 : 1));
}

/** The same pods, with what living nodes say of those of a Service, `NAMESPACE/NAME`, that drain. Pure. */
function addDrains(pods: readonly PodView[], service: string, reports: readonly LeaseReport[]): PodView[] {
  const detail = reports
    .filter(({ isLiving }) => isLiving)
    .flatMap(({ node, draining = [] }) => draining.map((one) => ({ ...one, node })));
  const addressToDrains = Map.groupBy(
    detail.filter((one) => one.service === service),
    ({ endpoint }) => endpoint,
  );
  return pods.map((pod) => {
    const drains = addressToDrains.get(pod.address) ?? [];
    const [since] = drains.map((one) => one.since).sort();
    if (since === undefined) return pod;
    const counts = drains.flatMap(({ connections }) => connections ?? []);
    const connections = counts.length === 0 ? null : counts.reduce((sum, count) => sum + count);
    const nodes = drains.map((one) => ({ node: one.node, since: one.since, connections: one.connections }));
    return { ...pod, draining: { since, connections, nodes } };
  });
}

/**
 * The same pods, with the gates that they wait for: early EndpointSlices call such a pod ready, and Kubernetes does not. Without a controller,
 * only the pod itself shows it. Pure.
 */
function addGates(
  pods: readonly PodView[],
  early: readonly EarlySlice[],
  waiting: readonly WaitingPod[],
  candidates: readonly NodeReport[],
): PodView[] {
  const addressToVersion = new Map(
    early.flatMap(({ metadata, endpoints }) =>
      (endpoints ?? [])
        .filter(({ conditions }) => conditions?.ready === true)
        .flatMap(({ addresses }) => addresses.map((one) => [one, metadata.resourceVersion] as const)),
    ),
  );
  return pods.map((pod) => {
    const version = addressToVersion.get(pod.address);
    const read = waiting.find(({ addresses }) => addresses.includes(pod.address));
    if (pod.state !== 'not ready' || (version === undefined && read === undefined)) return pod;
    const isBehind = (report: NodeReport) =>
      version !== undefined && mayFollowEarly(report) && !isProgrammed(report, 'earlyslices', version);
    const nodes = candidates.filter(isBehind).map(({ node }) => node);
    return { ...pod, gate: { pod: read?.pod ?? null, since: read?.since ?? null, nodes } };
  });
}

/** The slices of the family that has the most endpoints: a pod of two families has an endpoint in each. Pure. */
function chooseFamily(slices: readonly ServiceSlice[]): readonly ServiceSlice[] {
  const count = (some: readonly ServiceSlice[]) =>
    some.reduce((sum, { endpoints }) => sum + (endpoints?.length ?? 0), 0);
  const byType = [...Map.groupBy(slices, ({ addressType }) => addressType).values()];
  return byType.sort((one, other) => count(other) - count(one))[0] ?? [];
}

/** A missing condition counts as good. Source: discovery/v1, EndpointConditions. */
function toPod(address: string, ports: readonly number[], { conditions, nodeName }: Endpoint): PodView {
  const isReady = conditions?.ready ?? true;
  const isEnding = conditions?.terminating === true;
  return {
    address,
    ports: ports.toSorted((one, other) => one - other).join(','),
    state: isReady ? 'ready' : isEnding ? 'ending' : 'not ready',
    isServingLast: isEnding && (conditions.serving ?? isReady),
    node: nodeName ?? null,
    gate: null,
    draining: null,
  };
}

/** Several slices can have it: for further ports, and while it moves from one to another. The better word counts. */
function merge(before: PodView | undefined, pod: PodView): PodView {
  if (before === undefined) return pod;
  const ports = [...new Set([before.ports, pod.ports].filter((text) => text !== ''))].join(',');
  return { ...(before.state !== 'ready' && pod.state === 'ready' ? pod : before), ports };
}

/** A pod that lacks nothing but gates of vipnat. */
interface WaitingPod {
  /** `NAMESPACE/NAME`. */
  readonly pod: string;
  readonly addresses: readonly string[];
  /** Since when it lacks nothing else, as the API writes dates. */
  readonly since: string;
}

/** All pods that have any readiness gate. */
export const gatedPods: Resource<Pod> = {
  ...toPodResource(new Set()),
  isKept: ({ spec }) => (spec.readinessGates ?? []).length > 0,
};

/** Those of them that a Service selects. */
export function selectPodsOf({ metadata: { namespace }, spec }: Service): Resource<Pod> {
  const labels = Object.entries(spec.selector ?? {}).map(([label, value]) => `${label}=${value}`);
  return {
    ...gatedPods,
    path: `/api/v1/namespaces/${namespace}/pods`,
    selector: `${gatedPods.selector}&labelSelector=${encodeURIComponent(labels.join(','))}`,
  };
}

/** The pods that wait for gates of these types. Pure. */
export function findWaiting(pods: readonly Pod[], types: ReadonlySet<string>): WaitingPod[] {
  return pods.flatMap((pod) => {
    const { namespace, name, deletionTimestamp } = pod.metadata;
    const isWaiting = listClosedGates(pod, types).length > 0 && isReadyButForUs(pod, types);
    if (!isWaiting || typeof deletionTimestamp === 'string') return [];
    const addresses = [...(pod.status?.podIPs ?? []).map(({ ip }) => ip), pod.status?.podIP];
    return [
      {
        pod: `${namespace}/${name}`,
        addresses: [...new Set(addresses)].flatMap((address) => address ?? []),
        since: `${new Date(readWaitingSince(pod, types)).toISOString().slice(0, 19)}Z`,
      },
    ];
  });
}
