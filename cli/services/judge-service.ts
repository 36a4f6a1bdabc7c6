/** How a Service does. What the controller says in its condition counts first; what it cannot know follows from the other objects. */
import { type Condition } from '../../lib/services/metadata.ts';
import { isAwaited } from '../../lib/services/awaited.ts';
import { addressReady, finalizer, loadBalancerClass } from '../../lib/services/names.ts';
import { isProgrammed } from '../../lib/services/node-report.ts';
import { chooseDevice } from '../../lib/services/devices.ts';
import { type HeardReport } from '../seats/read-reports.ts';
import {
  type AddressView,
  type ClusterView,
  type Judgement,
  type ServiceFacts,
  type ServiceState,
} from './services-view.ts';
import { type DeviceOfService } from './view-devices.ts';

/** What is said where no condition says it. Published: none changes its meaning. */
export const reasons = [
  'Ready',
  'Leaving',
  'NoClass',
  'NoController',
  'NoPool',
  'NotSeen',
  'WaitingForNodes',
  'NoLivingNode',
  'NoVirtualIP',
  'NoHolder',
  'NotAnnounced',
  'TwoHolders',
  'NoEndpoints',
  'NoReadyPod',
  'NoLocalPod',
  'NoDevice',
  'DeviceNotReady',
] as const;

type Reason = (typeof reasons)[number];

/** Judges one Service. Pure. */
export function judgeService(facts: ServiceFacts, cluster: ClusterView): Judgement {
  const condition = facts.service.status?.conditions?.find(({ type }) => type === addressReady) ?? null;
  if (isLeaving(facts)) return describeLeaving(facts, cluster);
  const isPublished = facts.addresses.some((one) => one.isPublished);
  if (condition?.status === 'False') return quote(isPublished ? 'not served' : 'pending', condition);
  const device = findDevice(facts);
  const trouble = device === undefined ? judgeOnNodes(facts, cluster) : judgeOnDevice(facts, device, cluster);
  return trouble ?? describeReady(condition);
}

function judgeOnNodes(facts: ServiceFacts, cluster: ClusterView): Judgement | null {
  const isPublished = facts.addresses.some((one) => one.isPublished);
  return isPublished ? judgePublished(facts, cluster) : judgePending(facts, cluster);
}

/** Of nodes' class, it leaves the devices that still have something of it. */
function findDevice({ service, devices }: ServiceFacts): DeviceOfService | undefined {
  return service.spec.loadBalancerClass === loadBalancerClass ? undefined : devices[0];
}

/** What is wrong with a Service of a device, as far as no condition says it; null where all is well, as far as anybody can tell. */
function judgeOnDevice(facts: ServiceFacts, device: DeviceOfService, cluster: ClusterView): Judgement | null {
  const isPublished = facts.addresses.some((one) => one.isPublished);
  const gone = findNoDevice(device);
  if (isPublished) {
    const lack = gone ?? findLack(facts);
    return lack === null ? null : say(gone === null ? 'no pods' : 'not served', lack);
  }
  const problem = findNoController(cluster) ?? gone ?? findUnready(device);
  const notSeen: Problem = { reason: 'NotSeen', why: `the device ${device.name} does not serve it yet` };
  return say('pending', problem ?? notSeen, facts.service.metadata.creationTimestamp ?? null);
}

function findNoDevice({ name, view }: DeviceOfService): Problem | null {
  return view === null ? { reason: 'NoDevice', why: `there is no LoadBalancerDevice ${name}` } : null;
}

/** One that is not ready may serve all the same what it has: only who waits for it is told. */
function findUnready({ name, view }: DeviceOfService): Problem | null {
  if (view === null || view.isReady === true) return null;
  return { reason: 'DeviceNotReady', why: `the device ${name} is not ready: ${view.why}` };
}

/** What is wrong with a Service that has an address; null where all is well. */
function judgePublished(facts: ServiceFacts, { reports }: ClusterView): Judgement | null {
  const published = facts.addresses.filter(({ isPublished }) => isPublished);
  const problem = published.map((address) => judgeHolder(address, reports)).find((found) => found !== null);
  if (problem !== undefined) return say('not served', problem);
  const lack = findLack(facts);
  return lack === null ? null : say('no pods', lack);
}

/** It works; the condition may have something to say all the same. */
function describeReady(condition: Condition | null): Judgement {
  if (condition !== null && condition.reason !== 'Ready') return quote('ready', condition);
  return { state: 'ready', reason: 'Ready', why: null, since: condition?.lastTransitionTime ?? null };
}

interface Problem {
  readonly reason: Reason;
  readonly why: string;
}

function say(state: ServiceState, { reason, why }: Problem, since: string | null = null): Judgement {
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
  return say('leaving', { reason: 'Leaving', why }, service.metadata.deletionTimestamp ?? null);
}

/** Which devices still have something of it, or why one cannot let it go; null for none. */
function describeDevices({ service, devices }: ServiceFacts): string | null {
  if (devices.length === 0) return null;
  const condition = service.status?.conditions?.find(({ type }) => type === addressReady);
  if (condition?.status === 'False') return condition.message.replace(/\.$/, '');
  return `the device ${devices.map(({ name }) => name).join(' and ')} gives it up`;
}

/** The living nodes that have not said that they withdrew an address, as the API has it now. */
function listBehind(addresses: readonly AddressView[], reports: readonly HeardReport[]): readonly string[] {
  const versions = addresses.flatMap(({ virtualIp }) => virtualIp?.metadata.resourceVersion ?? []);
  const isBehind = (report: HeardReport) =>
    report.isLiving && versions.some((version) => !isProgrammed(report, 'virtualips', version));
  return reports.filter(isBehind).map(({ node }) => node);
}

function judgePending(facts: ServiceFacts, cluster: ClusterView): Judgement {
  const since = facts.service.metadata.creationTimestamp ?? null;
  const [given] = facts.addresses;
  const problem =
    findNoClass(facts) ??
    findNobodyGives(cluster) ??
    (given === undefined ? null : judgeGiven(given, cluster));
  const notSeen: Problem = { reason: 'NotSeen', why: 'the controller has not given it an address yet' };
  return say('pending', problem ?? notSeen, since);
}

function findNoClass({ service: { spec, metadata }, addresses }: ServiceFacts): Problem | null {
  const isSeen = addresses.length > 0 || metadata.finalizers?.includes(finalizer) === true;
  if ((spec.loadBalancerClass ?? '') !== '' || isSeen) return null;
  const way = `a new Service needs loadBalancerClass: ${loadBalancerClass}, or the controller --default-class`;
  return { reason: 'NoClass', why: `it has no loadBalancerClass, and no controller serves it: ${way}` };
}

function findNobodyGives(cluster: ClusterView): Problem | null {
  const { pools } = cluster;
  return (
    findNoController(cluster) ??
    (pools.length === 0 ? { reason: 'NoPool', why: 'there is no AddressPool' } : null)
  );
}

function findNoController({ controller }: ClusterView): Problem | null {
  if (controller.isLeading) return null;
  return { reason: 'NoController', why: 'no controller leads, so it gets no address' };
}

function judgeGiven(given: AddressView, { reports }: ClusterView): Problem {
  const { address, virtualIp, holders } = given;
  if (listLiving(given, reports).length === 0) return { reason: 'NoLivingNode', why: describeNobody(given) };
  if (virtualIp === null || isAwaited(virtualIp))
    return { reason: 'WaitingForNodes', why: `${address}: nodes have not programmed it yet` };
  const [holder] = holders;
  return holder === undefined
    ? describeNoHolder(given)
    : { reason: 'NotAnnounced', why: `${address}: no interface of ${holder.node} has it yet` };
}

function describeNoHolder({ address, seat }: AddressView): Problem {
  return { reason: 'NoHolder', why: `no node holds ${address} (seat ${seat ?? ''})` };
}

/** Why nobody, or more than one, holds an address; null where one node does. */
function judgeHolder(address: AddressView, reports: readonly HeardReport[]): Problem | null {
  const { address: text, virtualIp, seat, holders } = address;
  if (virtualIp === null)
    return { reason: 'NoVirtualIP', why: `${text} has no VirtualIP of this Service, so no node serves it` };
  if (holders.length === 1) return null;
  if (holders.length > 1) {
    const names = holders.map(({ node }) => node).join(' and ');
    return { reason: 'TwoHolders', why: `${names} both hold ${text} (seat ${seat ?? ''})` };
  }
  if (listLiving(address, reports).length === 0)
    return { reason: 'NoLivingNode', why: describeNobody(address) };
  return describeNoHolder(address);
}

/** The nodes that may hold an address, and whose balancers live. */
function listLiving({ nodes }: AddressView, reports: readonly HeardReport[]): readonly HeardReport[] {
  return reports.filter(({ node, isLiving, mode }) => isLiving && mode !== 'none' && nodes.includes(node));
}

function describeNobody({ address, nodes, seat }: AddressView): string {
  return nodes.length === 0
    ? `${address}: no node may hold it (seat ${seat ?? ''})`
    : `${address}: no balancer lives on a node that may hold it: ${shorten(nodes)}`;
}

/** Why nobody answers behind the address; null where somebody does. */
function findLack({ service, addresses, pods, slices }: ServiceFacts): Problem | null {
  if (pods.length === 0) {
    const isSelected = Object.keys(service.spec.selector ?? {}).length > 0;
    const why = isSelected
      ? 'its selector matches no pod, or no pod has an address yet'
      : 'it has no selector, and no EndpointSlice names an endpoint';
    return {
      reason: 'NoEndpoints',
      why: slices.length === 0 && isSelected ? `${why} (no EndpointSlice)` : why,
    };
  }
  const serving = pods.filter(({ state, isServingLast }) => state === 'ready' || isServingLast);
  if (serving.length === 0) return { reason: 'NoReadyPod', why: `none of its ${pods.length} pods is ready` };
  if (service.spec.externalTrafficPolicy !== 'Local') return null;
  const holders = addresses.flatMap((one) => (one.isPublished ? one.holders : [])).map(({ node }) => node);
  const lacking = holders.find((holder) => !serving.some(({ node }) => node === holder));
  if (lacking === undefined) return null;
  return {
    reason: 'NoLocalPod',
    why: `${lacking} holds the address and has no ready pod, and externalTrafficPolicy is Local`,
  };
}

/** The first three, and how many more. */
export function shorten(names: readonly string[]): string {
  const rest = names.length - 3;
  return `${names.slice(0, 3).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}
