/**
 * Whether a node does not answer, by what connects to it have shown. Pure.
 *
 * Goal: a dead node's pods get no new connection within a second.
 * Tension: silence is the node's, or this host's own network's; packets are lost, and links are away for a second or two.
 * Compromise: two silences in a row count, if another node was heard in between (ADR 10): this host's network worked. Open connections wait
 * for seconds: their clients repeat what is lost when the node is back, and a connection that is cut ends for good.
 *
 * A node that was away for 12 s may have started again. It answers long before its pods run, and until its kubelet has said so Kubernetes calls
 * its former pods ready. So it is back when its balancer has reported: that is a pod of the same kubelet.
 */
import {
  addConnect,
  type ConnectHistory,
  emptyConnects,
  isWitness,
  timeoutsToDoubt,
} from '../../lib/probe/connect-history.ts';

/** What is known of one node. Never changed in place. */
export interface NodeState {
  readonly history: ConnectHistory;
  /** Whether it ever answered at this address: otherwise a firewall may drop what is sent there. */
  readonly hasAnswered: boolean;
  /** Connects in a row that it answered. */
  readonly consecutiveAnswers: number;
  /** Since when it does not answer, if it is out of use: when the first silent connect was begun. */
  readonly outSince: number | null;
  /** Out, and silent for so long that its open connections are lost. */
  readonly isLost: boolean;
  /** When the first of the answers in a row was begun; null while it does not answer. */
  readonly answersSince: number | null;
  /** When its balancer was seen to have reported since the node answers; null before. */
  readonly reportedAt: number | null;
}

/** Of a node that was not asked yet. */
export const unknownNode: NodeState = {
  history: emptyConnects,
  hasAnswered: false,
  consecutiveAnswers: 0,
  outSince: null,
  isLost: false,
  answersSince: null,
  reportedAt: null,
};

/** A node that has not answered so many connects at first does not at all. */
const neverConnects = 8;

/** As many as silences take it out. */
const answersToReturn = 2;

/** A switch that chooses its ways anew, a bond that changes its link, a virtual machine that moves: some seconds at most. */
const lostMs = 5000;

/** A machine that starts again is silent for longer. One that was only slow, or cut off, is back with its answers. */
const restartMs = 12_000;

/** What a kubelet says of its pods at its start is in the EndpointSlices of all nodes by then. */
const settleMs = 3000;

/** Kubernetes marks a node that reports nothing as not ready after 50 s: then its pods' state is Kubernetes' word. */
const patienceMs = 60_000;

/** One connect to it. */
export interface NodeAnswer {
  readonly isHeard: boolean;
  readonly askedAt: number;
  /** See `hasWitness`, as of when it was begun. */
  readonly wasWitnessed: boolean;
}

/** Adds an answer, or that there was none. */
export function addAnswer(before: NodeState, answer: NodeAnswer, now: number): NodeState {
  const { isHeard, askedAt } = answer;
  const result = isHeard ? ({ kind: 'open' } as const) : ({ kind: 'silent', reason: '' } as const);
  const state = {
    ...before,
    history: addConnect(before.history, result, askedAt),
    hasAnswered: before.hasAnswered || isHeard,
    consecutiveAnswers: isHeard ? before.consecutiveAnswers + 1 : 0,
    answersSince: isHeard ? (before.answersSince ?? askedAt) : null,
    reportedAt: isHeard ? before.reportedAt : null,
  };
  return isHeard ? judgeReturn(state, now) : judgeSilence(state, answer, now);
}

/** Adds that the balancer of a node has reported since the node answers. The next answer may bring it back. */
export function addReport(before: NodeState, now: number): NodeState {
  return { ...before, reportedAt: before.reportedAt ?? now };
}

/** Whether a node that was away for so long that it may have started again answers, and is out until its balancer reports. */
export function isReturning({ isLost, consecutiveAnswers, outSince, answersSince }: NodeState): boolean {
  const silentMs = (answersSince ?? 0) - (outSince ?? 0);
  return isLost && consecutiveAnswers >= answersToReturn && silentMs >= restartMs;
}

/** Whether what a node is used for is the same: its pods for new connections, and for open ones. */
export function isUsedAlike(one: NodeState, other: NodeState): boolean {
  return (
    one.outSince === other.outSince && one.isLost === other.isLost && isReturning(one) === isReturning(other)
  );
}

function judgeReturn(state: NodeState, now: number): NodeState {
  if (state.consecutiveAnswers < answersToReturn) return state;
  return isReturning(state) && !isTrusted(state, now) ? state : { ...state, outSince: null, isLost: false };
}

function isTrusted({ reportedAt, answersSince }: NodeState, now: number): boolean {
  return now - (reportedAt ?? now) >= settleMs || now - (answersSince ?? now) >= patienceMs;
}

function judgeSilence(state: NodeState, { wasWitnessed }: NodeAnswer, now: number): NodeState {
  const { consecutiveTimeouts, troubleSince } = state.history;
  const isOver = state.hasAnswered && consecutiveTimeouts >= timeoutsToDoubt && wasWitnessed;
  const outSince = state.outSince ?? (isOver ? troubleSince : null);
  const isLost = outSince !== null && wasWitnessed && now - troubleSince >= lostMs;
  return { ...state, outSince, isLost: state.isLost || isLost };
}

/**
 * Whether another node was asked since this one's silence began, and answered. If no other node is left that answers, silence counts by itself:
 * nobody can be waited for.
 */
export function hasWitness({ history }: NodeState, others: Iterable<NodeState>): boolean {
  let isAnyLeft = false;
  for (const other of others) {
    if (isWitness(other.history, history.troubleSince)) return true;
    isAnyLeft ||= other.hasAnswered && other.outSince === null;
  }
  return !isAnyLeft;
}

/** Whether it was asked often enough, and has not answered at its address: then it is never out. */
export function hasNeverAnswered({ history, hasAnswered }: NodeState): boolean {
  return !hasAnswered && history.consecutiveTimeouts >= neverConnects;
}

/** Whether the next answer may take it out of use, or bring it back: it is asked again soon. */
export function isUndecided({ history, hasAnswered, outSince, consecutiveAnswers }: NodeState): boolean {
  if (outSince === null) return hasAnswered && history.consecutiveTimeouts > 0;
  return consecutiveAnswers > 0 && consecutiveAnswers < answersToReturn;
}
