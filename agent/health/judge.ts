import { timeoutsToFailure, isCorroborating, isAnswered } from '../../lib/http/client.ts';
import type { ProbeHistory } from './apiserver.ts';
import type { Endpoint } from '../../lib/net.ts';

/**
 * From what probes have shown to the state of every apiserver. Pure (I3).
 *
 * Goal: a dead apiserver gets no new connection a moment later.
 * Tension: a probe that fails says something about the apiserver or about the prober. Slow is not dead, etcd makes
 * all of them fail at the same time, and a node that is cut off sees all others die.
 * Compromise: a refusal counts immediately. A missing answer and a failing /readyz count as soon as another apiserver, asked
 * no earlier, has answered well: that corroborates it. Without corroboration nothing changes, and the agent reports it.
 */

const unansweredToDrain = 3;
const readyToWarm = 3;

/** By then the others have been asked again, and a good one has answered. */
const corroborationMs = 1000;

/** When etcd goes, apiservers fail one after the other. What may be a failure of all counts only with corroboration this much later. */
const brownOutMs = 3000;

/** When etcd is back, apiservers are ready one after the other: on the lab the last one 10 s after the first. */
const ejectionGraceMs = 15_000;

/** One that was dead for less was not restarted: a lost packet, a full queue. */
const shortDeathMs = 1000;

/** Judges all apiservers once more, after something was seen of one of them or time has passed; `goneAt` as in Peers. */
export function judgeAll(
  all: readonly EndpointHealth[],
  now: number,
  goneAt: readonly number[] = [],
): EndpointHealth[] {
  return all.map((one) => judge(one, { others: all.filter((other) => other !== one), now, goneAt }));
}

/** A state, and what brings an apiserver into it. */
export type Verdict = Pick<EndpointHealth, 'state' | 'reason'>;

/** Judges one by its peers, which can corroborate its failure. */
export function judge(one: EndpointHealth, peers: Peers): EndpointHealth {
  const { now } = peers;
  const death = findDeath(one);
  if (death !== null) return judgeDeath(one, death, peers);
  if (one.state === 'dead' && (one.history.connect !== 'open' || !isSomebody(one))) return one;
  if (one.history.isDrained || one.isDrained) return judgeHost(one, now);
  if (one.state === 'dead') return enter(one, comeBack(one, now), now);
  const still = findStill(one, peers);
  if (still !== null) return enter({ ...one, unconfirmedFailure: null }, still, now);
  const drain = findDrain(one);
  return drain === null
    ? enter({ ...one, unconfirmedFailure: null }, warm(one, now), now)
    : judgeDrain(one, drain, peers);
}

function findDeath({ history }: EndpointHealth): string | null {
  const { connect, connectReason, consecutiveTimeouts } = history;
  if (connect === 'open' || connect === 'unknown') return null;
  return consecutiveTimeouts === 0 || consecutiveTimeouts >= timeoutsToFailure ? connectReason : null;
}

/** What its process comes to by what it no longer does, or null. */
function findStill(one: EndpointHealth, { others, now }: Peers): Verdict | null {
  if (isEndConfirmed(one, others)) return endVerdict;
  return isFreezeConfirmed(one, others, now) ? freezeVerdict : null;
}

function judgeDeath(one: EndpointHealth, reason: string, peers: Peers): EndpointHealth {
  const { others, now } = peers;
  if (needsNoPeer(one, others)) return die(one, reason, peers);
  const { consecutiveTimeouts, troubleSince: since } = one.history;
  if (!others.some((other) => !other.isLocal && isCorroborating(other.history, since))) {
    // A refusal is answered before the others are asked again.
    if (consecutiveTimeouts === 0 && now - since < corroborationMs) return one;
    return keepUncorroborated(
      one,
      `${reason}. No apiserver on another host answers: this node may be cut off`,
      now,
    );
  }
  return one.unconfirmedFailure !== null && consecutiveTimeouts > 0
    ? forget(one, now)
    : die(one, reason, peers);
}

/** One whose host is drained, or was until now. An operator did that, so it needs no corroboration. */
function judgeHost(one: EndpointHealth, now: number): EndpointHealth {
  const { isDrained } = one.history;
  const sound = { ...one, isDrained, unconfirmedFailure: null };
  if (isDrained && one.isDrained) return sound;
  const verdict: Verdict = isDrained
    ? { state: 'draining', reason: 'its host is drained' }
    : { state: 'warming', reason: describeWarming(one, now, 'its host is no longer drained') };
  // Also where it was draining for another reason before.
  return { ...enter(sound, verdict, now), reason: verdict.reason };
}

function judgeDrain(
  one: EndpointHealth,
  { reason, since, isGraceful }: Drain,
  { others, now }: Peers,
): EndpointHealth {
  if (isGraceful && now < one.ejectionGraceUntil) return one;
  const corroborating = others.filter((other) => other.state !== 'dead' && other.history.readyAt >= since);
  if (corroborating.length === 0) {
    if (now - since < corroborationMs) return one;
    return keepUncorroborated(one, `${reason}, and no other apiserver is ready`, now);
  }
  return isRecovery(one, corroborating, now)
    ? forget(one, now)
    : enter({ ...one, unconfirmedFailure: null }, { state: 'draining', reason }, now);
}

/** Whether one of these recovered: one first probed after the failure began may have been well throughout. */
function isRecovery(
  { unconfirmedFailure }: EndpointHealth,
  corroborating: readonly EndpointHealth[],
  now: number,
): boolean {
  if (unconfirmedFailure === null || now - unconfirmedFailure.since <= corroborationMs) return false;
  return corroborating.some(({ metAt }) => metAt <= unconfirmedFailure.since);
}

function keepUncorroborated(one: EndpointHealth, reason: string, now: number): EndpointHealth {
  return { ...one, unconfirmedFailure: { reason, since: one.unconfirmedFailure?.since ?? now } };
}

/** Resets the history after a time in which every apiserver failed: results from that time prove nothing about one of them. */
function forget(one: EndpointHealth, now: number): EndpointHealth {
  const { history } = one;
  return {
    ...one,
    unconfirmedFailure: null,
    ejectionGraceUntil: now + ejectionGraceMs,
    history: {
      ...history,
      connect: 'unknown',
      consecutiveTimeouts: 0,
      unansweredMs: 0,
      unanswered: 0,
      failure: null,
      isFrozen: false,
      isEnded: false,
    },
  };
}

/** Refusals are certain, and one's own host is reached without a network, but not past its connection table. */
function needsNoPeer(one: EndpointHealth, others: readonly EndpointHealth[]): boolean {
  if (one.state === 'dead' || one.history.connect === 'refused') return true;
  if (answersOnOpen(one.history)) return false;
  if (one.isLocal) return true;
  return !others.some((other) => !other.isLocal && (other.state !== 'dead' || isAnswered(other.history)));
}

function die(one: EndpointHealth, reason: string, peers: Peers): EndpointHealth {
  const stale = findStale(one, peers);
  return {
    ...enter(one, { state: 'dead', reason }, peers.now),
    unconfirmedFailure: null,
    isDrained: false,
    ...stale,
  };
}

function comeBack(one: EndpointHealth, now: number): Verdict {
  const deadMs = now - one.since;
  const wasInUse = one.ejections.at(-1) === one.since;
  return wasInUse && deadMs < shortDeathMs && findDrain(one) === null && !isFlapping(one, now)
    ? { state: 'ready', reason: `answers again after ${Math.round(deadMs)} ms` }
    : { state: 'warming', reason: describeWarming(one, now, 'accepts connections again') };
}

interface Drain {
  readonly reason: string;
  /** Corroboration counts if it was asked for no earlier. */
  readonly since: number;
  /** Whether it counts for nothing directly after a time in which it was so with all of them. */
  readonly isGraceful: boolean;
}

/** Why it is to get no new connections, or null. */
function findDrain({ history }: EndpointHealth): Drain | null {
  const { failure, failureAt, failureCause, unanswered, unansweredSince } = history;
  if (failure !== null) {
    // Another server gets nothing while another apiserver is known by its certificate. This host's CA or clock may have been wrong, too.
    const since = failureAt + (failureCause === 'other' ? brownOutMs : 0);
    return { reason: failure, since, isGraceful: failureCause !== 'shutdown' };
  }
  if (unanswered < unansweredToDrain) return null;
  const reason = `it left ${unansweredToDrain} requests in a row unanswered`;
  return { reason, since: unansweredSince + brownOutMs, isGraceful: true };
}

function warm(one: EndpointHealth, now: number): Verdict {
  const { state, reason, history } = one;
  if (state === 'ready') return { state, reason };
  const isWarm = history.readyAnswers >= readyToWarm;
  if (state === 'warming') {
    const warmed: Verdict = { state: 'ready', reason: `${readyToWarm} good answers` };
    const hasWaited = !isFlapping(one, now) || now - one.since >= flappingWarmMs;
    return isWarm && hasWaited ? warmed : { state, reason };
  }
  return history.readyAnswers > 0
    ? { state: 'warming', reason: describeWarming(one, now, '/readyz answers ok again') }
    : { state, reason };
}

/** The same object's state and time stay when nothing changes. */
function enter(one: EndpointHealth, { state, reason }: Verdict, now: number): EndpointHealth {
  if (one.state === state) return one;
  const isEjection = one.state === 'ready';
  return {
    ...one,
    state,
    reason,
    since: now,
    hasStaleConnections: false,
    ejections: isEjection ? [...recentEjections(one, now), now] : one.ejections,
  };
}

/**
 * Whether an apiserver whose process has closed the connections of its probes may be taken out of use for it.
 *
 * Goal: a process that ends gets no new connection that its kernel still accepts.
 * Tension: until the kernel closes the listener, it accepts connects, and resets them later. So no connect shows the end. But what
 * closes connections may be the network.
 * Compromise: two connections that were well for seconds are closed within a tenth of a second, and another apiserver is ready.
 * It is out only until it answers a question again.
 */

/** What an apiserver comes to by a confirmed end. */
export const endVerdict = {
  state: 'draining',
  reason: 'its process closed both connections of the probes',
} as const;

/** What closes connections on the path closes each at its next packet. The last question is a second old at most. */
const sharedMs = 1000;

/** So long after an end, a refused connect would have followed. */
const lastingMs = 1000;

/**
 * Whether an end was seen, and another apiserver can take over, on another host if there is any. Not if those of several hosts are seen
 * together: the first one alone counts until its host refuses connects. Pure.
 */
function isEndConfirmed(one: EndpointHealth, all: readonly EndpointHealth[]): boolean {
  if (!one.history.isEnded) return false;
  // A process may have an endpoint of each family, and none replaces one of the other family.
  const others = all.filter(({ endpoint }) => endpoint.family === one.endpoint.family);
  if (others.some((other) => isShared(one, other))) return false;
  const corroborating = others.filter(
    ({ state, unconfirmedFailure, history: { connect, isEnded } }) =>
      state === 'ready' && unconfirmedFailure === null && connect === 'open' && !isEnded,
  );
  if (corroborating.some((peer) => one.isLocal || !peer.isLocal)) return true;
  return corroborating.length > 0 && !others.some((other) => !other.isLocal && other.state !== 'dead');
}

/** Whether an end has lasted: its host accepts connects, and nothing has answered on them. Pure. */
export function isEndLasting({ history: { isEnded, endedAt, connectedAt } }: EndpointHealth): boolean {
  return isEnded && connectedAt - endedAt >= lastingMs;
}

/** Whether the network between may have closed the connections of both. */
function isShared(one: EndpointHealth, other: EndpointHealth): boolean {
  const isRemote = !one.isLocal && !other.isLocal;
  const betweenMs = Math.abs(one.history.endedAt - other.history.endedAt);
  return isRemote && other.history.connect === 'open' && betweenMs <= sharedMs;
}

/**
 * Whether an apiserver whose process answers nothing may be taken out of use for it.
 *
 * Goal: a frozen apiserver is out within three seconds.
 * Tension: so short a time without answers can have many causes. Some of them, as a network or a hypervisor that stalls, meet several
 * apiservers.
 * Compromise: it counts if another apiserver answered well and within a second all the time. One that did not answer either,
 * is slow or recovers corroborates nothing. Without corroboration nothing changes: three questions without an answer decide, as ever.
 */

/** What an apiserver comes to by a confirmed freeze. */
export const freezeVerdict = {
  state: 'draining',
  reason: 'its host accepts connections, but its process answers nothing on them for 2.5 s',
} as const;

/** What stalls several of them has reached the others by then. The questions of the next second and a half are answered in time. */
const corroborationLagMs = 1000;

/** Whether a freeze was seen, and another apiserver that answered all the time corroborates it. Pure. */
function isFreezeConfirmed(one: EndpointHealth, others: readonly EndpointHealth[], now: number): boolean {
  const { isFrozen, frozenSince } = one.history;
  if (!isFrozen || one.unconfirmedFailure !== null || now < one.ejectionGraceUntil) return false;
  const corroborating = others.filter((other) => isPromptThroughout(other, frozenSince));
  if (corroborating.some((peer) => one.isLocal || !peer.isLocal)) return true;
  // The apiserver on this host says nothing about the network. It has to do where no other host can be asked.
  return corroborating.length > 0 && !others.some((other) => !other.isLocal && isLeftToAsk(other));
}

function isPromptThroughout({ state, history }: EndpointHealth, since: number): boolean {
  const { isFrozen, promptSince, promptAt } = history;
  return state !== 'dead' && !isFrozen && promptSince <= since && promptAt >= since + corroborationLagMs;
}

function isLeftToAsk({ state, history }: EndpointHealth): boolean {
  return state !== 'dead' && !(state === 'draining' && history.isFrozen);
}

/**
 * What an apiserver that answers no connect comes to, in addition to getting no new connection.
 *
 * Goal: whose host is gone has its open connections reset, so that clients connect again.
 * Tension: a reset cannot be taken back. A full accept queue, a guest that is stunned and a network that fails over look the
 * same for seconds, and TCP continues after each. If it meets several apiservers at the same time, the network is the likelier cause.
 * Compromise: open connections wait until nothing of that explains the missing answers. Those of one half of the apiservers wait longer.
 */

/** A second. By then a question on the open connection has been asked, too. */
const timeoutsToUnresponsive = 4;

/**
 * A link that is bonded by LACP fails over within 3 s (IEEE 802.1AX, short timeout), and a guest is stunned for up to 2 s by a snapshot.
 * After both a SYN may wait for a second (RFC 6298).
 */
const certainMs = 5000;

/** Milliseconds in which half of the apiservers lose their open connections at most. The other half does not answer for longer first. */
export const lossWindowMs = 60_000;
const certainLossMs = 30_000;

/** Whether it is kept in use although its packets vanish: no other host answers either. Pure. */
export function isUnresponsive(one: EndpointHealth): boolean {
  return one.state !== 'dead' && one.unconfirmedFailure !== null && isUnanswering(one.history);
}

/** Whether it has not answered for so long that nothing but a loss explains it: its host's, or this host's of all others. Pure. */
export function isLost({ history }: Pick<EndpointHealth, 'history'>): boolean {
  return isUnanswering(history) && history.unansweredMs >= certainMs;
}

/** Whose losses count in addition to its own. */
interface Peers {
  readonly others: readonly EndpointHealth[];
  readonly now: number;
  /** When those who are listed no more lost theirs lately. */
  readonly goneAt: readonly number[];
}

/** Whether its open connections are lost, and when that was found. Pure. */
function findStale({ hasStaleConnections, staleAt, history }: EndpointHealth, peers: Peers) {
  return hasStaleConnections || !isLost({ history }) || isDeferred(history, peers)
    ? { hasStaleConnections, staleAt }
    : { hasStaleConnections: true, staleAt: peers.now };
}

/** Whether half of all have lost theirs lately. */
function isDeferred({ unansweredMs }: ProbeHistory, { others, now, goneAt }: Peers): boolean {
  const lossesAt = [...others.map(({ staleAt }) => staleAt), ...goneAt];
  const lately = lossesAt.filter((at) => now - at < lossWindowMs).length;
  const half = Math.max(1, Math.floor((lossesAt.length + 1) / 2));
  return lately >= half && unansweredMs < certainLossMs;
}

/** Its connections too: neither new ones nor, since those are not, a question on the open one are answered. */
function isUnanswering(history: ProbeHistory): boolean {
  return history.consecutiveTimeouts >= timeoutsToUnresponsive && !answersOnOpen(history);
}

/** Whether only new connections vanish, in a full connection table or a firewall, and open ones live. Pure. */
function answersOnOpen({ consecutiveTimeouts, unanswered, answeredAt, troubleSince }: ProbeHistory): boolean {
  return consecutiveTimeouts > 0 && unanswered === 0 && answeredAt >= troubleSince;
}

/** More ejections than this within the time, and it has to be good for longer: every ejection and return rewrites the rules. */
const maxEjections = 3;
const ejectionMemoryMs = 60_000;
const flappingWarmMs = 30_000;

/** Whether it fell out of use so often lately that it has to be good for longer. Pure. */
function isFlapping(one: EndpointHealth, now: number): boolean {
  return recentEjections(one, now).length > maxEjections;
}

/** When it fell out of use within the time that counts, oldest first. Pure. */
function recentEjections({ ejections }: EndpointHealth, now: number): number[] {
  return ejections.filter((atMs) => now - atMs < ejectionMemoryMs);
}

/** Why one is warming: the news, and what it has to wait for. Pure. */
function describeWarming(one: EndpointHealth, now: number, news: string): string {
  const count = recentEjections(one, now).length;
  return isFlapping(one, now)
    ? `${news}, but it failed ${count} times within ${ejectionMemoryMs / 1000} s. It becomes ready after ${flappingWarmMs / 1000} s without a failure`
    : news;
}

/** Whether it is known to be an apiserver: what listens where nobody names one may be anything, until it has answered well. Pure. */
function isSomebody({ isOwn, history }: EndpointHealth): boolean {
  return !isOwn || history.readyAt !== -Infinity;
}

/**
 * How an apiserver is: `ready` gets new connections; `warming` has not been good for long enough to get them;
 * `draining` accepts and says that it should get none; `dead` accepts none.
 */
export const healthStates = ['ready', 'warming', 'draining', 'dead'] as const;

/** One of healthStates. */
export type HealthState = (typeof healthStates)[number];

/** What looks bad, and since when it does. */
export type UnconfirmedFailure = Pick<EndpointHealth, 'reason' | 'since'>;

/** One apiserver's health. Never changed in place. */
export interface EndpointHealth {
  readonly endpoint: Endpoint;
  /** Since when it is probed. */
  readonly metAt: number;
  /** Whether it is on this host: it says nothing about the network. */
  readonly isLocal: boolean;
  /** Whether nobody names it: it is where this host's own apiserver would be, see `Watched`. */
  readonly isOwn: boolean;
  readonly state: HealthState;
  /** One phrase for people: what brought it into this state. */
  readonly reason: string;
  /** When it came into this state. */
  readonly since: number;
  /** Whether it is draining because its host is drained (`vipnat drain`). */
  readonly isDrained: boolean;
  /** Looks bad in a manner that only this agent may see: its state stays, and the agent reports it. Null when nothing looks bad. */
  readonly unconfirmedFailure: UnconfirmedFailure | null;
  /** Until when a bad answer does not count: after a time in which none was healthy they do not all recover at the same time. */
  readonly ejectionGraceUntil: number;
  /** Dead, and without an answer for so long that its connections are lost: they are to be reset. */
  readonly hasStaleConnections: boolean;
  /** When that was last found, also of a death before. */
  readonly staleAt: number;
  readonly history: ProbeHistory;
  /** When it fell out of use lately, oldest first. */
  readonly ejections: readonly number[];
}

/** Whether nothing speaks against it, and a question that was asked since was answered well. Pure. */
export function isWell({ state, unconfirmedFailure, history }: EndpointHealth, since = -Infinity): boolean {
  const isUsable = state === 'ready' || state === 'warming';
  return isUsable && unconfirmedFailure === null && (since === -Infinity || history.readyAt > since);
}

/** Whether a change cannot wait for the next sync: connections go to, or hang on, an apiserver that does not answer. */
export function isUrgent(before: EndpointHealth, after: EndpointHealth): boolean {
  const isEjection = before.state === 'ready' && after.state !== 'ready';
  return isEjection || (after.hasStaleConnections && !before.hasStaleConnections);
}
