/** What the condition of a Service says, and which addresses its status has. */
import { type Allocation, type Situation, type Target, wasWithdrawn } from './allocations.ts';
import type { ClusterView } from '../cache/cache.ts';
import {
  isInUse,
  mayPublish,
  isProgrammed,
  findCondition,
  describeContest,
  listCommonPorts,
} from '../cache/parts.ts';
import type { VirtualIp } from '../../lib/api/vipnat.ts';
import { contains } from '../../lib/net.ts';
import { quoteTenant, shorten } from '../../lib/text.ts';
import type { NodeReport } from '../../lib/api/node.ts';

/** What a Service's status is to say. */
export interface Readiness {
  /** What its status is to have, in the order of its families. */
  readonly published: readonly Allocation[];
  /** Those of them that it does not have yet. */
  readonly added: readonly Allocation[];
  readonly status: 'True' | 'False';
  readonly reason: string;
  readonly message: string;
  /** Nodes are awaited, and nothing is said of it yet: until then. */
  readonly graceUntilMs: number | null;
  /** When something else is to be said, or published, by itself; null where nothing is. */
  readonly dueMs: number | null;
}

/** Nodes have an address after some tenths of a second. What is said before is a write for nothing. */
const maxWaitMs = 5000;

/** Why something is not as expected. */
interface Remark {
  readonly reason: string;
  readonly message: string;
  /** An address that is published does not do what it should. */
  readonly isFault?: true;
  readonly untilMs?: number;
}

/** Judges a Service's readiness: all that it is to publish now, and the most important thing to say. */
export function judgeReadiness(situation: Situation, view: ClusterView): Readiness {
  const { targets, requests } = situation;
  const isNew = (allocation: Allocation) => !targets.some(({ published }) => published === allocation);
  const found = targets.flatMap((target) => findPublishable(target, situation, view) ?? []);
  const isEnough = found.length === targets.length || !requests.isAllOrNothing;
  const published = isEnough ? found : found.filter((allocation) => !isNew(allocation));
  const added = published.filter(isNew);
  const text = published.map(({ address }) => address.text).join(', ');
  const ready: Remark = { reason: 'Ready', message: `${text}: all nodes of the pool serve it.` };
  const { reason, message, isFault, untilMs = null } = findRemark(situation, published, view) ?? ready;
  const status = published.length > 0 && isFault !== true ? 'True' : 'False';
  const dueMs = findDue(situation, view);
  return { published, added, status, reason, message, graceUntilMs: untilMs, dueMs };
}

/**
 * What a family is to have in the status now: its target when nodes have it, else what is there. What another host answers for is
 * taken out: clients had better reach nobody than a host that is not theirs.
 */
function findPublishable(target: Target, { service }: Situation, view: ClusterView): Allocation | null {
  const { held, published } = target;
  const known = published !== null && isInUse(published.virtualIp) ? null : published;
  if (held === null || held === published) return known;
  const isReady = doesAnswer(held, view) && mayPublish(service, held.address, view.settings);
  return isReady ? held : known;
}

function doesAnswer(allocation: Allocation, view: ClusterView): boolean {
  const { virtualIp } = allocation;
  if (!isProgrammed(virtualIp) || isInUse(virtualIp)) return false;
  if (freeFromMs(virtualIp, view) > view.nowMs) return false;
  return findUnheld(allocation, view) === null && findUnanswered(allocation, view) === null;
}

/** Nobody can hold it: its pool is gone, and the seat with it, or the interface of its subnet or its pool is. What was published stays. */
function findUnheld({ address, virtualIp }: Allocation, view: ClusterView): Remark | null {
  const { text } = address;
  const { pool, seat } = virtualIp.spec;
  if (!view.judgedPools.has(pool)) {
    const message = `No node answers for ${text}: its AddressPool ${pool} does not exist.`;
    return { reason: 'PoolGone', message, isFault: true };
  }
  const clauses = view.candidates.explainUnheld(pool, seat, text);
  if (clauses === null) return null;
  return { reason: 'CannotBeHeld', message: `No node can hold ${text}. ${shorten(clauses)}.`, isFault: true };
}

/** No node lives that could serve what is published. It stays published: the nodes may only be unable to say so. */
function findUnserved({ address, virtualIp }: Allocation, { candidates }: ClusterView): Remark | null {
  const { pool } = virtualIp.spec;
  return candidates.list(pool).length > 0 ? null : { ...describeNoNode(pool, address.text), isFault: true };
}

function describeNoNode(pool: string, text: string): Remark {
  const message = `No node of the AddressPool ${pool} has a balancer that lives and can serve ${text}.`;
  return { reason: 'NoLivingNode', message };
}

/** When an address counts as free that another host answered for, is published anyway, or counts as lost. */
function findDue({ targets }: Situation, view: ClusterView): number | null {
  const moments = targets.flatMap(({ held, published }) => {
    if (held === null || isInUse(held.virtualIp)) return [];
    if (held === published) return [findLostMs(held, view) ?? 0];
    const unanswered = isProgrammed(held.virtualIp) ? findUnanswered(held, view) : null;
    return [freeFromMs(held.virtualIp, view), unanswered?.boundMs ?? 0];
  });
  const due = moments.filter((ms) => ms > view.nowMs);
  return due.length === 0 ? null : Math.min(...due);
}

/** A balancer that has just started says that an address is free, until it has asked. */
const freeMs = 15_000;

/** From when an address counts as free that another host answered for; long ago for any other. */
function freeFromMs({ status }: VirtualIp, { nowMs }: ClusterView): number {
  const inUse = findCondition(status?.conditions ?? [], 'AddressInUse');
  return toMs(inUse?.lastTransitionTime, nowMs) + freeMs;
}

function findRemark(
  situation: Situation,
  published: readonly Allocation[],
  view: ClusterView,
): Remark | null {
  const { targets } = situation;
  const withdrawn = findWithdrawn(situation, published, view);
  if (withdrawn !== null) return withdrawn;
  for (const { problem } of targets) if (problem !== null) return problem;
  for (const target of targets) {
    const { held } = target;
    if (held === null || published.includes(held)) continue;
    return findUnheld(held, view) ?? findWaiting(held, view);
  }
  const { namespace, name } = situation.service.metadata;
  const managers = view.conflicts.get(`${namespace}/${name}`);
  if (managers !== undefined)
    return { reason: 'WriteConflict', message: describeContest(managers), isFault: true };
  const remarks = [
    ...published.map((allocation) => findUnheld(allocation, view)),
    ...published.map((allocation) => findUnserved(allocation, view) ?? findLost(allocation, view)),
    ...published.map((allocation) => findConflict(allocation, situation, view)),
    ...(['dropping', 'left'] as const).flatMap((what) =>
      published.map((allocation) => findReported(what, allocation, situation, view)),
    ),
    ...published.map((allocation) => findOddity(allocation, situation, view)),
  ];
  return remarks.find((remark) => remark !== null) ?? null;
}

/** An address that was published, and is not now. It comes back: what is said of it is what it is known by then. */
function findWithdrawn(
  { service, targets }: Situation,
  published: readonly Allocation[],
  view: ClusterView,
): Remark | null {
  for (const { held, published: before } of targets) {
    if (held === null || published.includes(held)) continue;
    if (held !== before && !wasWithdrawn(service)) continue;
    return { ...findWaiting(held, view), reason: 'AddressWithdrawn' };
  }
  return null;
}

function findWaiting(allocation: Allocation, view: ClusterView): Remark {
  const { address, virtualIp } = allocation;
  const { text } = address;
  if (isInUse(virtualIp)) return { reason: 'AddressInUse', message: `Another host answers for ${text}.` };
  const untilMs = freeFromMs(virtualIp, view);
  const free = `Another host answered for ${text} a moment ago.`;
  if (untilMs > view.nowMs) return { reason: 'AddressInUse', message: free, untilMs };
  const { pool } = virtualIp.spec;
  const sinceMs = view.generations.get(virtualIp.metadata.name)?.sinceMs ?? 0;
  if (view.candidates.list(pool).length === 0)
    return { ...describeNoNode(pool, text), ...waitFrom(sinceMs, view) };
  const unanswered = isProgrammed(virtualIp) ? findUnanswered(allocation, view) : null;
  if (unanswered !== null) return { ...unanswered, ...waitFrom(unanswered.sinceMs, view) };
  const behind = view.candidates.listBehind(pool, virtualIp.metadata.resourceVersion);
  const message = `${text}: nodes have not programmed it yet${behind.length === 0 ? '' : `: ${shorten(behind)}`}.`;
  // Nobody is behind: what is missing is a write of the controller's own.
  const soon = behind.length === 0 ? { untilMs: view.nowMs + maxWaitMs } : waitFrom(sinceMs, view);
  return { reason: 'WaitingForNodes', message, ...soon };
}

function waitFrom(sinceMs: number, { nowMs }: ClusterView): Pick<Remark, 'untilMs'> {
  const untilMs = Math.min(sinceMs, nowMs) + maxWaitMs;
  return untilMs > nowMs ? { untilMs } : {};
}

/** An address that is published, and does not do what it should. */
function findConflict(allocation: Allocation, { service }: Situation, view: ClusterView): Remark | null {
  const { address } = allocation;
  const { spec } = allocation.virtualIp;
  const own = spec.services.findIndex(({ uid }) => uid === service.metadata.uid);
  for (const { namespace, name } of spec.services.slice(0, Math.max(0, own))) {
    const other = view.services.get(`${namespace}/${name}`);
    const [port] = other === undefined ? [] : listCommonPorts(service, other);
    if (port === undefined) continue;
    const message = `${namespace}/${name} has ${port} of ${address.text} since before.`;
    return { reason: 'PortTaken', message, isFault: true };
  }
  return null;
}

/** An address that works, but not for all clients, or by kube-proxy's rules: nodes say so. */
const reported = {
  /** A node drops those that others send on. */
  dropping: { reason: 'ClientsDropped', clause: 'Nodes drop clients' },
  /** vipnat's rules cannot have the Service. */
  left: { reason: 'LeftToKubeProxy', clause: 'kube-proxy serves it on nodes' },
};

function findReported(
  what: keyof typeof reported,
  { virtualIp }: Allocation,
  { service: { metadata } }: Situation,
  { candidates }: ClusterView,
): Remark | null {
  const key = `${metadata.namespace}/${metadata.name}`;
  const clauses = candidates.listReporting(what, virtualIp.spec.pool, key);
  const { reason, clause } = reported[what];
  return clauses.length === 0 ? null : { reason, message: `${clause}. ${shorten(clauses)}.` };
}

/** An address that works, although what is configured says otherwise. Nothing is taken away for that. */
function findOddity(allocation: Allocation, { requests }: Situation, view: ClusterView): Remark | null {
  const { address } = allocation;
  const { spec } = allocation.virtualIp;
  const { text } = address;
  const ranges = view.judgedPools.get(spec.pool)?.ranges ?? [];
  if (!ranges.some((range) => contains(range, address))) {
    const message = `The AddressPool ${spec.pool} no longer has ${text}. The Service keeps it.`;
    return { reason: 'OutsidePool', message };
  }
  if (requests.pool !== null && requests.pool !== spec.pool) {
    const message = `The Service keeps ${text} of the AddressPool ${spec.pool}, although it asks for the pool ${quoteTenant(requests.pool)}.`;
    return { reason: 'OtherPool', message };
  }
  return spec.shareKey === requests.shareKey
    ? null
    : { reason: 'ShareKeyDiffers', message: `${text} is shared under another key. The Service keeps it.` };
}

/**
 * Whether somebody answers for an address: the node that holds its seat has it on an interface.
 *
 * Goal: who reads an address in a Service's status reaches it.
 * Tension: only the seat holder knows, nodes of an older version do not say, and a seat that moves has no seat holder for a second.
 * Compromise: no address is published before its seat holder says so. Where a node does not say such things, it is published after 10 s all the
 * same: as before, keepalived has it by then. What is published stays so, and counts as lost when nobody has held its seat for 10 s.
 */
/** keepalived takes a second or two. A seat moves in a second, with `advert: 10s` in half a minute. */
const longMs = 10_000;

/**
 * Why nobody answers for an address that nodes have programmed, since when they could have taken it, and when it is published all the same,
 * null for never. Null where somebody answers, or nobody says.
 */
function findUnanswered({ address, virtualIp }: Allocation, view: ClusterView) {
  const { text } = address;
  const { candidates, generations, nowMs } = view;
  const { metadata, spec } = virtualIp;
  const version = generations.get(metadata.name)?.version ?? metadata.resourceVersion;
  const seatHolders = candidates.listSeatHolders(spec.pool, spec.seat);
  if (seatHolders.some((one) => candidates.hasAnnounced(one, version) && one.unheld?.[text] === undefined))
    return null;
  const sinceMs = findProgrammedMs(virtualIp, view);
  const isBound = candidates.isAnyMute(spec.pool) && !areUnable(seatHolders, text);
  const boundMs = isBound ? sinceMs + longMs : null;
  if (boundMs !== null && boundMs <= nowMs) return null;
  return { ...describe(text, spec, seatHolders[0]), sinceMs, boundMs };
}

/** Since when nodes could have put it on an interface, as it is now. */
function findProgrammedMs({ metadata, status }: VirtualIp, { generations, nowMs }: ClusterView): number {
  const programmed = findCondition(status?.conditions ?? [], 'Programmed');
  const programmedMs = toMs(programmed?.lastTransitionTime, nowMs);
  return Math.min(nowMs, Math.max(generations.get(metadata.name)?.sinceMs ?? 0, programmedMs));
}

/** Nobody answers for a published address: nobody has held its seat for long, or who holds the seat cannot hold the address. */
function findLost(allocation: Allocation, view: ClusterView): Remark | null {
  const { text } = allocation.address;
  const { spec } = allocation.virtualIp;
  const seatHolders = view.candidates.listSeatHolders(spec.pool, spec.seat);
  const isLost =
    seatHolders.length === 0
      ? (findLostMs(allocation, view) ?? Infinity) <= view.nowMs
      : areUnable(seatHolders, text);
  return isLost ? { ...describe(text, spec, seatHolders[0]), isFault: true } : null;
}

function areUnable(seatHolders: readonly NodeReport[], text: string): boolean {
  return seatHolders.length > 0 && seatHolders.every(({ unheld }) => unheld?.[text] !== undefined);
}

function describe(text: string, spec: VirtualIp['spec'], seatHolder: NodeReport | undefined): Remark {
  const seat = `the seat ${spec.pool}/${spec.seat}`;
  if (seatHolder === undefined)
    return { reason: 'NoSeatHolder', message: `${text}: no living node says that it holds ${seat}.` };
  const why = seatHolder.unheld?.[text];
  const clause =
    why === undefined ? 'no interface there has the address yet' : `cannot hold the address: ${why}`;
  return { reason: 'NotAnnounced', message: `${text}: ${seatHolder.node} holds ${seat}, and ${clause}.` };
}

/** From when a published address counts as lost, because nobody holds its seat; null while somebody does. */
function findLostMs({ virtualIp: { spec, status } }: Allocation, view: ClusterView): number | null {
  const announced = findCondition(status?.conditions ?? [], 'Announced');
  if (announced?.reason !== 'NoSeatHolder') return null;
  if (view.candidates.listSeatHolders(spec.pool, spec.seat).length > 0) return null;
  return toMs(announced.lastTransitionTime, view.nowMs) + longMs;
}

/** A date that lies ahead says nothing. */
function toMs(time: string | null | undefined, nowMs: number): number {
  const ms = Date.parse(time ?? '') || 0;
  return ms > nowMs ? 0 : ms;
}
