import {
  type Service,
  readRequests,
  type ServiceRequests,
  readAnnotation,
  findUnknownMethod,
  type ServicePort,
  readDuration,
  type ServiceSlice,
} from '../../lib/api/service.ts';
import type { LoadBalancerDevice } from '../../lib/api/device.ts';
import {
  type Capabilities,
  type Balancer,
  type BalancerId,
  type DeviceMethod,
  type Listener,
  type Member,
  formatMember,
} from '../../devices/driver.ts';
import type { DeviceProblem } from '../cache/known.ts';
import type { ClusterView } from '../cache/cache.ts';
import { chooseDeviceAddress } from './choose-address.ts';
import {
  type Family,
  parseRange,
  families,
  countOfFamily,
  parseAddress,
  type Address,
} from '../../lib/net.ts';
import { quoteTenant } from '../../lib/text.ts';
import {
  listGates,
  listBackends,
  readPodWeight,
  type Pod,
  type Backend,
  chooseServing,
  maxWeight,
} from '../../lib/api/endpoints.ts';
import { listEndpointsOf } from '../kinds/endpoints.ts';

/** What a Service is to be on a device that it has chosen. Pure. */

/** A Service, and what its device has for it. */
interface BalancerQuery {
  readonly service: Service;
  readonly device: LoadBalancerDevice;
  readonly capabilities: Capabilities;
  /** Addresses that the device has for it, in canonical text. */
  readonly present: readonly string[];
  readonly former: FormerMembers;
  /** By a clock that does not jump. */
  readonly nowMs: number;
}

/** What is to be there. */
export interface Wanted {
  /** Null: nothing, as `problem` says; what is there stays. */
  readonly balancer: Balancer | null;
  readonly problem: DeviceProblem | null;
  /** What the device leaves out, as a sentence; null for nothing. */
  readonly remark: string | null;
  /** The uids of pods with gates that it sends connections to, as if they were open; none of them through the ports of nodes. */
  readonly gated: readonly string[];
}

/** Connections of HTTP end within it; what lasts longer can ask for more with `vipnat.io/drain-timeout`. */
const usualDrainMs = 60_000;

/** What a device is to have for a Service. */
export function toWanted(query: BalancerQuery, view: ClusterView): Wanted {
  const { service, device } = query;
  const requests = readRequests(service);
  const refusal = findRefusal(query, requests);
  if (refusal !== null) return refuse(refusal);
  const family = chooseFamily(query, requests);
  if (family === null) {
    const message = `The device ${device.metadata.name} has no addresses of a family that the Service has (${requests.families.join(', ')}).`;
    return refuse({ reason: 'NotSupported', message });
  }
  const { address, problem } = chooseDeviceAddress({ ...query, family }, view);
  if (address === null) return refuse(problem);
  const { method, affinityS, lacks } = judgeRequests(query);
  const ports = listPorts(query);
  const { slices, uids } = readGatedSlices(service, device, view);
  const listeners = ports.map((port) => toListener(port, { ...query, family, slices }, view));
  if (listeners.length === 0) return refuse(describeNoPort(query));
  const balancer: Balancer = {
    ...{ id: toBalancerId(service, device), addresses: [address], method, affinityS },
    listeners: listeners.sort((one, other) => compareListeners(one, other)),
  };
  const all = [...lacks, ...listLacking(query, requests, { family, listeners })];
  return { balancer, problem, remark: toRemark(device, all), gated: uids };
}

function refuse(problem: DeviceProblem | null): Wanted {
  return { balancer: null, problem, remark: null, gated: [] };
}

/** The mark of a Service on a device. */
export function toBalancerId({ metadata }: Service, { spec }: LoadBalancerDevice): BalancerId {
  const { namespace, name, uid } = metadata;
  return { cluster: spec.cluster, namespace, name, uid };
}

/** What no part of can be left out. */
function findRefusal({ service, device }: BalancerQuery, requests: ServiceRequests): DeviceProblem | null {
  const { name } = device.metadata;
  const ranges = (service.spec.loadBalancerSourceRanges ?? []).map((text) => text.trim());
  const isLimited = ranges.length > 0 && !ranges.some((text) => text === '0.0.0.0/0' || text === '::/0');
  if (isLimited) {
    const message = `The device ${name} lets all clients in, and the Service has loadBalancerSourceRanges.`;
    return { reason: 'NotSupported', message };
  }
  if (!requests.isAllOrNothing) return null;
  const message = `The device ${name} serves one family, and the Service asks for two (RequireDualStack).`;
  return { reason: 'NotSupported', message };
}

/** The first of the Service's that the device has addresses of. */
function chooseFamily(
  { device, capabilities }: BalancerQuery,
  { families: wanted }: ServiceRequests,
): Family | null {
  const ranges = device.spec.addresses.flatMap((text) => parseRange(text) ?? []);
  const able = families.filter(
    (family) => (family === 'ipv4' || capabilities.ipv6) && countOfFamily(ranges, family) > 0n,
  );
  return wanted.find((family) => able.includes(family)) ?? null;
}

function judgeRequests({ service, capabilities }: BalancerQuery): Pick<Balancer, 'method' | 'affinityS'> & {
  readonly lacks: readonly string[];
} {
  const { method, lack } = chooseMethod(service, capabilities);
  const seconds = service.spec.sessionAffinityConfig?.clientIP?.timeoutSeconds ?? usualAffinityS;
  const isSticky = service.spec.sessionAffinity === 'ClientIP';
  const isLost = isSticky && !capabilities.affinity;
  return {
    ...{ method, affinityS: isSticky && !isLost ? seconds : null },
    lacks: [...(lack === null ? [] : [lack]), ...(isLost ? ['the session affinity'] : [])],
  };
}

/** Source: core/v1, DefaultClientIPServiceAffinitySeconds. */
const usualAffinityS = 10_800;

const isMethod = (text: string): text is DeviceMethod => ['rr', 'lc', 'hash'].includes(text);

/** Devices have no `random`: in turn is as even. */
function chooseMethod(
  service: Service,
  { methods }: Capabilities,
): { readonly method: DeviceMethod; readonly lack: string | null } {
  const text = readAnnotation(service, 'method') ?? '';
  const asked = isMethod(text) ? text : 'rr';
  const unknown = findUnknownMethod(service);
  if (methods.includes(asked))
    return { method: asked, lack: unknown === null ? null : `the method ${quoteTenant(unknown)}` };
  const [first = 'rr'] = methods;
  return { method: methods.includes('rr') ? 'rr' : first, lack: `the method ${asked}` };
}

/** Those that the device can have. */
function listPorts({ service, device, capabilities }: BalancerQuery): ServicePort[] {
  const isNodePort = device.spec.targets !== 'pods';
  return (service.spec.ports ?? []).filter(
    ({ protocol, nodePort }) =>
      (protocol === 'TCP' || (protocol === 'UDP' && capabilities.udp)) &&
      (!isNodePort || (nodePort ?? 0) > 0),
  );
}

function describeNoPort({ service, device }: BalancerQuery): DeviceProblem {
  const lacksNodePorts = (service.spec.ports ?? []).some(({ nodePort }) => (nodePort ?? 0) === 0);
  const remedy =
    device.spec.targets !== 'pods' && lacksNodePorts
      ? 'it sends to node ports: see allocateLoadBalancerNodePorts'
      : 'it does not have their protocols';
  const message = `The device ${device.metadata.name} can have none of the Service's ports: ${remedy}.`;
  return { reason: 'NotSupported', message };
}

function toListener(
  port: ServicePort,
  { service, device, former, nowMs, family, slices }: BalancerQuery & Pick<MembersQuery, 'family' | 'slices'>,
  view: ClusterView,
): Listener {
  const drainMs = readDuration(service, 'drainTimeout').ms ?? usualDrainMs;
  return {
    protocol: port.protocol === 'UDP' ? 'udp' : 'tcp',
    port: port.port,
    members: listMembers({ service, device, port, slices, family, former, drainMs, nowMs }, view),
  };
}

function compareListeners(one: Listener, other: Listener): number {
  return one.port === other.port ? (one.protocol < other.protocol ? -1 : 1) : one.port - other.port;
}

function listLacking(
  query: BalancerQuery,
  requests: ServiceRequests,
  { family, listeners }: { readonly family: Family; readonly listeners: readonly Listener[] },
): string[] {
  const { service, capabilities } = query;
  const served = new Set(listPorts(query));
  const ports = (service.spec.ports ?? []).filter((port) => !served.has(port));
  const weights = listeners.map(({ members }) =>
    members.map(({ weight }) => weight).filter((one) => one > 0),
  );
  const areUneven = weights.some((each) => new Set(each).size > 1);
  return [
    ...ports.map(({ protocol, port }) => `the port ${protocol} ${port}`),
    ...requests.families.filter((each) => each !== family).map((each) => `the family ${each}`),
    ...(areUneven && !capabilities.weights ? ['weights'] : []),
  ];
}

function toRemark({ metadata: { name } }: LoadBalancerDevice, lacks: readonly string[]): string | null {
  return lacks.length === 0 ? null : `The device ${name} does not have ${lacks.join(', ')}.`;
}

/** Pods that lack nothing but readiness gates of vipnat: a device gets them before Kubernetes calls them ready. Pure. */

/** The EndpointSlices of a Service, with such pods as ready. */
interface GatedSlices {
  readonly slices: readonly ServiceSlice[];
  /** The uids of the pods with gates that these slices call ready, in order. */
  readonly uids: readonly string[];
}

/**
 * What a Service's slices come to on a device. A pod that no slice has yet is not among them. Behind ports of nodes Kubernetes decides alone who is
 * ready.
 */
function readGatedSlices(service: Service, { spec }: LoadBalancerDevice, view: ClusterView): GatedSlices {
  const key = `${service.metadata.namespace}/${service.metadata.name}`;
  const keys = view.serviceToEndpointSlices.get(key) ?? [];
  const slices = [...keys].flatMap((each) => view.endpointSlices.get(each) ?? []);
  const addressToUid = spec.targets === 'pods' ? listGated(key, service, view) : new Map<string, string>();
  if (addressToUid.size === 0) return { slices, uids: [] };
  const found = new Set<string>();
  const opened = slices.map((slice) => ({
    ...slice,
    endpoints: slice.endpoints?.map((endpoint) => {
      const uid = addressToUid.get(endpoint.addresses[0] ?? '');
      if (uid === undefined || endpoint.conditions?.terminating === true) return endpoint;
      found.add(uid);
      return { ...endpoint, conditions: { ...endpoint.conditions, ready: true } };
    }),
  }));
  return { slices: opened, uids: [...found].sort() };
}

/**
 * Addresses to uids. An open gate counts as well: until Kubernetes' own EndpointSlices have the pod as ready, it would go again. A Service has
 * one pod at most with an address.
 */
function listGated(key: string, service: Service, view: ClusterView): ReadonlyMap<string, string> {
  const pods = [...(view.serviceToPods.get(key) ?? [])].flatMap((each) => view.pods.get(each) ?? []);
  const gated = pods.filter((pod) => listGates(pod, view.settings.gateTypes).length > 0);
  const endpoints = gated.flatMap((pod) => listEndpointsOf(pod, service, view));
  return new Map(endpoints.filter(({ ready }) => ready).map(({ address, pod }) => [address, pod.uid]));
}

/** Where a device sends the connections of a Service's port: pods, or the nodes' ports. Pure. */

/** Members that a device has, as `nameMember` writes them, to since when each drains; null for those that do not. */
export type FormerMembers = ReadonlyMap<string, number | null>;

/** A port, with whose members it is compared. */
interface MembersQuery {
  readonly service: Service;
  readonly device: LoadBalancerDevice;
  readonly port: ServicePort;
  /** Of the Service. */
  readonly slices: readonly ServiceSlice[];
  readonly family: Family;
  readonly former: FormerMembers;
  /** How long a node's port keeps its open connections after it got its last new one. */
  readonly drainMs: number;
  readonly nowMs: number;
}

/** One member of one listener. */
export function nameMember(protocol: string, port: number, member: Pick<Member, 'address' | 'port'>): string {
  return `${protocol.toLowerCase()} ${port} ${formatMember(member)}`;
}

/**
 * The members of a port, in the order of their names.
 *
 * What the device has and is to get no connections any more stays with weight 0: a pod until it is gone, since its address may be another's
 * then, and a node's port for as long as connections may drain.
 */
function listMembers(query: MembersQuery, view: ClusterView): Member[] {
  const { service, port, slices, family } = query;
  const key = `${service.metadata.namespace}/${service.metadata.name}`;
  const { name, protocol } = port;
  const weights = readWeightsOf(key, view);
  const { backends } = listBackends(slices, { family, name, protocol, weights }, new Set());
  const members =
    query.device.spec.targets === 'pods' ? toPods(query, backends) : toNodes(query, backends, view);
  return fitWeights(members).sort((one, other) => (formatMember(one) < formatMember(other) ? -1 : 1));
}

/** Addresses of the Service's pods to weights that are not the usual one. */
function readWeightsOf(key: string, { serviceToPods, pods }: ClusterView): ReadonlyMap<string, number> {
  const weights = new Map<string, number>();
  for (const each of serviceToPods.get(key) ?? []) {
    const pod = pods.get(each);
    const weight = pod === undefined ? null : readPodWeight(pod.metadata.annotations);
    if (pod !== undefined && weight !== null)
      for (const text of listAddresses(pod)) weights.set(text, weight);
  }
  return weights;
}

function listAddresses({ status }: Pod): string[] {
  const texts = status?.podIPs?.map(({ ip }) => ip) ?? [status?.podIP];
  return texts.flatMap((text) => parseAddress(text ?? '') ?? []).map(({ text }) => text);
}

function toPods({ port, former }: MembersQuery, backends: readonly Backend[]): Member[] {
  const serving = new Set(chooseServing(backends));
  return backends.flatMap((backend): Member[] => {
    const address = parseAddress(backend.address);
    if (address === null) return [];
    const member = { address, port: backend.port };
    if (serving.has(backend)) return [{ ...member, weight: Math.max(1, backend.weight) }];
    return former.has(nameMember(port.protocol, port.port, member)) ? [{ ...member, weight: 0 }] : [];
  });
}

function toNodes(query: MembersQuery, backends: readonly Backend[], view: ClusterView): Member[] {
  const { port, service, family, former, drainMs, nowMs } = query;
  const nodePort = port.nodePort ?? 0;
  const serving = chooseServing(backends);
  const isLocal = service.spec.externalTrafficPolicy === 'Local';
  const weights = new Map<Address, number>();
  for (const node of view.deviceNodes.values()) {
    const address = node.addresses.find((one) => one.family === family);
    if (address === undefined || !node.takesConnections) continue;
    const here = serving.filter((backend) => backend.node === node.metadata.name);
    weights.set(
      address,
      here.reduce((sum, { weight }) => sum + Math.max(1, weight), 0),
    );
  }
  // With the policy Cluster every node reaches every pod, wherever these are.
  const isElsewhere = serving.length > 0 && [...weights.values()].every((weight) => weight === 0);
  if (isElsewhere && !isLocal) for (const address of weights.keys()) weights.set(address, 1);
  const members = [...weights].flatMap(([address, weight]) =>
    weight === 0 ? [] : [{ address, port: nodePort, weight }],
  );
  const known = new Set(members.map((member) => nameMember(port.protocol, port.port, member)));
  return [...members, ...listDraining({ port, former, drainMs, nowMs, family }, known)];
}

/** Members that the device has, and that are to get nothing any more: as long as their connections may last. */
function listDraining(
  {
    port,
    former,
    drainMs,
    nowMs,
    family,
  }: Pick<MembersQuery, 'port' | 'former' | 'drainMs' | 'nowMs' | 'family'>,
  known: ReadonlySet<string>,
): Member[] {
  const prefix = `${port.protocol.toLowerCase()} ${port.port} `;
  return [...former].flatMap(([name, sinceMs]): Member[] => {
    if (!name.startsWith(prefix) || known.has(name)) return [];
    const member = parseMember(name.slice(prefix.length));
    const isOver = sinceMs !== null && nowMs - sinceMs >= drainMs;
    return member?.address.family !== family || isOver ? [] : [{ ...member, weight: 0 }];
  });
}

/** As `formatMember` writes it. */
function parseMember(text: string): Pick<Member, 'address' | 'port'> | null {
  const [, host = '', port = ''] = /^\[?([^\]]*)\]?:(\d+)$/.exec(text) ?? [];
  const address = parseAddress(host);
  return address === null ? null : { address, port: Number(port) };
}

/** The highest weight is what a member can have at most; nobody who gets connections gets none for that. */
function fitWeights(members: readonly Member[]): Member[] {
  const highest = Math.max(0, ...members.map(({ weight }) => weight));
  if (highest <= maxWeight) return [...members];
  return members.map((member) => ({
    ...member,
    weight: member.weight === 0 ? 0 : Math.max(1, Math.round((member.weight * maxWeight) / highest)),
  }));
}
