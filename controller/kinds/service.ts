import {
  type Service,
  type Ingress,
  findUnknownMethod,
  type ServicePort,
  readRequests,
} from '../../lib/api/service.ts';
import {
  type Allocation,
  findAllocations,
  startLeaving,
  dropFinalizers,
  restoreLost,
  addFinalizers,
  findTargets,
  type Situation,
  toUser,
  restoreVirtualIp,
} from './allocations.ts';
import type { ClusterView } from '../cache/cache.ts';
import {
  type Step,
  patchStatus,
  toJson,
  toStep,
  type StepEvent,
  type Kind,
  findVirtualIpPath,
  nothing,
  patchVirtualIp,
  patchMetadata,
  type Write,
  createVirtualIp,
  confirmVirtualIp,
} from '../step.ts';
import {
  getIngress,
  listUsers,
  getUse,
  getShared,
  getPoolParts,
  listPublishedTexts,
  listSeated,
  isServed,
  setCondition,
  isPublished,
  findCondition,
  mayPublish,
} from '../cache/parts.ts';
import { quoteTenant, shorten } from '../../lib/text.ts';
import type { Change } from '../../lib/kubernetes/informer.ts';
import type { NodeReport, Node } from '../../lib/api/node.ts';
import { isNews, type Known, type WaitsFor, listDiffering, listBoth, listServed } from '../cache/known.ts';
import { mayHold, getStatusParts } from '../cache/nodes.ts';
import { parseAddress, toObjectName } from '../../lib/net.ts';
import { clearStatus, nextDeviceStep, toIngress, toStatus } from '../devices/steps.ts';
import { addressReady, type Condition } from '../../lib/api/vipnat.ts';
import { judgeReadiness, type Readiness } from './readiness.ts';
import type { Choice } from '../allocate/choose-address.ts';
import { listAbsent } from '../cache/leases.ts';
import { chooseSeat } from '../allocate/seats.ts';

/**
 * What a Service asks for of its ports, and does not get: in `status.loadBalancer.ingress[].ports`, as the Kubernetes API defines it. With
 * an error of one port, all ports of the Service are listed. Without any, none is.
 */

/** The names of errors. Published: none changes its meaning. */
const portErrors = {
  /** The kernel of a node that may hold the address cannot translate the protocol. */
  protocol: 'vipnat.io/ProtocolNotSupported',
  /** The port is served, and its pods are chosen by the default method. */
  method: 'vipnat.io/MethodNotSupported',
} as const;

/** Writes them next to the addresses that the status has; null where it says just that. What comes new is an event. */
function writePortErrors(service: Service, held: readonly Allocation[], view: ClusterView): Step | null {
  const before = getIngress(service);
  const unsupported = listUnsupported(held, view);
  const ports = listPorts(service, new Set(unsupported.map(({ protocol }) => protocol)));
  if (before.every((one) => toPortsText(one.ports) === toPortsText(ports))) return null;
  const ingress = before.map(({ ip, hostname, ipMode }) => ({ ip, hostname, ipMode, ports }));
  const write = patchStatus('Service', service, { loadBalancer: { ingress: toJson(ingress) } });
  const known = new Set(before.flatMap((one) => (one.ports ?? []).map(({ error }) => error ?? '')));
  const isNew = (ports ?? []).some(({ error }) => typeof error === 'string' && !known.has(error));
  return toStep(write, isNew ? toPortEvent(service, unsupported) : null);
}

type PortStatus = NonNullable<Ingress['ports']>[number];

type Unsupported = Readonly<Record<'protocol' | 'node', string>>;

/** By what living nodes report that may hold the addresses. */
function listUnsupported(held: readonly Allocation[], { pools, livingReports }: ClusterView): Unsupported[] {
  const nodes = held.flatMap(({ virtualIp: { spec } }) =>
    (pools.get(spec.pool)?.status?.seats ?? []).flatMap((seat) => seat.nodes),
  );
  return [...new Set(nodes)].sort().flatMap((node) => {
    const { unsupported = [] } = livingReports.get(node) ?? {};
    return unsupported.map((protocol) => ({ protocol, node }));
  });
}

/** Undefined where there is no error: JSON leaves it out. */
function listPorts(service: Service, unsupported: ReadonlySet<string>): PortStatus[] | undefined {
  const isUnknown = findUnknownMethod(service) !== null;
  const all = (service.spec.ports ?? []).map(({ port, protocol }: ServicePort): PortStatus => {
    if (unsupported.has(protocol)) return { port, protocol, error: portErrors.protocol };
    return isUnknown ? { port, protocol, error: portErrors.method } : { port, protocol };
  });
  return all.some(({ error }) => typeof error === 'string') ? all : undefined;
}

function toPortsText(ports: Ingress['ports']): string {
  return JSON.stringify((ports ?? []).map(({ port, protocol, error }) => [port, protocol, error ?? '']));
}

function toPortEvent(service: Service, unsupported: readonly Unsupported[]): StepEvent {
  const used = new Set((service.spec.ports ?? []).map(({ protocol }) => protocol));
  const method = findUnknownMethod(service);
  const sentences = [
    ...unsupported
      .filter(({ protocol }) => used.has(protocol))
      .map(({ protocol, node }) => `The kernel of ${node} cannot translate ${protocol}.`),
    ...(method === null
      ? []
      : [`vipnat does not have the method ${quoteTenant(method)}: pods are chosen at random.`]),
  ];
  return { type: 'Warning', reason: 'PortNotSupported', message: sentences.join(' ') };
}

/** Of which seats, addresses or Services a node says something else than before, by their names. Pure. */
function listChanged(
  { before, after }: Change<NodeReport>,
  ...parts: readonly ('unheld' | 'left' | 'dropping')[]
): string[] {
  return parts.flatMap((part) => {
    const [was, is] = [before?.[part] ?? {}, after?.[part] ?? {}];
    return [...new Set([...Object.keys(was), ...Object.keys(is)])].filter((name) => was[name] !== is[name]);
  });
}

/** Services. */
export const service: Kind = {
  name: 'Service',
  source: 'services',
  subject: { apiVersion: 'v1', kind: 'Service' },
  watches: [
    {
      source: 'services',
      toKeys: ({ key }, known) => [key, ...listSharers(known.serviceToVirtualIps.get(key), known)],
      wakes: wakeWaiting,
    },
    {
      source: 'virtualIps',
      toKeys: ({ before, after }) => [...listUsers(before), ...listUsers(after)],
      wakes: (change) => (change.before !== null && isNews(change, getUse) ? ['addresses'] : []),
    },
    {
      source: 'pools',
      part: getPoolParts,
      toKeys: ({ key }, known) => listSharers(known.poolToVirtualIps.get(key), known),
    },
    { source: 'livingReports', part: getStatusParts, toKeys: listReported },
    { source: 'nodes', part: ({ metadata }) => metadata.labels, toKeys: listConcerned },
    { source: 'namespaces', part: ({ metadata }) => metadata.labels, wakes: () => ['addresses'] },
    { source: 'exclusions', wakes: () => ['addresses'] },
    { source: 'judgements', wakes: () => ['addresses'] },
    {
      source: 'devices',
      part: ({ metadata }) => [metadata.uid, metadata.deletionTimestamp],
      toKeys: ({ key }, { deviceToServices }) => deviceToServices.get(key) ?? [],
    },
    { source: 'deviceBalancers', toKeys: (change) => listBoth(change, listServed).flat() },
  ],
  next: nextServiceStep,
  findReadPath: findVirtualIpPath,
};

/** What others wait for: an address that its status has no longer, and what decides who may share it. All else shows in VirtualIPs, or exclusions. */
function wakeWaiting(change: Change<Service>, known: Known): readonly WaitsFor[] {
  const published = new Set(listPublishedTexts(change.after));
  const names = [...(known.serviceToVirtualIps.get(change.key) ?? [])];
  const isShared = names.some((name) => known.virtualIps.get(name)?.spec.shareKey !== '');
  const isLeft = listPublishedTexts(change.before).some((text) => !published.has(text));
  return isLeft || (isShared && isNews(change, getShared)) ? ['addresses'] : [];
}

/** Who has some VirtualIPs. */
function listSharers(names: Iterable<string> | undefined, { virtualIps }: Known): string[] {
  return [...(names ?? [])].flatMap((name) => listUsers(virtualIps.get(name) ?? null));
}

/** Who has an address of a pool whose addresses the node may hold now, or no longer: what it reports counts for these. */
function listConcerned({ before, after }: Change<Node>, known: Known): string[] {
  return [...known.pools].flatMap(([name, pool]) => {
    const [was, is] = [before, after].map((node) => node !== null && mayHold(pool, node));
    return was === is ? [] : listSharers(known.poolToVirtualIps.get(name), known);
  });
}

/** Who has an address that the node can hold no longer, or again, and who has a port of a protocol of which that is so, or kube-proxy's. */
function listReported(change: Change<NodeReport>, known: Known): string[] {
  const unheld = listChanged(change, 'unheld').flatMap((name) => {
    const address = parseAddress(name);
    return address === null ? listSeated(name, known) : [toObjectName(address)];
  });
  const protocols = listDiffering(change.before?.unsupported, change.after?.unsupported);
  const users = [...(protocols.length === 0 ? [] : known.services)].filter(([, { spec }]) =>
    (spec.ports ?? []).some(({ protocol }) => protocols.includes(protocol)),
  );
  return [
    ...listSharers(unheld, known),
    ...users.map(([key]) => key),
    ...listChanged(change, 'left', 'dropping'),
  ];
}

/** Of a Service that is gone: the addresses that it had are checked for themselves. What nodes do comes before what devices do. */
function nextServiceStep(key: string, view: ClusterView): Step {
  const known = view.services.get(key);
  if (known === undefined) return nothing;
  const step = isServed(known, view.settings.isDefaultClass)
    ? serveService(known, view)
    : releaseService(known, view);
  return step.does === 'nothing' ? nextDeviceStep(known, view) : step;
}

/** It is to have no address of vipnat. What others wrote into the status stays, and a Service that we have nothing in is not touched. */
function releaseService(service: Service, view: ClusterView): Step {
  const { held, leaving } = findAllocations(service, view);
  const [allocation] = held;
  if (allocation !== undefined) return toStep(startLeaving(allocation.virtualIp, [toUser(service)]));
  if (leaving.length === 0 && dropFinalizers(service) === null) return nothing;
  const lost = restoreLost(service, view);
  if (lost !== null) return toStep(lost);
  if (!leaving.every(({ virtualIp }) => view.candidates.haveForgotten(virtualIp.metadata.resourceVersion)))
    return reportWait(service, leaving, view);
  const own = new Set(leaving.map(({ address }) => address.text));
  const others = getIngress(service).filter(({ ip }) => !own.has(ip ?? ''));
  return clearStatus(service, others) ?? removeFinalizer(service, leaving);
}

/** Nodes forget an address within a second. One that has not after so long is named, and who is named is read again that often. */
const reportedMs = 60_000;

/** After that the condition names the nodes, those that hold no address, too: whoever deletes the Service waits for them. */
function reportWait(service: Service, leaving: readonly Allocation[], view: ClusterView): Step {
  const texts = leaving.map(({ address }) => address.text).join(', ');
  const sinceMs = leaving.map(({ virtualIp }) => view.generations.get(virtualIp.metadata.name)?.sinceMs ?? 0);
  const untilMs = Math.min(view.nowMs, Math.max(...sinceMs)) + reportedMs;
  const behind = leaving.flatMap(({ virtualIp }) =>
    view.candidates.listNotForgotten(virtualIp.metadata.resourceVersion),
  );
  const message = `${texts}: nodes have not withdrawn it yet: ${shorten([...new Set(behind)].sort())}.`;
  const wait = { does: 'wait', waitsFor: 'nodes', why: message } as const;
  if (untilMs > view.nowMs) return { ...wait, untilMs };
  const before = service.status?.conditions ?? [];
  const wanted = { type: addressReady, status: 'False', reason: 'WaitingForNodes', message } as const;
  const conditions = setCondition(before, wanted, view.nowMs);
  return conditions === before
    ? { ...wait, untilMs: view.nowMs + reportedMs }
    : toStep(patchStatus('Service', service, { conditions: toJson(conditions) }));
}

function removeFinalizer(service: Service, leaving: readonly Allocation[]): Step {
  const finalizers = dropFinalizers(service);
  if (finalizers === null) return nothing;
  const message = `${leaving.map(({ address }) => address.text).join(', ')} is given back.`;
  const event = { type: 'Normal', reason: 'AddressReleased', message } as const;
  return toStep(patchMetadata('Service', service, { finalizers }), leaving.length === 0 ? null : event);
}

/** It is to have addresses. One that another one replaces is served until the other one is. */
function serveService(service: Service, view: ClusterView): Step {
  const finalizers = addFinalizers(service);
  if (finalizers !== null) return toStep(patchMetadata('Service', service, { finalizers }));
  const situation = findTargets(service, view);
  const readiness = judgeReadiness(situation, view);
  return (
    allocation(situation, view) ??
    adoptShareKey(situation) ??
    writeStatus(situation, readiness, view) ??
    writePortErrors(service, situation.allocations.held, view) ??
    leaveSurplus(situation, view) ??
    rest(situation, readiness, view)
  );
}

/** Takes the first address that is to be taken. Families have one order everywhere, so that no two Services wait for each other. */
function allocation({ service, requests, targets }: Situation, view: ClusterView): Step | null {
  if (requests.isAllOrNothing && targets.some(({ problem }) => problem !== null)) return null;
  const inOrder = targets.toSorted((one, other) => (one.family < other.family ? -1 : 1));
  const choice = inOrder.find((target) => target.choice !== null)?.choice ?? null;
  if (choice === null) return null;
  const { address, pool, existing } = choice;
  const message = `${address.text} of the AddressPool ${pool}.`;
  const event = { type: 'Normal', reason: 'AddressAllocated', message } as const;
  const user = toUser(service);
  if (existing !== null && existing.spec.services.length > 0) {
    const leaving = existing.spec.leaving.filter(({ uid }) => uid !== user.uid);
    return toStep(patchVirtualIp(existing, { services: [...existing.spec.services, user], leaving }), event);
  }
  return toStep(takeAlone(service, choice, view), event);
}

/** Of an address that nobody has: one that is new, waits, or is taken back. */
function takeAlone(service: Service, { address, pool, existing }: Choice, view: ClusterView): Write {
  const name = toObjectName(address);
  const lost = view.lostVirtualIps.get(name);
  if (existing === null && lost !== undefined) return restoreVirtualIp(name, lost, view);
  const { shareKey } = readRequests(service);
  // A VirtualIP that somebody deleted: nothing says which nodes had learned of the address.
  const isUnknown = existing === null && isPublished(service, address);
  const absent = isUnknown ? [] : listAbsent(view, existing);
  const seat = chooseSeat(address, view.pools.get(pool));
  const services = [toUser(service)];
  const spec = { pool, seat, shareKey, services, leaving: [], formerNamespaces: [], absent };
  return existing === null ? createVirtualIp(name, spec) : patchVirtualIp(existing, spec);
}

/** A Service that is alone with its address may share it under another key, or no longer. */
function adoptShareKey({ requests, targets }: Situation): Step | null {
  const { shareKey } = requests;
  const found = targets.find(({ held }) => {
    const { services = [], leaving = [], shareKey: known } = held?.virtualIp.spec ?? {};
    return services.length === 1 && leaving.length === 0 && known !== shareKey;
  });
  return found?.held == null ? null : toStep(patchVirtualIp(found.held.virtualIp, { shareKey }));
}

function writeStatus({ service }: Situation, readiness: Readiness, view: ClusterView): Step | null {
  const before = service.status?.conditions ?? [];
  const known = findCondition(before, addressReady);
  const { status, reason, message } = readiness;
  const wanted = { type: addressReady, status, reason, message };
  const conditions = isWorthReporting(readiness, known) ? setCondition(before, wanted, view.nowMs) : before;
  const texts = readiness.published.map(({ address }) => address.text);
  const ingress = toIngress(service, texts, 'VIP');
  const isSame = toIngressText(ingress) === toIngressText(getIngress(service));
  if (isSame && conditions === before) return null;
  const confirm = readiness.added.map(({ virtualIp }) => confirmVirtualIp(virtualIp));
  const write = patchStatus('Service', service, toStatus(ingress, conditions), confirm);
  const step = toStep(write, toReadinessEvent(readiness, known?.reason));
  return isSame && isOfSeatHolder(readiness, known) ? { ...step, isLowPriority: true } : step;
}

/** A keepalived that ends everywhere, and comes back, is reported to each Service of its seats. */
function isOfSeatHolder({ published, reason }: Readiness, known: Condition | null): boolean {
  return published.length > 0 && [reason, known?.reason].includes('NoSeatHolder');
}

/** What nodes do soon is not, unless what the condition says is not so. */
function isWorthReporting({ graceUntilMs }: Readiness, known: Condition | null): boolean {
  if (graceUntilMs === null) return true;
  return known !== null && known.status !== 'True' && known.reason !== 'WaitingForNodes';
}

function toIngressText(ingress: readonly Ingress[]): string {
  return JSON.stringify(ingress.map(({ ip, ipMode }) => [ip, ipMode]));
}

function toReadinessEvent(
  { added, status, reason, message }: Readiness,
  before: string | undefined,
): StepEvent | null {
  if (added.length > 0) {
    const text = added.map(({ address }) => address.text).join(', ');
    return { type: 'Normal', reason: 'AddressReady', message: `All nodes of the pool serve ${text}.` };
  }
  if (reason === before || reason === 'Ready') return null;
  const isInUse = reason === 'AddressInUse' || reason === 'AddressWithdrawn';
  if (isInUse) return { type: 'Warning', reason: 'AddressInUse', message };
  return { type: 'Warning', reason: status === 'True' ? 'NotAsAsked' : 'NoAddress', message };
}

/** Addresses that the Service has, and that its status cannot come to have. */
function leaveSurplus({ service, allocations }: Situation, view: ClusterView): Step | null {
  const surplus = allocations.held.find(
    ({ address }) => !isPublished(service, address) && !mayPublish(service, address, view.settings),
  );
  return surplus === undefined ? null : toStep(startLeaving(surplus.virtualIp, [toUser(service)]));
}

function rest({ targets }: Situation, readiness: Readiness, { nowMs }: ClusterView): Step {
  const { reason, graceUntilMs, dueMs, message } = readiness;
  const isLacking = targets.some(({ problem }) => problem !== null);
  if (reason === 'Ready' && !isLacking && dueMs === null) return nothing;
  const untilMs = graceUntilMs ?? dueMs ?? (reason === 'WaitingForNodes' ? nowMs + reportedMs : null);
  const isPending = targets.some(({ held, published }) => held !== null && held !== published);
  const lack = isPending ? 'nodes or addresses' : 'addresses';
  return { does: 'wait', waitsFor: isLacking ? lack : 'nodes', why: message, untilMs };
}
