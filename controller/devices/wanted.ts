import {
  type Service,
  readRequests,
  type ServiceRequests,
  readAnnotation,
  findUnknownMethod,
  type ServicePort,
  readDuration,
  parseGoDuration,
} from '../../lib/api/service.ts';
import { type LoadBalancerDevice, listCurrentOwners, chooseDevice } from '../../lib/api/device.ts';
import {
  type Capabilities,
  type Balancer,
  type BalancerId,
  type DeviceMethod,
  type Listener,
  readAddresses,
} from '../../devices/driver.ts';
import { type DeviceProblem, toBalancerKey } from '../cache/known.ts';
import { type ClusterView, findService } from '../cache/cache.ts';
import {
  type Family,
  families,
  countOfFamily,
  parseAddress,
  type Address,
  contains,
  overlap,
  toObjectName,
} from '../../lib/net.ts';
import { quoteTenant, shorten } from '../../lib/text.ts';
import { listGates, isForService } from '../../lib/api/endpoints.ts';
import { listEndpointsOf } from '../kinds/endpoints.ts';
import { getIngress, findBalancer, isUsed, isServed, listRanges } from '../cache/parts.ts';
import { isOfDevice } from './steps.ts';
import { listMembers, type MembersQuery } from './held.ts';

/** A Service, and what its device has for it. */
interface BalancerQuery extends Pick<MembersQuery, 'service' | 'device' | 'former' | 'nowMs'> {
  readonly capabilities: Capabilities;
  /** Addresses that the device has for it, in canonical text. */
  readonly present: readonly string[];
}

/** What is to be there. */
export interface Wanted {
  /** Null: nothing, as `problem` says. What is there goes if the problem is `NotSupported`, and stays otherwise. */
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
  const family = chooseFamily(query, requests);
  const { slices, uids } = readGatedSlices(service, device, view);
  // No gate waits for a device that sends nobody anywhere.
  const refuse = (problem: DeviceProblem | null): Wanted => {
    return { balancer: null, problem, remark: null, gated: uids };
  };
  if (family === null) {
    const text = `has no addresses of a family that the Service has (${requests.families.join(', ')}).`;
    return refuse(notSupported(device, text));
  }
  const refusal = findRefusal(query, requests, view);
  // Who is served already is served on, and followed: else its members end at other tenants' pods.
  const closing = findClosing(query, family) ?? (query.present.length === 0 ? refusal : null);
  if (closing !== null) return refuse(closing);
  const { address, problem } = chooseDeviceAddress({ ...query, family }, view);
  if (address === null) return refuse(problem);
  const { method, affinityS, lacks } = judgeRequests(query);
  const drainMs = readDuration(service, 'drainTimeout').ms ?? usualDrainMs;
  const place = { ...query, family, slices, barred: listBarred(view), drainMs };
  const ports = listPorts(query).map((port) => ({ port, ...listMembers({ ...place, port }, view) }));
  const listeners = ports.map(({ port: { protocol, port }, members }): Listener => {
    return { protocol: protocol === 'UDP' ? 'udp' : 'tcp', port, members };
  });
  const balancer: Balancer = {
    ...{ id: toBalancerId(service, device), addresses: [address], method, affinityS },
    listeners: listeners.sort(compareListeners),
  };
  const all = [...lacks, ...listLacking(query, requests, { family, listeners })];
  const refused = new Set(ports.flatMap((each) => each.refused));
  const remark = describeLacks(device.metadata.name, all, [...refused]);
  return { balancer, problem: problem ?? refusal, remark, gated: uids };
}

function describeLacks(name: string, lacking: readonly string[], refused: readonly string[]): string | null {
  const sentences = [
    lacking.length > 0 ? `The device ${name} does not have ${lacking.join(', ')}.` : '',
    refused.length > 0 ? `It leaves out an endpoint: ${shorten(refused)}.` : '',
  ];
  return sentences.filter(Boolean).join(' ') || null;
}

/** The mark of a Service on a device. */
export function toBalancerId({ metadata }: Service, { spec }: LoadBalancerDevice): BalancerId {
  const { namespace, name, uid } = metadata;
  return { cluster: spec.cluster, namespace, name, uid };
}

function notSupported({ metadata }: LoadBalancerDevice, text: string): DeviceProblem {
  return { reason: 'NotSupported', message: `The device ${metadata.name} ${text}` };
}

/** Why nothing of it is to be there, and what is there goes; null for nothing. */
function findClosing(query: BalancerQuery, family: Family): DeviceProblem | null {
  const { service, device } = query;
  if (!isLimited(service, family)) return listPorts(query).length === 0 ? describeNoPort(query) : null;
  return notSupported(device, 'lets all clients in, and the Service has loadBalancerSourceRanges.');
}

/**
 * Whether not all clients of a family may come. A list without a range of a family lets in nobody of it, and one of blanks is no list, as on
 * nodes. Source of the annotation: k8s.io/cloud-provider, GetLoadBalancerSourceRanges.
 */
function isLimited(service: Service, family: Family): boolean {
  const own = service.spec.loadBalancerSourceRanges ?? [];
  const texts = own.length > 0 ? own : (readAnnotation(service, 'sourceRanges') ?? '').split(',');
  const ranges = texts.map((text) => text.trim()).filter((text) => text !== '');
  return ranges.length > 0 && !ranges.includes(family === 'ipv4' ? '0.0.0.0/0' : '::/0');
}

/** Why it gets nothing there, and whoever has something keeps it; null for nothing. */
function findRefusal(
  { service: { metadata }, device }: BalancerQuery,
  requests: ServiceRequests,
  view: ClusterView,
): DeviceProblem | null {
  const namespace = view.namespaces.get(metadata.namespace)?.metadata;
  if (!isForService(device.spec, metadata.labels, namespace))
    return notSupported(device, 'is not for this Service: see its serviceSelector and namespaceSelector.');
  if (!requests.isAllOrNothing) return null;
  return notSupported(device, 'serves one family, and the Service asks for two (RequireDualStack).');
}

/** The first of the Service's that the device has addresses of, or has for it. */
function chooseFamily({ device, capabilities, present }: BalancerQuery, requests: ServiceRequests) {
  const ranges = listRanges(device);
  const own = present.map((text) => parseAddress(text)?.family);
  const able = families.filter(
    (family) =>
      (family === 'ipv4' || capabilities.ipv6) &&
      (own.includes(family) || countOfFamily(ranges, family) > 0n),
  );
  return requests.families.find((family) => able.includes(family)) ?? null;
}

function judgeRequests({ service, capabilities }: BalancerQuery) {
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
function chooseMethod(service: Service, { methods }: Capabilities) {
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
  return notSupported(device, `can have none of the Service's ports: ${remedy}.`);
}

/** Addresses of Services, of devices and of their units. */
function listBarred(view: ClusterView): MembersQuery['barred'] {
  const all = [...view.devices.values()];
  const ranges = all.flatMap(listRanges);
  const units = new Set(all.flatMap(({ spec }) => spec.units.map(readHost)));
  const known = [view.addressToPublishers, view.addressToBalancers, units];
  const isInRange = (address: Address | null) =>
    address !== null && ranges.some((range) => contains(range, address));
  return { has: (text) => known.some((one) => one.has(text)) || isInRange(parseAddress(text)) };
}

/** Of a URL or `HOST:PORT`. */
function readHost(unit: string): string {
  const [, host = ''] = /^(?:[a-z]+:\/\/)?\[?(.+?)\]?(?::\d+)?(?:\/.*)?$/i.exec(unit) ?? [];
  return parseAddress(host)?.text ?? host;
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
  const serving = listeners.map(({ members }) => members.filter(({ weight }) => weight > 0));
  const areUneven = serving.some((each) => new Set(each.map(({ weight }) => weight)).size > 1);
  return [
    ...ports.map(({ protocol, port }) => `the port ${protocol} ${port}`),
    ...requests.families.filter((each) => each !== family).map((each) => `the family ${each}`),
    ...(areUneven && !capabilities.weights ? ['weights'] : []),
  ];
}

/**
 * What a Service's slices come to on a device, with pods as ready that lack nothing but gates of vipnat; and the uids of these pods, in order.
 * A pod that no slice has yet is not among them. Behind ports of nodes Kubernetes decides alone who is ready.
 */
function readGatedSlices(service: Service, { spec }: LoadBalancerDevice, view: ClusterView) {
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

/** Addresses to uids, one pod each. An open gate counts: until Kubernetes' own EndpointSlices have the pod as ready, it would go again. */
function listGated(key: string, service: Service, view: ClusterView): ReadonlyMap<string, string> {
  const pods = [...(view.serviceToPods.get(key) ?? [])].flatMap((each) => view.pods.get(each) ?? []);
  const gated = pods.filter((pod) => listGates(pod, view.settings.gateTypes).length > 0);
  const endpoints = gated.flatMap((pod) => listEndpointsOf(pod, service, view));
  return new Map(endpoints.filter(({ ready }) => ready).map(({ address, pod }) => [address, pod.uid]));
}

/** Whose address is to be chosen, where. */
type AddressRequest = Pick<BalancerQuery, 'service' | 'device' | 'present'> & Pick<MembersQuery, 'family'>;

/** A problem together with an address: it is not the one that was asked for. */
type AddressChoice = Pick<Wanted, 'problem'> & { readonly address: Address | null };

/**
 * The address that is asked for; else the one that the Service has; else the first one that nobody has. Pure, and the same each time: there is
 * no record of it but the Service's status and the device itself.
 */
function chooseDeviceAddress(request: AddressRequest, view: ClusterView): AddressChoice {
  const { service, family } = request;
  const requests = readRequests(service);
  const asked = requests.addresses[family];
  const held = findHeld(request, view);
  if (asked === undefined && requests.problem !== null)
    return { address: held, problem: { reason: 'AddressesMalformed', message: `${requests.problem}.` } };
  if (asked !== undefined) {
    const problem = judgeAsked(request, { asked, held }, view);
    return { address: problem === null ? asked : held, problem };
  }
  return held === null ? chooseFree(request, view) : { address: held, problem: null };
}

/** Other devices that have not been read since this process leads: what they have is known by nobody, unless a status has it. */
function listUnread({ metadata: own }: LoadBalancerDevice, { devices, deviceReports }: ClusterView) {
  return [...devices.values()].flatMap((device) => {
    const { name } = device.metadata;
    const isRead = typeof deviceReports.get(name)?.balancers === 'number';
    return name === own.name || isRead ? [] : [{ name, ranges: listRanges(device) }];
  });
}

/**
 * One that it has there stays, whatever the device's ranges are now. One that its status has from elsewhere must be the device's, and one that was
 * claimed for it before a call that failed: nobody else can have got it.
 */
function findHeld({ service, device, family, present }: AddressRequest, view: ClusterView): Address | null {
  const own = readAddresses(present).find((one) => one.family === family);
  if (own !== undefined) return own;
  const published = getIngress(service).filter(isOfDevice);
  const reserved = findBalancer(view, device.metadata.name, service)?.addresses ?? [];
  const ranges = listRanges(device);
  const isGood = (address: Address) =>
    address.family === family &&
    ranges.some((range) => contains(range, address)) &&
    findOwner(service, address, view) === null;
  return readAddresses([...published.map(({ ip }) => ip ?? ''), ...reserved]).find(isGood) ?? null;
}

function judgeAsked(
  { service, device }: AddressRequest,
  { asked, held }: { readonly asked: Address; readonly held: Address | null },
  view: ClusterView,
): DeviceProblem | null {
  const { name } = device.metadata;
  if (!listRanges(device).some((range) => contains(range, asked)))
    return {
      reason: 'OutsideDevice',
      message: `The device ${name} does not have ${asked.text}: see its spec.addresses.`,
    };
  const unread = listUnread(device, view).find(({ ranges }) =>
    ranges.some((range) => contains(range, asked)),
  );
  if (unread !== undefined && held?.text !== asked.text) {
    const message = `The device ${unread.name} has not said yet whether it has ${asked.text}, which it may have.`;
    return { reason: 'WaitingForDevice', message };
  }
  const owner = findOwner(service, asked, view) ?? findElder(service, asked, view);
  if (owner !== null) return { reason: 'AddressTaken', message: `${owner} has ${asked.text}.` };
  const keeper = findKeeper({ service, device }, asked.text, view);
  const message = `${asked.text} was given back a moment ago, and is kept for Services of the namespace ${keeper ?? ''}.`;
  return keeper === null ? null : { reason: 'AddressTaken', message };
}

/** DNS and clients may know an address as its former Service's: see `spec.reuseAfter`. */
function findKeeper(
  { service: { metadata }, device: { spec } }: Pick<AddressRequest, 'service' | 'device'>,
  text: string,
  { takenAddresses, nowMs }: ClusterView,
): string | null {
  const reuseMs = parseGoDuration(spec.reuseAfter) ?? 60_000;
  return takenAddresses.findKeeper(text, { namespace: metadata.namespace, reuseMs, nowMs });
}

function chooseFree(request: AddressRequest, view: ClusterView): AddressChoice {
  const { device, family } = request;
  const { name } = device.metadata;
  const unread = listUnread(device, view);
  const others = unread.flatMap(({ ranges }) => ranges);
  const isKept = (text: string) => findKeeper(request, text, view) !== null;
  const address = view.takenAddresses.findFree(name, family, others, isKept);
  if (address !== null) return { address, problem: null };
  const own = listRanges(device);
  const other = unread.find(({ ranges }) => ranges.some((each) => own.some((range) => overlap(each, range))));
  if (other !== undefined) {
    const message = `The device ${other.name} also has addresses of ${name}, and has not said yet which ones it uses.`;
    return { address, problem: { reason: 'WaitingForDevice', message } };
  }
  const message = `The device ${name} has no free ${family} address: see its spec.addresses.`;
  return { address, problem: { reason: 'NoFreeAddress', message } };
}

/** Who else has an address: a clause. Whoever has it keeps it, however young. */
function findOwner(service: Service, address: Address, view: ClusterView): string | null {
  const { text } = address;
  const [publisher] = listOthers(view.addressToPublishers.get(text), service);
  if (publisher !== undefined) return `The Service ${publisher}`;
  for (const key of view.addressToBalancers.get(text) ?? []) {
    const balancer = view.deviceBalancers.get(key);
    if (balancer === undefined || balancer.id.uid === service.metadata.uid) continue;
    if (balancer.deviceStatus === 'absent') continue;
    return `The Service ${balancer.id.namespace}/${balancer.id.name}, on the device ${balancer.device},`;
  }
  const virtualIp = view.virtualIps.get(toObjectName(address));
  return virtualIp !== undefined && isUsed(virtualIp) ? `The VirtualIP ${virtualIp.metadata.name}` : null;
}

/** Of those that ask for the same, and do not have it, the oldest gets it. */
function findElder(service: Service, { text }: Address, { addressToAskers, services }: ClusterView) {
  const others = listOthers(addressToAskers.get(text), service).flatMap((key) => services.get(key) ?? []);
  const elder = others.find((other) => rankAge(other) < rankAge(service))?.metadata;
  return elder === undefined ? null : `The older Service ${elder.namespace}/${elder.name}`;
}

function rankAge({ metadata: { creationTimestamp, uid } }: Service): string {
  return `${creationTimestamp ?? ''} ${uid}`;
}

function listOthers(keys: ReadonlySet<string> | undefined, { metadata }: Service): string[] {
  const own = `${metadata.namespace}/${metadata.name}`;
  return [...(keys ?? [])].filter((key) => key !== own);
}

/** What one device is to do about one Service. */
type Intent =
  /** It is to have the Service. */
  | 'have'
  /** It is to have nothing of it. */
  | 'clear'
  /** It is left as it is: others have to do something first, or there is nothing to do. */
  | 'leave';

/**
 * The Service is undefined where none has its uid any more. `isThere` says whether the device has, or may have, something of it.
 *
 * Nothing is put there before the Service's finalizer says so, and nothing is taken away from a Service that lives before whatever follows
 * serves it, and its status says so.
 */
export function judgeService(
  service: Service | undefined,
  { device, isThere, view }: Readonly<{ device: LoadBalancerDevice; isThere: boolean; view: ClusterView }>,
): Intent {
  if (service === undefined) return isThere ? 'clear' : 'leave';
  const { name } = device.metadata;
  const chosen = chooseDevice(service, view.settings.defaultDevice);
  const isOwner = listCurrentOwners(service).includes(name);
  if (chosen === name) return isOwner ? 'have' : 'leave';
  if (!isOwner && !isThere) return 'leave';
  return isFollowed(service, chosen, view) ? 'clear' : 'leave';
}

/** Whether a device that is not used has nothing of a Service that goes. The older one of its units lists all there, and removes what is left. */
export function isAbsentAtOlder(
  id: BalancerId,
  { device, conflict }: { readonly device: LoadBalancerDevice; readonly conflict: string | null },
  view: ClusterView,
): boolean {
  const older = conflict ?? '';
  const service = findService(id, view);
  const isGoing = judgeService(service, { device, isThere: false, view }) === 'clear';
  const isOlders = service !== undefined && listCurrentOwners(service).includes(older);
  const isLeft = !isOlders && view.deviceBalancers.has(toBalancerKey(older, id.uid));
  return isGoing && !isLeft && view.deviceReports.get(older)?.isReady === true;
}

/** Whether what follows serves, or nothing does. */
function isFollowed(service: Service, chosen: string | null, view: ClusterView): boolean {
  const ingress = getIngress(service);
  if (chosen === null)
    return !isServed(service, view.settings.isDefaultClass) || ingress.some((one) => !isOfDevice(one));
  const next = findBalancer(view, chosen, service);
  const published = new Set(ingress.map(({ ip }) => ip));
  return next?.deviceStatus === 'serves' && next.addresses.every((text) => published.has(text));
}
