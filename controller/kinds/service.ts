import { parseAddress } from '../../lib/address/address.ts';
import { type Change } from '../../lib/kubernetes/object-store.ts';
import { toObjectName } from '../../lib/services/address-name.ts';
import { type Node } from '../../lib/services/cluster.ts';
import { addressReady } from '../../lib/services/names.ts';
import { type NodeReport } from '../../lib/services/node-report.ts';
import { type Ingress, type Service } from '../../lib/services/services.ts';
import { mayHold } from '../cache/candidate-nodes.ts';
import { listDiffering } from '../cache/multi-map.ts';
import {
  findCondition,
  getIngress,
  getPoolParts,
  getUse,
  isPublished,
  isServed,
  listChangedUnheld,
  listPublishedTexts,
  listSeated,
  listUsers,
  mayPublish,
  setCondition,
  shorten,
} from '../cache/object-parts.ts';
import { isNews, type WaitsFor } from '../cache/watch.ts';
import { type World } from '../cache/world.ts';
import { type Kind, nothing, type Step, type StepEvent, toJson, toStep, type Write } from '../engine/step.ts';
import {
  addFinalizers,
  type Claim,
  dropFinalizers,
  findClaims,
  restoreLost,
  restoreVirtualIp,
  startLeaving,
  toUser,
} from './claims.ts';
import {
  confirmVirtualIp,
  createVirtualIp,
  findVirtualIpPath,
  patchServiceMetadata,
  patchServiceStatus,
  patchVirtualIp,
} from './writes.ts';
import { type Condition } from '../../lib/services/metadata.ts';
import { type Choice } from '../allocate/choose-address.ts';
import { chooseSeat } from '../allocate/seats.ts';
import { readWishes } from '../../lib/services/wishes.ts';
import { nextDeviceStep } from './device-service.ts';
import { writePortErrors } from './port-errors.ts';
import { judgeReadiness, type Readiness } from './readiness.ts';
import { findTargets, type Situation } from './targets.ts';
import { listAbsent } from '../cache/node-leases.ts';
import { type Known } from '../cache/known.ts';

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
    { source: 'livingReports', toKeys: listReported },
    { source: 'nodes', part: ({ metadata }) => metadata.labels, toKeys: listConcerned },
    { source: 'namespaces', part: ({ metadata }) => metadata.labels, wakes: () => ['addresses'] },
    { source: 'claims', wakes: () => ['addresses'] },
    { source: 'judgements', wakes: () => ['addresses'] },
    {
      source: 'devices',
      part: ({ metadata }) => [metadata.uid, metadata.deletionTimestamp],
      toKeys: ({ key }, { deviceToServices }) => deviceToServices.get(key) ?? [],
    },
    {
      source: 'deviceBalancers',
      toKeys: ({ before, after }) =>
        [before, after].flatMap((one) => (one === null ? [] : [`${one.id.namespace}/${one.id.name}`])),
    },
  ],
  next: nextServiceStep,
  findReadPath: findVirtualIpPath,
};

/** What others wait for: that a Service which had an address, or has one, asks for something else. */
function wakeWaiting(
  { key, before, after }: Change<Service>,
  { serviceToVirtualIps }: Known,
): readonly WaitsFor[] {
  const [was, is] = [before, after].map((each) => JSON.stringify([each?.spec, listPublishedTexts(each)]));
  const isServed = serviceToVirtualIps.has(key) || listPublishedTexts(before).length > 0;
  return isServed && was !== is ? ['addresses'] : [];
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

/**
 * Who has an address that the node can hold no longer, or again; and who has a port of a protocol of which that is so, or is left to
 * kube-proxy.
 */
function listReported(change: Change<NodeReport>, known: Known): string[] {
  const unheld = listChangedUnheld(change).flatMap((name) => {
    const address = parseAddress(name);
    return address === null ? listSeated(name, known) : [toObjectName(address)];
  });
  const protocols = listDiffering(change.before?.unsupported, change.after?.unsupported);
  const users = [...(protocols.length === 0 ? [] : known.services)].filter(([, { spec }]) =>
    (spec.ports ?? []).some(({ protocol }) => protocols.includes(protocol)),
  );
  return [...listSharers(unheld, known), ...users.map(([key]) => key), ...listSaidOf(change)];
}

/** The Services that the node says something else of than before. */
function listSaidOf({ before, after }: Change<NodeReport>): string[] {
  return (['left', 'dropping'] as const).flatMap((what) => {
    const [was, is] = [before?.[what] ?? {}, after?.[what] ?? {}];
    return [...new Set([...Object.keys(was), ...Object.keys(is)])].filter((key) => was[key] !== is[key]);
  });
}

/** Of a Service that is gone: the addresses that it had are looked at for themselves. What nodes do comes before what devices do. */
function nextServiceStep(key: string, world: World): Step {
  const known = world.services.get(key);
  if (known === undefined) return nothing;
  const step = isServed(known, world.settings.isDefaultClass)
    ? serveService(known, world)
    : releaseService(known, world);
  return step.does === 'nothing' ? nextDeviceStep(known, world) : step;
}

/**
 * The next step of a Service that is to have no address of ours: it is being deleted, or its type or class is another one. Its
 * addresses are withdrawn, every living node forgets them, its status loses them, the finalizer goes. What others wrote into the
 * status stays, and a Service that we have nothing in is not touched.
 */
function releaseService(service: Service, world: World): Step {
  const { held, leaving } = findClaims(service, world);
  const [claim] = held;
  if (claim !== undefined) {
    const uids = new Set([service.metadata.uid]);
    return toStep(patchVirtualIp(claim.virtualIp, startLeaving(claim.virtualIp, uids)));
  }
  if (leaving.length === 0 && dropFinalizers(service) === null) return nothing;
  const lost = restoreLost(service, world);
  if (lost !== null) return toStep(lost);
  if (!leaving.every(({ virtualIp }) => world.candidates.haveForgotten(virtualIp.metadata.resourceVersion)))
    return tellWait(service, leaving, world);
  return clearStatus(service, leaving) ?? removeFinalizer(service, leaving);
}

/** Nodes forget an address within a second. One that has not after so long is named. */
const toldMs = 60_000;

/** After that the condition names the nodes, those that hold no address, too: whoever deletes the Service waits for them. */
function tellWait(service: Service, leaving: readonly Claim[], world: World): Step {
  const texts = leaving.map(({ address }) => address.text).join(', ');
  const sinceMs = leaving.map(({ virtualIp }) => world.generationMs.get(virtualIp.metadata.name) ?? 0);
  const untilMs = Math.min(world.nowMs, Math.max(...sinceMs)) + toldMs;
  const behind = leaving.flatMap(({ virtualIp }) =>
    world.candidates.listNotForgotten(virtualIp.metadata.resourceVersion),
  );
  const message = `${texts}: nodes have not withdrawn it yet: ${shorten([...new Set(behind)].sort())}.`;
  const wait = { does: 'wait', waitsFor: 'nodes', why: message, untilMs: null } as const;
  if (untilMs > world.nowMs) return { ...wait, untilMs };
  const before = service.status?.conditions ?? [];
  const wanted = { type: addressReady, status: 'False', reason: 'WaitingForNodes', message } as const;
  const conditions = setCondition(before, wanted, world.nowMs);
  return conditions === before
    ? wait
    : toStep(patchServiceStatus(service, { conditions: toJson(conditions) }));
}

function clearStatus(service: Service, leaving: readonly Claim[]): Step | null {
  const [ingress, conditions] = [getIngress(service), service.status?.conditions ?? []];
  const ours = new Set(leaving.map(({ address }) => address.text));
  const others = ingress.filter(({ ip }) => !ours.has(ip ?? ''));
  const otherConditions = conditions.filter(({ type }) => type !== addressReady);
  if (others.length === ingress.length && otherConditions.length === conditions.length) return null;
  return toStep(
    patchServiceStatus(service, {
      loadBalancer: { ingress: others.length === 0 ? null : toJson(others) },
      conditions: toJson(otherConditions),
    }),
  );
}

function removeFinalizer(service: Service, leaving: readonly Claim[]): Step {
  const finalizers = dropFinalizers(service);
  if (finalizers === null) return nothing;
  const addresses = leaving.map(({ address }) => address.text).join(', ');
  return toStep(
    patchServiceMetadata(service, { finalizers }),
    leaving.length === 0
      ? null
      : { type: 'Normal', reason: 'AddressReleased', message: `${addresses} is given back.` },
  );
}

/**
 * The next step of a Service that is to have addresses: the finalizer, a VirtualIP of each family, its status once nodes have them. An
 * address that another one replaces is served until the other one is.
 */
export function serveService(service: Service, world: World): Step {
  const finalizers = addFinalizers(service);
  if (finalizers !== null) return toStep(patchServiceMetadata(service, { finalizers }));
  const situation = findTargets(service, world);
  const readiness = judgeReadiness(situation, world);
  return (
    claim(situation, world) ??
    adoptShareKey(situation) ??
    writeStatus(situation, readiness, world) ??
    writePortErrors(service, situation.claims.held, world) ??
    leaveSurplus(situation, world) ??
    rest(situation, readiness)
  );
}

/** Takes the first address that is to be taken. Families have one order everywhere, so that no two Services wait for each other. */
function claim({ service, wishes, targets }: Situation, world: World): Step | null {
  if (wishes.isAllOrNothing && targets.some(({ problem }) => problem !== null)) return null;
  const inOrder = targets.toSorted((one, other) => (one.family < other.family ? -1 : 1));
  const choice = inOrder.find((target) => target.choice !== null)?.choice ?? null;
  if (choice === null) return null;
  const { address, pool, existing } = choice;
  const event: StepEvent = {
    type: 'Normal',
    reason: 'AddressAllocated',
    message: `${address.text} of the AddressPool ${pool}.`,
  };
  const user = toUser(service);
  if (existing !== null && existing.spec.services.length > 0) {
    const leaving = existing.spec.leaving.filter(({ uid }) => uid !== user.uid);
    return toStep(patchVirtualIp(existing, { services: [...existing.spec.services, user], leaving }), event);
  }
  return toStep(takeAlone(service, choice, world), event);
}

/** Of an address that nobody has: one that is new, waits, or is taken back. */
function takeAlone(service: Service, { address, pool, existing }: Choice, world: World): Write {
  const name = toObjectName(address);
  const lost = world.lostVirtualIps.get(name);
  if (existing === null && lost !== undefined) return restoreVirtualIp(name, lost, world);
  const { shareKey } = readWishes(service);
  // A VirtualIP that somebody deleted: nothing says which nodes had heard of the address.
  const isUnknown = existing === null && isPublished(service, address);
  const absent = isUnknown ? [] : listAbsent(world, existing);
  const seat = chooseSeat(address, world.pools.get(pool));
  const services = [toUser(service)];
  const spec = { pool, seat, shareKey, services, leaving: [], formerNamespaces: [], absent };
  return existing === null ? createVirtualIp(name, spec) : patchVirtualIp(existing, spec);
}

/** A Service that is alone with its address may share it under another key, or no longer. */
function adoptShareKey({ wishes, targets }: Situation): Step | null {
  for (const { held } of targets) {
    if (held === null) continue;
    const { spec } = held.virtualIp;
    const isAlone = spec.services.length === 1 && spec.leaving.length === 0;
    if (isAlone && spec.shareKey !== wishes.shareKey)
      return toStep(patchVirtualIp(held.virtualIp, { shareKey: wishes.shareKey }));
  }
  return null;
}

function writeStatus({ service }: Situation, readiness: Readiness, world: World): Step | null {
  const before = service.status?.conditions ?? [];
  const known = findCondition(before, addressReady);
  const conditions = isWorthAWord(readiness, known) ? addCondition(before, readiness, world) : before;
  const ingress = toIngress(service, readiness);
  const isSame = toText(ingress) === toText(getIngress(service));
  if (isSame && conditions === before) return null;
  const write = patchServiceStatus(
    service,
    {
      loadBalancer: { ingress: ingress.length === 0 ? null : toJson(ingress) },
      conditions: toJson(conditions),
    },
    readiness.added.map(({ virtualIp }) => confirmVirtualIp(virtualIp)),
  );
  const step = toStep(write, toEvent(readiness, known?.reason));
  return isSame && isOfHolder(readiness, known) ? { ...step, isLowPriority: true } : step;
}

/** A keepalived that ends everywhere, and comes back, is told to each Service of its seats. */
function isOfHolder({ published, reason }: Readiness, known: Condition | null): boolean {
  return published.length > 0 && [reason, known?.reason].includes('NoHolder');
}

/** What nodes do soon is not, unless what the condition says is not so. */
function isWorthAWord({ patienceUntilMs }: Readiness, known: Condition | null): boolean {
  if (patienceUntilMs === null) return true;
  return known !== null && known.status !== 'True' && known.reason !== 'WaitingForNodes';
}

function addCondition(
  before: readonly Condition[],
  { status, reason, message }: Readiness,
  { nowMs }: World,
): readonly Condition[] {
  return setCondition(before, { type: addressReady, status, reason, message }, nowMs);
}

function toText(ingress: readonly Ingress[]): string {
  return JSON.stringify(ingress.map(({ ip, ipMode }) => [ip, ipMode]));
}

/** What is there already stays as it is. */
function toIngress(service: Service, { published }: Readiness): Ingress[] {
  const before = getIngress(service);
  return published.map(
    ({ address: { text } }) =>
      before.find(({ ip, ipMode }) => ip === text && ipMode === 'VIP') ?? { ip: text, ipMode: 'VIP' },
  );
}

function toEvent(
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
function leaveSurplus({ service, claims }: Situation, world: World): Step | null {
  const surplus = claims.held.find(
    ({ address }) => !isPublished(service, address) && !mayPublish(service, address, world.settings),
  );
  if (surplus === undefined) return null;
  const uids = new Set([service.metadata.uid]);
  return toStep(patchVirtualIp(surplus.virtualIp, startLeaving(surplus.virtualIp, uids)));
}

function rest({ targets }: Situation, readiness: Readiness): Step {
  const { reason, patienceUntilMs, dueMs, message } = readiness;
  const isLacking = targets.some(({ problem }) => problem !== null);
  if (reason === 'Ready' && !isLacking && dueMs === null) return nothing;
  const untilMs = patienceUntilMs ?? dueMs;
  const isPending = targets.some(({ held, published }) => held !== null && held !== published);
  const lack = isPending ? 'nodes or addresses' : 'addresses';
  return { does: 'wait', waitsFor: isLacking ? lack : 'nodes', why: message, untilMs };
}
