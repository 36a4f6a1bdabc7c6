/**
 * From what probes have shown to the state of every apiserver. Pure (I3).
 *
 * Goal: who is dead gets no new connection a moment later.
 * Tension: a probe that fails says something about the apiserver or about the prober. Slow is not dead, etcd makes
 * all of them fail at once, and a node that is cut off sees everybody else die.
 * Compromise: a refusal counts at once. Silence and a failing /readyz count as soon as another apiserver, asked
 * no earlier, has done well: that is the witness. Without one nothing changes, and people are told.
 */
import { type EndpointHealth, type HealthState, type Symptoms } from './endpoint-health.ts';
import { isSomebody } from './first-sight.ts';

/** A lost packet is nothing, and two in a row are rare: with 1 % of loss one pair of connects in 2,500. */
const unheardConnectsToDie = 2;

/** Then the packets of open connections vanish too, and their clients would wait for minutes. */
const unheardConnectsToBeLost = 4;

const unansweredToDrain = 3;
const readyToWarm = 3;

/** By then the others have been asked again, and a good one has answered. */
const witnessMs = 1000;

/** When etcd goes, apiservers fail one after the other. What may be all of theirs needs a witness that was asked this much later. */
const brownOutMs = 3000;

/** When etcd is back, apiservers are ready one after the other: on the lab the last one 10 s after the first. */
const pardonMs = 15_000;

/** One that was dead for less was not restarted: a lost packet, a full queue. */
const shortDeathMs = 1000;

/** More falls than this within the time, and it has to be good for longer: every fall and return rewrites the rules. */
const maxFalls = 3;
const fallMemoryMs = 60_000;
const flappingWarmMs = 30_000;

/** Judges all apiservers once more, after something was seen of one of them or time has passed. */
export function judgeAll(all: readonly EndpointHealth[], now: number): EndpointHealth[] {
  return all.map((one) =>
    judge(
      one,
      all.filter((other) => other !== one),
      now,
    ),
  );
}

/** Judges one that stands beside them: they are its witnesses, and it is none of theirs. */
export function judgeBeside(
  one: EndpointHealth,
  others: readonly EndpointHealth[],
  now: number,
): EndpointHealth {
  return judge(one, others, now);
}

/** Whether it is kept in use although its packets vanish: no other host is heard either. */
export function isUnheard(one: EndpointHealth): boolean {
  return one.state !== 'dead' && one.suspicion !== null && hasVanished(one);
}

/** Its connections too: neither new ones nor, since those are not, a question on the open one are answered. */
function hasVanished({ symptoms }: EndpointHealth): boolean {
  return symptoms.unheard >= unheardConnectsToBeLost && !answersOnOpen(symptoms);
}

/**
 * Whether only new connections vanish: a connection table that is full drops them here, and a firewall anywhere. What
 * is open lives.
 */
function answersOnOpen({ unheard, unanswered, answeredAt, troubleSince }: Symptoms): boolean {
  return unheard > 0 && unanswered === 0 && answeredAt >= troubleSince;
}

interface Verdict {
  readonly state: HealthState;
  readonly reason: string;
}

function judge(one: EndpointHealth, others: readonly EndpointHealth[], now: number): EndpointHealth {
  const death = findDeath(one);
  if (death !== null) {
    return judgeDeath(one, { reason: death, since: one.symptoms.troubleSince, others, now });
  }
  if (one.state === 'dead') {
    return one.symptoms.connect === 'open' && isSomebody(one) ? enter(one, comeBack(one, now), now) : one;
  }
  const drain = findDrain(one);
  return drain === null
    ? enter({ ...one, suspicion: null }, warm(one, now), now)
    : judgeDrain(one, drain, { others, now });
}

/** What speaks for its death, or null. */
function findDeath({ symptoms }: EndpointHealth): string | null {
  const { connect, connectReason, unheard } = symptoms;
  if (connect === 'open' || connect === 'unknown') return null;
  return unheard === 0 || unheard >= unheardConnectsToDie ? connectReason : null;
}

interface Case {
  readonly reason: string;
  readonly since: number;
  readonly others: readonly EndpointHealth[];
  readonly now: number;
}

function judgeDeath(one: EndpointHealth, { reason, since, others, now }: Case): EndpointHealth {
  if (needsNoWitness(one, others)) return die(one, reason, now);
  const { unheard } = one.symptoms;
  if (!others.some((other) => !other.isLocal && isHeard(other) && other.symptoms.heardAt >= since)) {
    // A refusal is answered before the others are asked again.
    if (unheard === 0 && now - since < witnessMs) return one;
    return suspect(one, `${reason}, nor does any apiserver on another host answer: this side's fault`, now);
  }
  return one.suspicion !== null && unheard > 0 ? forget(one, now) : die(one, reason, now);
}

function judgeDrain(
  one: EndpointHealth,
  { reason, since, isOwn }: Drain,
  { others, now }: Pick<Case, 'others' | 'now'>,
): EndpointHealth {
  if (!isOwn && now < one.pardonedUntil) return one;
  const witnesses = others.filter((other) => other.state !== 'dead' && other.symptoms.readyAt >= since);
  if (witnesses.length === 0) {
    if (now - since < witnessMs) return one;
    return suspect(one, `${reason}, and no other apiserver does better`, now);
  }
  return isRecovery(one, witnesses, now)
    ? forget(one, now)
    : enter({ ...one, suspicion: null }, { state: 'draining', reason }, now);
}

/** Whether somebody does well who did not: one that was asked only since (a reserve) may have done well all the time. */
function isRecovery(
  { suspicion }: EndpointHealth,
  witnesses: readonly EndpointHealth[],
  now: number,
): boolean {
  if (suspicion === null || now - suspicion.since <= witnessMs) return false;
  return witnesses.some(({ metAt }) => metAt <= suspicion.since);
}

function suspect(one: EndpointHealth, reason: string, now: number): EndpointHealth {
  return { ...one, suspicion: { reason, since: one.suspicion?.since ?? now } };
}

/** After a time in which nobody did well somebody does: what was seen before says nothing, so it is counted anew. */
function forget(one: EndpointHealth, now: number): EndpointHealth {
  const { symptoms } = one;
  return {
    ...one,
    suspicion: null,
    pardonedUntil: now + pardonMs,
    symptoms: { ...symptoms, connect: 'unknown', unheard: 0, unanswered: 0, failure: null },
  };
}

/** Refusals are certain, and one's own host is reached without a network, but not past its connection table. */
function needsNoWitness(one: EndpointHealth, others: readonly EndpointHealth[]): boolean {
  if (one.state === 'dead' || one.symptoms.connect === 'refused') return true;
  if (answersOnOpen(one.symptoms)) return false;
  if (one.isLocal) return true;
  return !others.some((other) => !other.isLocal && (other.state !== 'dead' || isHeard(other)));
}

function isHeard({ symptoms }: EndpointHealth): boolean {
  return symptoms.connect === 'open' || symptoms.connect === 'refused';
}

function die(one: EndpointHealth, reason: string, now: number): EndpointHealth {
  const isLost = one.isLost || hasVanished(one);
  return { ...enter(one, { state: 'dead', reason }, now), suspicion: null, isLost };
}

function comeBack(one: EndpointHealth, now: number): Verdict {
  const deadMs = now - one.since;
  const wasInUse = one.falls.at(-1) === one.since;
  return wasInUse && deadMs < shortDeathMs && findDrain(one) === null && !isFlapping(one, now)
    ? { state: 'ready', reason: `answers again after ${Math.round(deadMs)} ms` }
    : { state: 'warming', reason: describeWarming(one, now, 'accepts connections again') };
}

interface Drain {
  readonly reason: string;
  /** A witness was asked no earlier. */
  readonly since: number;
  /** Whether it is this apiserver's own affair, whatever the others do. */
  readonly isOwn: boolean;
}

/** What speaks against new connections, or null. */
function findDrain({ symptoms }: EndpointHealth): Drain | null {
  const { failure, failureAt, isOwnFailure, unanswered, unansweredSince } = symptoms;
  if (failure !== null) {
    return { reason: failure, since: failureAt + (isOwnFailure ? 0 : brownOutMs), isOwn: isOwnFailure };
  }
  if (unanswered < unansweredToDrain) return null;
  const reason = `has left ${unansweredToDrain} questions on end unanswered`;
  return { reason, since: unansweredSince + brownOutMs, isOwn: false };
}

function warm(one: EndpointHealth, now: number): Verdict {
  const { state, reason, symptoms } = one;
  if (state === 'ready') return { state, reason };
  const isWarm = symptoms.readyAnswers >= readyToWarm;
  const hasWaited = !isFlapping(one, now) || now - one.since >= flappingWarmMs;
  if (state === 'warming') {
    return isWarm && hasWaited ? { state: 'ready', reason: `${readyToWarm} good probes` } : { state, reason };
  }
  return symptoms.readyAnswers > 0
    ? { state: 'warming', reason: describeWarming(one, now, '/readyz answers ok again') }
    : { state, reason };
}

function describeWarming(one: EndpointHealth, now: number, news: string): string {
  const count = recentFalls(one, now).length;
  return isFlapping(one, now)
    ? `${news}, but it fell ${count} times within ${fallMemoryMs / 1000} s: back after ${flappingWarmMs / 1000} s without a fall`
    : news;
}

function isFlapping(one: EndpointHealth, now: number): boolean {
  return recentFalls(one, now).length > maxFalls;
}

function recentFalls({ falls }: EndpointHealth, now: number): number[] {
  return falls.filter((atMs) => now - atMs < fallMemoryMs);
}

/** The same object's state and time stay when nothing changes. */
function enter(one: EndpointHealth, { state, reason }: Verdict, now: number): EndpointHealth {
  if (one.state === state) return one;
  const isFall = one.state === 'ready';
  return {
    ...one,
    state,
    reason,
    since: now,
    isLost: false,
    falls: isFall ? [...recentFalls(one, now), now] : one.falls,
  };
}
