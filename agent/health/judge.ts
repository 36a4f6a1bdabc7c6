/**
 * From what probes have shown to the state of every apiserver. Pure (I3).
 *
 * Goal: who is dead gets no new connection a moment later.
 * Tension: a probe that fails says something about the apiserver or about the prober. Slow is not dead, etcd makes
 * all of them fail at once, and a node that is cut off sees everybody else die.
 * Compromise: a refusal counts at once. Silence and a failing /readyz count as soon as another apiserver, asked
 * no earlier, has done well: that is the witness. Without one nothing changes, and people are told.
 */
import { isHeard, isWitness, timeoutsToDoubt } from '../../lib/probe/connect-history.ts';
import { endVerdict, isEndConfirmed } from './end.ts';
import { type EndpointHealth, type HealthState } from './endpoint-health.ts';
import { isSomebody } from './first-sight.ts';
import { freezeVerdict, isFreezeConfirmed } from './freeze.ts';
import { describeWarming, hasWaited, isFlapping, recentEjections } from './flapping.ts';
import { answersOnOpen, type Beside, findStale } from './silence.ts';

const unansweredToDrain = 3;
const readyToWarm = 3;

/** By then the others have been asked again, and a good one has answered. */
const witnessMs = 1000;

/** When etcd goes, apiservers fail one after the other. What may be all of theirs needs a witness that was asked this much later. */
const brownOutMs = 3000;

/** When etcd is back, apiservers are ready one after the other: on the lab the last one 10 s after the first. */
const ejectionGraceMs = 15_000;

/** One that was dead for less was not restarted: a lost packet, a full queue. */
const shortDeathMs = 1000;

/** Judges all apiservers once more, after something was seen of one of them or time has passed; `goneAt` as in Beside. */
export function judgeAll(
  all: readonly EndpointHealth[],
  now: number,
  goneAt: readonly number[] = [],
): EndpointHealth[] {
  return all.map((one) => judge(one, { others: all.filter((other) => other !== one), now, goneAt }));
}

/** Judges one that stands beside them: they are its witnesses, and it is none of theirs. */
export function judgeBeside(one: EndpointHealth, beside: Beside): EndpointHealth {
  return judge(one, beside);
}

interface Verdict {
  readonly state: HealthState;
  readonly reason: string;
}

function judge(one: EndpointHealth, beside: Beside): EndpointHealth {
  const { others, now } = beside;
  const death = findDeath(one);
  if (death !== null) {
    return judgeDeath(one, { reason: death, since: one.history.troubleSince, beside });
  }
  if (one.state === 'dead' && (one.history.connect !== 'open' || !isSomebody(one))) return one;
  if (one.history.isDrained || one.isDrained) return judgeHost(one, now);
  if (one.state === 'dead') return enter(one, comeBack(one, now), now);
  const still = findStill(one, beside);
  if (still !== null) return enter({ ...one, unconfirmedFailure: null }, still, now);
  const drain = findDrain(one);
  return drain === null
    ? enter({ ...one, unconfirmedFailure: null }, warm(one, now), now)
    : judgeDrain(one, drain, { others, now });
}

/** What speaks for its death, or null. */
function findDeath({ history }: EndpointHealth): string | null {
  const { connect, connectReason, consecutiveTimeouts } = history;
  if (connect === 'open' || connect === 'unknown') return null;
  return consecutiveTimeouts === 0 || consecutiveTimeouts >= timeoutsToDoubt ? connectReason : null;
}

/** What its process comes to by what it no longer does, or null. */
function findStill(one: EndpointHealth, { others, now }: Beside): Verdict | null {
  if (isEndConfirmed(one, others)) return endVerdict;
  return isFreezeConfirmed(one, others, now) ? freezeVerdict : null;
}

interface Case {
  readonly reason: string;
  readonly since: number;
  readonly beside: Beside;
}

function judgeDeath(one: EndpointHealth, { reason, since, beside }: Case): EndpointHealth {
  const { others, now } = beside;
  if (needsNoWitness(one, others)) return die(one, reason, beside);
  const { consecutiveTimeouts } = one.history;
  if (!others.some((other) => !other.isLocal && isWitness(other.history, since))) {
    // A refusal is answered before the others are asked again.
    if (consecutiveTimeouts === 0 && now - since < witnessMs) return one;
    return suspect(one, `${reason}. No apiserver on another host answers: this node may be cut off`, now);
  }
  return one.unconfirmedFailure !== null && consecutiveTimeouts > 0
    ? forget(one, now)
    : die(one, reason, beside);
}

/** One whose host is drained, or was until now. That is an operator's word, and needs no witness. */
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
  { reason, since, isPardoned }: Drain,
  { others, now }: Pick<Beside, 'others' | 'now'>,
): EndpointHealth {
  if (isPardoned && now < one.ejectionGraceUntil) return one;
  const witnesses = others.filter((other) => other.state !== 'dead' && other.history.readyAt >= since);
  if (witnesses.length === 0) {
    if (now - since < witnessMs) return one;
    return suspect(one, `${reason}, and no other apiserver is ready`, now);
  }
  return isRecovery(one, witnesses, now)
    ? forget(one, now)
    : enter({ ...one, unconfirmedFailure: null }, { state: 'draining', reason }, now);
}

/** Whether a witness recovered. A witness first probed after the failure began, such as a fallback endpoint, may have been healthy throughout. */
function isRecovery(
  { unconfirmedFailure }: EndpointHealth,
  witnesses: readonly EndpointHealth[],
  now: number,
): boolean {
  if (unconfirmedFailure === null || now - unconfirmedFailure.since <= witnessMs) return false;
  return witnesses.some(({ metAt }) => metAt <= unconfirmedFailure.since);
}

function suspect(one: EndpointHealth, reason: string, now: number): EndpointHealth {
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
      silentMs: 0,
      unanswered: 0,
      failure: null,
      isFrozen: false,
      isEnded: false,
    },
  };
}

/** Refusals are certain, and one's own host is reached without a network, but not past its connection table. */
function needsNoWitness(one: EndpointHealth, others: readonly EndpointHealth[]): boolean {
  if (one.state === 'dead' || one.history.connect === 'refused') return true;
  if (answersOnOpen(one.history)) return false;
  if (one.isLocal) return true;
  return !others.some((other) => !other.isLocal && (other.state !== 'dead' || isHeard(other.history)));
}

function die(one: EndpointHealth, reason: string, beside: Beside): EndpointHealth {
  const stale = findStale(one, beside);
  return {
    ...enter(one, { state: 'dead', reason }, beside.now),
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
  /** A witness was asked no earlier. */
  readonly since: number;
  /** Whether it counts for nothing directly after a time in which it was so with all of them. */
  readonly isPardoned: boolean;
}

/** What speaks against new connections, or null. */
function findDrain({ history }: EndpointHealth): Drain | null {
  const { failure, failureAt, failureCause, unanswered, unansweredSince } = history;
  if (failure !== null) {
    // A stranger gets nothing while another apiserver is known by its certificate. The CA or the clock of this host may have been wrong, too.
    const since = failureAt + (failureCause === 'other' ? brownOutMs : 0);
    return { reason: failure, since, isPardoned: failureCause !== 'shutdown' };
  }
  if (unanswered < unansweredToDrain) return null;
  const reason = `it left ${unansweredToDrain} requests in a row unanswered`;
  return { reason, since: unansweredSince + brownOutMs, isPardoned: true };
}

function warm(one: EndpointHealth, now: number): Verdict {
  const { state, reason, history } = one;
  if (state === 'ready') return { state, reason };
  const isWarm = history.readyAnswers >= readyToWarm;
  if (state === 'warming') {
    const warmed: Verdict = { state: 'ready', reason: `${readyToWarm} good answers` };
    return isWarm && hasWaited(one, now) ? warmed : { state, reason };
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
