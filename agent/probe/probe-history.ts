import {
  addConnect,
  type ConnectHistory,
  type ConnectResult,
  emptyConnects,
} from '../../lib/probe/connect-history.ts';
import { type DrainOutcome, type FailureCause } from './apiserver.ts';

/** What probes have shown of one apiserver. Times are of the Clock, and those of questions are when they were asked. */
export interface ProbeHistory extends ConnectHistory {
  /** When the last connect was begun. */
  readonly connectedAt: number;
  /** For how long it has answered no connect, as far as this process ran: from the first such connect to the last. */
  readonly silentMs: number;
  /** Questions in a row that were answered with ready. */
  readonly readyAnswers: number;
  readonly readyAt: number;
  /** When the first question was asked of those in a row that were answered with ready within a second; Infinity where the last was not. */
  readonly promptSince: number;
  /** When the last such question was asked. */
  readonly promptAt: number;
  /** When the last question was asked that was answered in any way. */
  readonly answeredAt: number;
  /** Questions in a row without an answer. */
  readonly unanswered: number;
  readonly unansweredSince: number;
  /** Why the last answer was not ready, or null when it was. */
  readonly failure: string | null;
  readonly failureAt: number;
  readonly failureCause: FailureCause;
  /** Why its good answers say only that its process lives; null where they say that it is ready. */
  readonly livenessOnly: string | null;
  /** When the first question was asked of those in a row that were answered so. */
  readonly livenessSince: number;
  /** Whether its process has answered nothing for 2.5 s, not even a new handshake. */
  readonly isFrozen: boolean;
  /** Since when. */
  readonly frozenSince: number;
  /** Whether its process closed both connections of the probes together, and has answered no question since. */
  readonly isEnded: boolean;
  /** When it did that last, also if it has answered since. */
  readonly endedAt: number;
  /** Whether the last drain check found its host drained. */
  readonly isDrained: boolean;
}

/** Nothing seen yet. */
export const emptyHistory: ProbeHistory = {
  ...emptyConnects,
  connectedAt: -Infinity,
  silentMs: 0,
  readyAnswers: 0,
  readyAt: -Infinity,
  promptSince: Infinity,
  promptAt: -Infinity,
  answeredAt: -Infinity,
  unanswered: 0,
  unansweredSince: 0,
  failure: null,
  failureAt: 0,
  failureCause: 'other',
  livenessOnly: null,
  livenessSince: 0,
  isFrozen: false,
  frozenSince: 0,
  isEnded: false,
  endedAt: -Infinity,
  isDrained: false,
};

/** What one probe has shown. */
export type ProbeResult =
  | ConnectResult
  | QuestionResult
  /** Nothing was answered since it was asked; and the first sign of life after that. */
  | { readonly kind: 'frozen' | 'alive' }
  /** Both connections of the probes were closed at once. */
  | { readonly kind: 'ended' }
  | { readonly kind: Exclude<DrainOutcome, 'unknown'> };

type QuestionResult =
  /** `isPrompt`: within a second. */
  | { readonly kind: 'ready'; readonly isPrompt: boolean; readonly livenessOnly?: string }
  | { readonly kind: 'failing'; readonly reason: string; readonly cause: FailureCause }
  | { readonly kind: 'unanswered' };

/** Adds what a probe has shown, begun or asked at a time, to what was known. Pure. */
export function addResult(history: ProbeHistory, result: ProbeResult, askedAt: number): ProbeHistory {
  if (isConnect(result)) return addAnyConnect(history, result, askedAt);
  switch (result.kind) {
    case 'ready':
    case 'failing':
    case 'unanswered':
      return addQuestion(history, result, askedAt);
    case 'frozen':
    case 'alive':
    case 'ended':
      return addSign(history, result.kind, askedAt);
    case 'drained':
    case 'admitting':
      return addDrain(history, result.kind === 'drained');
  }
}

/** What its process shows beside answers. */
function addSign(history: ProbeHistory, kind: 'frozen' | 'alive' | 'ended', at: number): ProbeHistory {
  if (kind === 'alive') return { ...history, isFrozen: false };
  const broken = breakRun(history);
  if (kind === 'ended') return { ...broken, isEnded: true, endedAt: at };
  return { ...broken, isFrozen: true, frozenSince: history.isFrozen ? history.frozenSince : at };
}

function isConnect(result: ProbeResult): result is ConnectResult {
  return ['open', 'refused', 'doubtful', 'unreachable', 'silent'].includes(result.kind);
}

/** Whoever is asked more rarely was not asked at all meanwhile: this process did not run. */
const longestStepMs = 1000;

/** An apiserver that accepts no connection answers no question, and nothing is known of its process. One that ends still accepts them. */
function addAnyConnect(history: ProbeHistory, result: ConnectResult, askedAt: number): ProbeHistory {
  const known = result.kind === 'open' ? history : { ...breakRun(history), isFrozen: false, isEnded: false };
  const after = addConnect(known, result, askedAt);
  const isFirst = after.consecutiveTimeouts <= 1;
  const passedMs = Math.min(askedAt - history.connectedAt, longestStepMs);
  return { ...after, connectedAt: askedAt, silentMs: isFirst ? 0 : history.silentMs + passedMs };
}

function addQuestion(history: ProbeHistory, result: QuestionResult, askedAt: number): ProbeHistory {
  const { unanswered, unansweredSince, failure, failureAt } = history;
  switch (result.kind) {
    case 'ready':
      return {
        ...addAnswer(history, askedAt),
        readyAnswers: history.readyAnswers + 1,
        readyAt: askedAt,
        promptSince: result.isPrompt ? Math.min(history.promptSince, askedAt) : Infinity,
        promptAt: result.isPrompt ? askedAt : history.promptAt,
        failure: null,
        livenessOnly: result.livenessOnly ?? null,
        livenessSince: history.livenessOnly === null ? askedAt : history.livenessSince,
      };
    case 'failing':
      return {
        ...addAnswer(breakRun(history), askedAt),
        failure: result.reason,
        failureCause: result.cause,
        failureAt: failure === null ? askedAt : failureAt,
      };
    case 'unanswered':
      return {
        ...breakRun(history),
        unanswered: unanswered + 1,
        unansweredSince: unanswered === 0 ? askedAt : unansweredSince,
      };
  }
}

function addAnswer(history: ProbeHistory, askedAt: number): ProbeHistory {
  const isEnded = history.isEnded && askedAt < history.endedAt;
  return { ...history, answeredAt: askedAt, unanswered: 0, isFrozen: false, isEnded };
}

/** The count of good answers starts again. */
function breakRun(history: ProbeHistory): ProbeHistory {
  return { ...history, readyAnswers: 0, promptSince: Infinity };
}

/** One that comes back from a drain has its good answers counted anew. */
function addDrain(history: ProbeHistory, isDrained: boolean): ProbeHistory {
  if (history.isDrained === isDrained) return history;
  return { ...history, isDrained, readyAnswers: isDrained ? history.readyAnswers : 0 };
}
