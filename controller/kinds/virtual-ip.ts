import {
  type Kind,
  type Step,
  nothing,
  toStep,
  patchVirtualIp,
  patchStatus,
  toJson,
  type StepEvent,
  deleteObject,
  confirmUser,
} from '../step.ts';
import {
  apiGroup,
  apiVersion,
  type VirtualIp,
  type AddressUser,
  type Condition,
  finalizer,
} from '../../lib/api/vipnat.ts';
import {
  getPoolParts,
  listUsers,
  listSeated,
  isPublished,
  mayPublish,
  isUsed,
  findFinalizers,
  findCondition,
  isProgrammed,
  isInUse,
  isDeleted,
  readReleasedMs,
  setCondition,
  type WantedCondition,
  toTime,
} from '../cache/parts.ts';
import { shorten } from '../../lib/text.ts';
import type { Change } from '../../lib/kubernetes/informer.ts';
import type { NodeReport } from '../../lib/api/node.ts';
import { type Known, listDiffering, defaultReuseMs } from '../cache/known.ts';
import { parseAddress, toObjectName, parseObjectName } from '../../lib/net.ts';
import { type ClusterView, findService } from '../cache/cache.ts';
import { restoreVirtualIp, startLeaving } from './allocations.ts';
import { listUnresponsiveOwners } from '../cache/leases.ts';
import { keepSeat } from '../allocate/seats.ts';
import { getStatusParts } from '../cache/nodes.ts';

/** Addresses that are given. */
export const virtualIp: Kind = {
  name: 'VirtualIP',
  source: 'virtualIps',
  subject: { apiVersion: `${apiGroup}/${apiVersion}`, kind: 'VirtualIP' },
  watches: [
    { source: 'virtualIps', toKeys: ({ key }) => [key] },
    { source: 'services', toKeys: ({ key }, known) => known.serviceToVirtualIps.get(key) ?? [] },
    {
      source: 'pools',
      part: getPoolParts,
      toKeys: ({ key }, known) => known.poolToVirtualIps.get(key) ?? [],
    },
    { source: 'livingReports', part: getStatusParts, toKeys: listReported },
    { source: 'unresponsiveNodes', wakes: () => ['nodes'] },
    { source: 'judgements', wakes: () => ['nodes'] },
  ],
  next: nextVirtualIpStep,
  findTenant: (name, { virtualIps, lostVirtualIps }) => {
    const [user] = listUsers(virtualIps.get(name) ?? lostVirtualIps.get(name) ?? null);
    return user?.split('/')[0] ?? '';
  },
};

/** Of seats that a node has taken or left, or holds in another mode; and those that another host has, or has no longer. */
function listReported({ before, after }: Change<NodeReport>, known: Known): string[] {
  const [old, now] = [before?.seats ?? [], after?.seats ?? []];
  const seats = before?.mode === after?.mode ? listDiffering(old, now) : [...new Set([...old, ...now])];
  const inUse = listDiffering(before?.inUse, after?.inUse).flatMap((text) => parseAddress(text) ?? []);
  return [...inUse.map(toObjectName), ...seats.flatMap((seat) => listSeated(seat, known))];
}

/** The next step of an address that is given. When nobody has it any more it waits, and is deleted then. */
function nextVirtualIpStep(name: string, view: ClusterView): Step {
  const virtualIp = view.virtualIps.get(name);
  if (virtualIp === undefined) {
    const lost = view.lostVirtualIps.get(name);
    return lost === undefined ? nothing : toStep(restoreVirtualIp(name, lost, view));
  }
  return (
    sendGoneServices(virtualIp, view) ??
    strikeOff(virtualIp, view) ??
    moveSeat(virtualIp, view) ??
    writeStatus(virtualIp, view) ??
    addFinalizer(virtualIp) ??
    (virtualIp.spec.services.length > 0 ? awaitNodes(virtualIp, view) : awaitReuse(virtualIp, view))
  );
}

/** Services that do not exist any more, or not as the same ones. */
function sendGoneServices(virtualIp: VirtualIp, view: ClusterView): Step | null {
  const gone = virtualIp.spec.services.filter((user) => findService(user, view) === undefined);
  if (gone.length === 0) return null;
  const confirm = gone.map((user) => confirmUser(user, view));
  return toStep(startLeaving(virtualIp, gone, confirm));
}

/** Services that have given it back: no node may serve it for them any more, and their status will never have it again. */
function strikeOff(virtualIp: VirtualIp, view: ClusterView): Step | null {
  const { metadata, spec } = virtualIp;
  const address = parseObjectName(metadata.name);
  if (spec.leaving.length === 0 || !view.candidates.haveForgotten(metadata.resourceVersion)) return null;
  if (listUnresponsiveOwners(virtualIp, view).length > 0) return null;
  const isDone = (user: AddressUser) => {
    const service = findService(user, view);
    if (service === undefined || address === null) return true;
    return !isPublished(service, address) && !mayPublish(service, address, view.settings);
  };
  const done = spec.leaving.filter(isDone);
  if (done.length === 0) return null;
  const leaving = spec.leaving.filter((user) => !done.includes(user));
  // They may name the address until it may be given again.
  const former = new Set([...spec.formerNamespaces, ...done.map(({ namespace }) => namespace)]);
  const confirm = done.map((user) => confirmUser(user, view));
  return toStep(patchVirtualIp(virtualIp, { leaving, formerNamespaces: [...former].sort() }, confirm));
}

/** A pool that has fewer seats now keeps the others until nobody sits there. */
function moveSeat(virtualIp: VirtualIp, view: ClusterView): Step | null {
  const { pool, seat } = virtualIp.spec;
  const address = parseObjectName(virtualIp.metadata.name);
  const wanted = address === null ? seat : keepSeat(address, seat, view.pools.get(pool));
  return wanted === seat ? null : toStep(patchVirtualIp(virtualIp, { seat: wanted }));
}

/** To one that has none: an earlier version made it, or somebody took the finalizer away. Hundreds may need one after an upgrade. */
function addFinalizer(virtualIp: VirtualIp): Step | null {
  if (!isUsed(virtualIp) || findFinalizers(virtualIp) === null) return null;
  return { ...toStep(patchVirtualIp(virtualIp, {})), isLowPriority: true };
}

function writeStatus(virtualIp: VirtualIp, view: ClusterView): Step | null {
  const wanted = judgeVirtualIp(virtualIp, view);
  const known = virtualIp.status ?? {};
  const changed = wanted.conditions.filter((one) => known.conditions?.includes(one) !== true);
  const isOther = (name: 'releasedAt' | 'seatHolder' | 'mode') => wanted[name] !== (known[name] ?? null);
  const reportsMore = isOther('releasedAt') || changed.some(({ type }) => type !== 'Announced');
  if (!reportsMore && changed.length === 0 && !isOther('seatHolder') && !isOther('mode')) return null;
  const write = patchStatus('VirtualIP', virtualIp, { ...wanted, conditions: toJson(wanted.conditions) });
  const step = toStep(write, describeChange(virtualIp, changed));
  return reportsMore ? step : { ...step, isLowPriority: true };
}

/** Reported when another host is found, when nodes are that may serve it on, and when it is deleted while Services have it. */
function describeChange({ metadata, status }: VirtualIp, changed: readonly Condition[]): StepEvent | null {
  const address = parseObjectName(metadata.name)?.text ?? metadata.name;
  const isFound = changed.some(({ type, status: is }) => type === 'AddressInUse' && is === 'True');
  if (isFound)
    return { type: 'Warning', reason: 'AddressInUse', message: `Another host answers for ${address}.` };
  const isDeletion = findCondition(status?.conditions ?? [], 'Terminating') === null;
  const kept = changed.find(
    ({ type, status: is }) =>
      (type === 'Withdrawn' && is === 'False') || (type === 'Terminating' && isDeletion),
  );
  return kept === undefined
    ? null
    : { type: 'Warning', reason: 'AddressKept', message: `${address}: ${kept.message}` };
}

function awaitNodes(virtualIp: VirtualIp, view: ClusterView): Step {
  if (isProgrammed(virtualIp) && virtualIp.spec.leaving.length === 0 && !isInUse(virtualIp)) return nothing;
  const names = view.candidates.listBehind(virtualIp.spec.pool, virtualIp.metadata.resourceVersion);
  return { does: 'wait', waitsFor: 'nodes', why: `nodes: ${names.join(', ')}`, untilMs: null };
}

/**
 * Nobody has it: it goes when its time is over, no node has it, and no other host answers for it. One that is deleted goes with the last Service
 * that leaves it: what is here then has foreign finalizers, or an earlier version deleted it.
 */
function awaitReuse(virtualIp: VirtualIp, view: ClusterView): Step {
  const { metadata, spec } = virtualIp;
  const wait = (why: string): Step => ({ does: 'wait', waitsFor: 'nodes', why, untilMs: null });
  if (spec.leaving.length > 0) return wait('the Services that leave it');
  if (isDeleted(virtualIp))
    return findFinalizers(virtualIp) === null
      ? wait('finalizers of other software')
      : toStep(patchVirtualIp(virtualIp, {}));
  const reuseMs = view.judgedPools.get(spec.pool)?.reuseAfterMs ?? defaultReuseMs;
  const untilMs = (readReleasedMs(virtualIp, view) ?? view.nowMs) + reuseMs;
  if (untilMs > view.nowMs) return { does: 'wait', waitsFor: 'time', why: 'the end of reuseAfter', untilMs };
  if (isInUse(virtualIp)) return wait('the other host that answers for it');
  if (!view.candidates.haveForgotten(metadata.resourceVersion)) return wait('every node forgets it');
  return toStep(deleteObject('VirtualIP', virtualIp));
}

/** Judges an address by what living nodes report: what its status is to say. */
function judgeVirtualIp(virtualIp: VirtualIp, view: ClusterView) {
  const wanted = [judgeUse, judgeWithdrawn, judgeProgrammed, judgeTerminating].map((judge) =>
    judge(virtualIp, view),
  );
  const known: readonly Condition[] = virtualIp.status?.conditions ?? [];
  const conditions = wanted.reduce(
    (before, one) => (one === null ? before : setCondition(before, one, view.nowMs)),
    known,
  );
  const current = { ...virtualIp, status: { ...virtualIp.status, conditions: [...conditions] } };
  const seatHolders = listCurrentOwners(current, view);
  const announced = describeSeatHolders(current, seatHolders);
  const [seatHolder = null] = seatHolders.length === 1 ? seatHolders : [];
  return {
    conditions: isNotified(current) ? setCondition(conditions, announced, view.nowMs) : conditions,
    // Null while no node says that it holds the seat, or several do.
    seatHolder: seatHolder?.node ?? null,
    mode: seatHolder?.mode ?? null,
    releasedAt: findReleasedAt(virtualIp, view),
  };
}

/** Since when nobody has it: the moment that is known, or now. Null while somebody has it. */
function findReleasedAt(virtualIp: VirtualIp, view: ClusterView): string | null {
  return isUsed(virtualIp) ? null : toTime(readReleasedMs(virtualIp, view) ?? view.nowMs);
}

/** Before nodes have it, nobody can hold it: one write says both. */
function isNotified(virtualIp: VirtualIp): boolean {
  return isProgrammed(virtualIp) || findCondition(virtualIp.status?.conditions ?? [], 'Announced') !== null;
}

function listCurrentOwners(virtualIp: VirtualIp, view: ClusterView): readonly NodeReport[] {
  const { pool, seat, services } = virtualIp.spec;
  const isHeld = services.length > 0 && isNotified(virtualIp) && !isInUse(virtualIp);
  return isHeld ? view.candidates.listCurrentOwners(`${pool}/${seat}`) : [];
}

/** While no node lives that could ask, what was found stays so. */
function judgeUse(virtualIp: VirtualIp, view: ClusterView): WantedCondition | null {
  const type = 'AddressInUse';
  const { pool, services } = virtualIp.spec;
  const message = 'Another host on the network answers for it.';
  if (isWitnessed(virtualIp, view)) return { type, status: 'True', reason: 'AnotherHost', message };
  const isUnasked = services.length > 0 && view.candidates.list(pool).length === 0;
  if (!isInUse(virtualIp) || isUnasked) return null;
  return { type, status: 'False', reason: 'Free', message: 'No other host answers for it.' };
}

/**
 * Whether nodes are to be believed that another host has an address. Only who holds a seat asks for its addresses. To any other node that asked once and
 * asks again, the one that holds the seat is another host. While nobody holds it, one node alone is not believed: if it is lost, it could take all
 * addresses of the cluster out of use. What was believed stays so while one of them says it, also when the seat has moved. While two nodes have the seat, each is another host to the other one: a keepalived
 * that hangs, or was killed, leaves the address where it was, also on a node that is
 * unresponsive now, or left out of the seat.
 */
function isWitnessed(virtualIp: VirtualIp, view: ClusterView): boolean {
  const { pool, seat, services } = virtualIp.spec;
  const address = parseObjectName(virtualIp.metadata.name);
  const corroborating = view.candidates.listFinders(pool, seat, address?.text ?? '');
  if (corroborating.length === 0 || isInUse(virtualIp)) return corroborating.length > 0;
  const name = `${pool}/${seat}`;
  const unresponsive = [...view.unresponsiveNodes.values()].filter(({ report }) =>
    report.seats.includes(name),
  );
  if (view.candidates.listCurrentOwners(name).length + unresponsive.length > 1) return false;
  const [seatHolder] = view.candidates.listSeatHolders(pool, seat);
  if (seatHolder !== undefined) return corroborating.includes(seatHolder);
  if (corroborating.length > 1) return true;
  return !services.some((user) => {
    const service = findService(user, view);
    return service !== undefined && address !== null && isPublished(service, address);
  });
}

/** Said only where it takes longer: Services have left it, living nodes have forgotten it, and others may not have. */
function judgeWithdrawn(virtualIp: VirtualIp, view: ClusterView): WantedCondition | null {
  const type = 'Withdrawn';
  const { metadata, spec, status } = virtualIp;
  const isAwaited = spec.leaving.length > 0 && view.candidates.haveForgotten(metadata.resourceVersion);
  const unresponsive = isAwaited ? listUnresponsiveOwners(virtualIp, view) : [];
  if (unresponsive.length > 0) {
    const why = 'No other Service gets it before the balancer there reports, or the Node is deleted.';
    const message = `${shorten(unresponsive)} may still serve it: the Lease is over. ${why}`;
    return { type, status: 'False', reason: 'NodeUnresponsive', message };
  }
  const isWithdrawn = findCondition(status?.conditions ?? [], type)?.status === 'False';
  // Whoever leaves next is judged when living nodes have forgotten it.
  if (!isWithdrawn || (spec.leaving.length > 0 && !isAwaited)) return null;
  const message = 'No node serves it for a Service that gave it back.';
  return { type, status: 'True', reason: 'Forgotten', message };
}

/** Says what it waits for, to whoever has deleted it. */
function judgeTerminating(virtualIp: VirtualIp): WantedCondition | null {
  const terminating = { type: 'Terminating', status: 'True' } as const;
  if (!isDeleted(virtualIp)) return null;
  const stays = 'It is deleted, and stays until';
  if (isUsed(virtualIp)) {
    const message = `${stays} these Services have given it back: ${shorten(listUsers(virtualIp))}.`;
    return { ...terminating, reason: 'InUse', message };
  }
  const others = (virtualIp.metadata.finalizers ?? []).filter((each) => each !== finalizer);
  const isReported = findCondition(virtualIp.status?.conditions ?? [], terminating.type) !== null;
  if (others.length === 0 || !isReported) return null;
  const message = `${stays} other software has removed its finalizers: ${shorten(others)}.`;
  return { ...terminating, reason: 'OtherFinalizers', message };
}

function judgeProgrammed(virtualIp: VirtualIp, view: ClusterView): WantedCondition | null {
  const { spec, metadata } = virtualIp;
  if (spec.services.length === 0 || isProgrammed(virtualIp) || !isOnAllNodes(virtualIp, view)) return null;
  const message = 'Every living node of its pool has programmed it.';
  const { generation: observedGeneration } = metadata;
  return { type: 'Programmed', status: 'True', reason: 'Programmed', message, observedGeneration };
}

/** Every candidate has it and its Services, as they are now. There is one at least. */
function isOnAllNodes({ metadata, spec }: VirtualIp, view: ClusterView): boolean {
  const { candidates } = view;
  return (
    candidates.list(spec.pool).length > 0 &&
    candidates.haveProgrammed(spec.pool, 'virtualips', metadata.resourceVersion) &&
    spec.services.every((user) => {
      const version = findService(user, view)?.metadata.resourceVersion;
      return version !== undefined && candidates.haveProgrammed(spec.pool, 'services', version);
    })
  );
}

/** Whether one node holds the address. Nothing is decided by it. */
function describeSeatHolders(virtualIp: VirtualIp, seatHolders: readonly NodeReport[]): WantedCondition {
  const type = 'Announced';
  const { pool, seat, services } = virtualIp.spec;
  const name = `the seat ${pool}/${seat}`;
  if (seatHolders.length === 1)
    return { type, status: 'True', reason: 'Announced', message: `One node holds ${name}.` };
  const not = (reason: string, message: string): WantedCondition => {
    return { type, status: 'False', reason, message };
  };
  if (isInUse(virtualIp)) return not('AddressInUse', 'No node holds it: another host answers for it.');
  if (services.length === 0) return not('NoService', 'No Service has it.');
  if (seatHolders.length === 0) return not('NoSeatHolder', `No living node says that it holds ${name}.`);
  const names = shorten(seatHolders.map(({ node }) => node));
  return not('SeveralSeatHolders', `Several nodes say that they hold ${name}: ${names}.`);
}
