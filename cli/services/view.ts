import {
  addressReady,
  loadBalancerClass,
  type Condition,
  finalizer,
  type VirtualIp,
  type AddressPool,
} from '../../lib/api/vipnat.ts';
import { chooseDevice, type LoadBalancerDevice, type DeviceUnit } from '../../lib/api/device.ts';
import { shorten } from '../../lib/text.ts';
import { isProgrammed, type Lease, type LeaseReport } from '../../lib/api/node.ts';
import { isAwaited, type Service, type ServiceSlice } from '../../lib/api/service.ts';
import type { Backend, EarlySlice, Pod } from '../../lib/api/endpoints.ts';

/** How a Service does. What the controller says in its condition counts first; what it cannot know follows from the other objects. */

/** Judges one Service. Pure. */
export function judgeService(facts: ServiceFacts, cluster: ClusterView): Judgement {
  const condition = findCondition(facts);
  if (isLeaving(facts)) return describeLeaving(facts, cluster);
  const isPublished = facts.addresses.some((one) => one.isPublished);
  if (condition?.status === 'False') return quote(isPublished ? 'not served' : 'pending', condition);
  // Of nodes' class, it leaves the devices that still have something of it.
  const isOfNodes = facts.service.spec.loadBalancerClass === loadBalancerClass;
  const device = isOfNodes ? undefined : facts.devices[0];
  const judgeOnNodes = isPublished ? judgePublished : judgePending;
  const trouble = device === undefined ? judgeOnNodes(facts, cluster) : judgeOnDevice(facts, device, cluster);
  return trouble ?? describeReady(condition);
}

function findCondition({ service }: ServiceFacts): Condition | null {
  return service.status?.conditions?.find(({ type }) => type === addressReady) ?? null;
}

/** What is wrong with a Service of a device, as far as no condition says it; null where no problem is known. */
function judgeOnDevice(facts: ServiceFacts, device: DeviceOfService, cluster: ClusterView): Judgement | null {
  const isPublished = facts.addresses.some((one) => one.isPublished);
  const noDevice: Problem = { reason: 'NoDevice', why: `there is no LoadBalancerDevice ${device.name}` };
  const gone = device.view === null ? noDevice : null;
  if (isPublished) {
    const lack = gone ?? findLack(facts);
    return lack === null ? null : toJudgement(gone === null ? 'no pods' : 'not served', lack);
  }
  const problem = findNoController(cluster) ?? gone ?? findUnready(device);
  const notSeen: Problem = { reason: 'NotSeen', why: `the device ${device.name} does not serve it yet` };
  return toJudgement('pending', problem ?? notSeen, facts.service.metadata.creationTimestamp ?? null);
}

/** A device that is not ready may still serve what it has: only a Service that waits for it reports this. */
function findUnready({ name, view }: DeviceOfService): Problem | null {
  if (view === null || view.isReady === true) return null;
  return { reason: 'DeviceNotReady', why: `the device ${name} is not ready: ${view.why}` };
}

/** What is wrong with a Service that has an address; null where nothing is. */
function judgePublished(facts: ServiceFacts, { reports }: ClusterView): Judgement | null {
  const published = facts.addresses.filter(({ isPublished }) => isPublished);
  const problem = published
    .map((address) => judgeSeatHolder(address, reports) ?? findUnresponsive(address, facts.pods, reports))
    .find((found) => found !== null);
  if (problem !== undefined) return toJudgement('not served', problem);
  const lack = findLack(facts);
  return lack === null ? null : toJudgement('no pods', lack);
}

/** It works; the condition may have something to say all the same. */
function describeReady(condition: Condition | null): Judgement {
  if (condition !== null && condition.reason !== 'Ready') return quote('ready', condition);
  return { state: 'ready', reason: 'Ready', why: null, since: condition?.lastTransitionTime ?? null };
}

interface Problem {
  /** What is said where no condition says it. Published: none changes its meaning. */
  readonly reason: string;
  readonly why: string;
}

function toJudgement(state: ServiceState, { reason, why }: Problem, since: string | null = null): Judgement {
  return { state, reason, why, since };
}

function quote(state: ServiceState, { reason, message, lastTransitionTime }: Condition): Judgement {
  return { state, reason, why: message.replace(/\.$/, ''), since: lastTransitionTime ?? null };
}

function isLeaving({ service }: ServiceFacts): boolean {
  const { metadata, spec } = service;
  const ownClass = spec.loadBalancerClass ?? '';
  const isOfDevice = chooseDevice(service, undefined) !== null;
  const isOthers = ownClass !== '' && ownClass !== loadBalancerClass && !isOfDevice;
  return typeof metadata.deletionTimestamp === 'string' || spec.type !== 'LoadBalancer' || isOthers;
}

/** For whom it waits: without a controller, for ever. */
function describeLeaving(facts: ServiceFacts, cluster: ClusterView): Judgement {
  const { service, addresses } = facts;
  const { controller, reports } = cluster;
  const behind = listBehind(addresses, reports);
  const ofDevices = describeDevices(facts);
  const what =
    ofDevices ??
    (addresses.length === 0 ? 'the controller removes its finalizer' : 'nodes withdraw its address');
  const who = behind.length === 0 ? what : `${what}: ${behind.join(', ')}`;
  const why = controller.isLeading ? who : 'no controller leads, so its finalizer stays';
  return toJudgement('leaving', { reason: 'Leaving', why }, service.metadata.deletionTimestamp ?? null);
}

/** Which devices still have something of it, or why one cannot let it go; null for none. */
function describeDevices(facts: ServiceFacts): string | null {
  const { devices } = facts;
  if (devices.length === 0) return null;
  const condition = findCondition(facts);
  if (condition?.status === 'False') return condition.message.replace(/\.$/, '');
  return `the device ${devices.map(({ name }) => name).join(' and ')} gives it up`;
}

/** The living nodes that have not said that they withdrew an address, as the API has it now. */
function listBehind(addresses: readonly AddressView[], reports: readonly LeaseReport[]): readonly string[] {
  const versions = addresses.flatMap(({ virtualIp }) => virtualIp?.metadata.resourceVersion ?? []);
  const isBehind = (report: LeaseReport) =>
    report.isLiving && versions.some((version) => !isProgrammed(report, 'virtualips', version));
  return reports.filter(isBehind).map(({ node }) => node);
}

function judgePending(facts: ServiceFacts, cluster: ClusterView): Judgement {
  const since = facts.service.metadata.creationTimestamp ?? null;
  const [given] = facts.addresses;
  const noPool: Problem = { reason: 'NoPool', why: 'there is no AddressPool' };
  const problem =
    findNoClass(facts) ??
    findNoController(cluster) ??
    (cluster.pools.length === 0 ? noPool : null) ??
    (given === undefined ? null : judgeGiven(given, cluster));
  const notSeen: Problem = { reason: 'NotSeen', why: 'the controller has not given it an address yet' };
  return toJudgement('pending', problem ?? notSeen, since);
}

function findNoClass({ service: { spec, metadata }, addresses }: ServiceFacts): Problem | null {
  const isSeen = addresses.length > 0 || metadata.finalizers?.includes(finalizer) === true;
  if ((spec.loadBalancerClass ?? '') !== '' || isSeen) return null;
  const advice = `a new Service needs loadBalancerClass: ${loadBalancerClass}, or the controller --default-class`;
  return { reason: 'NoClass', why: `it has no loadBalancerClass, and no controller serves it: ${advice}` };
}

function findNoController({ controller }: ClusterView): Problem | null {
  if (controller.isLeading) return null;
  return { reason: 'NoController', why: 'no controller leads, so it gets no address' };
}

function judgeGiven(given: AddressView, { reports }: ClusterView): Problem {
  const { address, virtualIp, seatHolders } = given;
  const nobody = findNobody(given, reports);
  if (nobody !== null) return nobody;
  if (virtualIp === null || isAwaited(virtualIp))
    return { reason: 'WaitingForNodes', why: `${address}: nodes have not programmed it yet` };
  const [leader] = seatHolders;
  return leader === undefined
    ? describeNoSeatHolder(given)
    : { reason: 'NotAnnounced', why: `${address}: no interface of ${leader.node} has it yet` };
}

function describeNoSeatHolder({ address, seat }: AddressView): Problem {
  return { reason: 'NoSeatHolder', why: `no node holds ${address} (seat ${seat ?? ''})` };
}

/** Why nobody, or more than one, holds an address; null where one node does. */
function judgeSeatHolder(address: AddressView, reports: readonly LeaseReport[]): Problem | null {
  const { address: text, virtualIp, seat, seatHolders } = address;
  if (virtualIp === null)
    return { reason: 'NoVirtualIP', why: `${text} has no VirtualIP of this Service, so no node serves it` };
  if (seatHolders.length === 1) return null;
  if (seatHolders.length > 1) {
    const names = seatHolders.map(({ node }) => node).join(' and ');
    return { reason: 'TwoSeatHolders', why: `${names} both hold ${text} (seat ${seat ?? ''})` };
  }
  return findNobody(address, reports) ?? describeNoSeatHolder(address);
}

/** Where no node with its ready pods answers the seat holder, that leaves all in use, and nobody answers. */
function findUnresponsive(
  { address, seatHolders: [seatHolder] }: AddressView,
  pods: readonly PodView[],
  reports: readonly LeaseReport[],
): Problem | null {
  const report = reports.find(({ node }) => node === seatHolder?.node);
  const unresponsive = new Set(report?.unresponsive?.map(({ node }) => node));
  const nodes = [...new Set(pods.filter(({ state }) => state === 'ready').map(({ node }) => node ?? ''))];
  if (report === undefined || nodes.length === 0 || !nodes.every((node) => unresponsive.has(node)))
    return null;
  const why = `${address}: no node with its pods answers ${report.node}, so all stay in use: ${shorten(nodes)}`;
  return { reason: 'NodesUnresponsive', why };
}

/** The living nodes that may hold one of these addresses. Gates wait for them. Pure. */
export function listCandidates(
  addresses: readonly AddressView[],
  reports: readonly LeaseReport[],
): readonly LeaseReport[] {
  const names = new Set(addresses.flatMap(({ nodes }) => nodes));
  return reports.filter(({ node, isLiving, mode }) => isLiving && mode !== 'none' && names.has(node));
}

function findNobody(given: AddressView, reports: readonly LeaseReport[]): Problem | null {
  if (listCandidates([given], reports).length > 0) return null;
  const { address, nodes, seat } = given;
  const why =
    nodes.length === 0
      ? `${address}: no node may hold it (seat ${seat ?? ''})`
      : `${address}: no balancer lives on a node that may hold it: ${shorten(nodes)}`;
  return { reason: 'NoLivingNode', why };
}

/** Why nobody answers behind the address; null where somebody does. */
function findLack({ service, pods, slices }: ServiceFacts): Problem | null {
  if (pods.length === 0) {
    const isSelected = Object.keys(service.spec.selector ?? {}).length > 0;
    const why = isSelected
      ? 'its selector matches no pod, or no pod has an address yet'
      : 'it has no selector, and no EndpointSlice names an endpoint';
    const note = slices.length === 0 && isSelected ? ' (no EndpointSlice)' : '';
    return { reason: 'NoEndpoints', why: `${why}${note}` };
  }
  if (pods.some(({ state, isServingLast }) => state === 'ready' || isServingLast)) return null;
  return { reason: 'NoReadyPod', why: `none of its ${pods.length} pods is ready` };
}

/** `no pods`: it has its address, and nobody behind it. `leaving`: it is deleted, or is of another type or class by now. */
export type ServiceState = 'ready' | 'pending' | 'not served' | 'no pods' | 'leaving';

interface Judgement {
  readonly state: ServiceState;
  /** In one word: the reason of the controller's condition, or of a `Problem`. */
  readonly reason: string;
  /** A sentence without its full stop; null where there is nothing to say. */
  readonly why: string | null;
  /** Since when it is so, as the API writes dates; null where nobody says. */
  readonly since: string | null;
}

/** What the API has of Services. */
export interface ServiceObjects {
  readonly services: readonly Service[];
  readonly slices: readonly ServiceSlice[];
  readonly earlySlices: readonly EarlySlice[];
  /** Some pods with readiness gates: those that are of interest, and may be read. */
  readonly pods: readonly Pod[];
  readonly virtualIps: readonly VirtualIp[];
  readonly pools: readonly AddressPool[];
  /** Load balancers outside of the cluster. */
  readonly devices: readonly LoadBalancerDevice[];
  /** Of vipnat's namespace. */
  readonly leases: readonly Lease[];
}

/** An address that a Service has, or is about to get or lose. */
export interface AddressView {
  readonly address: string;
  /** Whether the Service's status has it. */
  readonly isPublished: boolean;
  /** Null where it has no VirtualIP for this Service. */
  readonly virtualIp: VirtualIp | null;
  /** `POOL/INDEX`; null without VirtualIP. */
  readonly seat: string | null;
  /** Those that say that they hold it: more than one for the moment of a move. */
  readonly seatHolders: readonly Pick<LeaseReport, 'node' | 'mode'>[];
  /** The nodes that may hold it, the one that shall first. */
  readonly nodes: readonly string[];
  /** The device that has it; null for nodes. */
  readonly device: string | null;
}

interface ServiceFacts {
  readonly service: Service;
  /** `NAMESPACE/NAME`. */
  readonly key: string;
  readonly addresses: readonly AddressView[];
  readonly pods: readonly PodView[];
  /** The devices that are to have it, or have something of it: the one that it chooses first. None for one that nodes serve. */
  readonly devices: readonly DeviceOfService[];
  readonly slices: readonly ServiceSlice[];
  /** Those that the controller wrote. */
  readonly earlySlices: readonly EarlySlice[];
}

/** A Service of vipnat. */
export interface ServiceView extends ServiceFacts, Judgement {}

/** Whom Services depend on. */
export interface ClusterView {
  readonly controller: ControllerView;
  /** By nodes' names. */
  readonly reports: readonly LeaseReport[];
  readonly pools: readonly AddressPool[];
  /** By their names. */
  readonly devices: readonly DeviceView[];
}

/** All Services of vipnat. */
export interface ServicesView extends ClusterView {
  /** By their keys. */
  readonly services: readonly ServiceView[];
}

/** A device. */
export interface DeviceView {
  readonly name: string;
  readonly driver: string;
  /** As they were seen last; empty before that. */
  readonly units: readonly DeviceUnit[];
  /** Of how many Services it has something; null where nobody has read that. */
  readonly balancers: number | null;
  /** What other users have changed there and not applied. */
  readonly foreignChanges: readonly string[];
  /** How many members drain there: 100 at most are counted. */
  readonly draining: number;
  /** Whether its condition `Ready` is true; null where no controller has said anything yet. */
  readonly isReady: boolean | null;
  /** Of that condition, as `why` and `since` are: a sentence without its full stop, and a date of the API. */
  readonly reason: string;
  readonly why: string;
  readonly since: string | null;
}

/** A device of a Service, with what drains there. */
export interface DeviceOfService {
  readonly name: string;
  /** Null where the API has none of that name. */
  readonly view: DeviceView | null;
  readonly draining: NonNullable<NonNullable<LoadBalancerDevice['status']>['draining']>;
}

/** Who gives addresses to Services. */
export interface ControllerView {
  readonly isLeading: boolean;
  /** Who leads, or did last; null where no controller ever has. */
  readonly leader: string | null;
  /** Since it renewed its Lease, by this host's date; null where nobody has. */
  readonly msSinceRenewal: number | null;
}

/** A pod behind a Service, or whatever has its address. */
export interface PodView extends Pick<Backend, 'address' | 'node'> {
  /** `8080`, or several separated by commas. */
  readonly ports: string;
  /** Whether it takes new connections, ends, or does neither. */
  readonly state: 'ready' | 'ending' | 'not ready';
  /** It ends, and still answers: new connections go there if nobody is ready. */
  readonly isServingLast: boolean;
  /** Only a readiness gate keeps it from being ready: nodes learn of it first. Null for any other pod. */
  readonly gate: GateView | null;
  /** What nodes say of the connections that it still has; null where no node says that it drains. */
  readonly draining: DrainView | null;
}

/** A pod that waits for a readiness gate of vipnat. */
export interface GateView {
  /** `NAMESPACE/NAME`; null where the pod was not read. */
  readonly pod: string | null;
  /** Since when it lacks nothing else, as the API writes dates; null where the pod was not read. */
  readonly since: string | null;
  /** The living nodes that may hold an address of the Service, and have not reported that they send connections to it. */
  readonly nodes: readonly string[];
}

interface DrainView {
  /** By the first node that says so, as the API writes dates. */
  readonly since: string;
  /** Of all nodes; null before any of them has counted. */
  readonly connections: number | null;
  readonly nodes: readonly NodeDrain[];
}

/** How an endpoint drains on a node. */
export interface NodeDrain extends Pick<DrainView, 'since' | 'connections'> {
  readonly node: string;
}
