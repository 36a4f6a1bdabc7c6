/** What probes have shown of one apiserver. Times are of the Clock, and those of questions are when they were asked. */
export interface ProbeHistory {
  /** How the last connect ended; `doubtful` is a refusal while the held connection is up. */
  readonly connect: 'unknown' | ConnectResult['kind'];
  /** What it was in words, for the reason. */
  readonly connectReason: string;
  /** When the last connect was begun that the peer answered in any way. */
  readonly heardAt: number;
  /** Connects in a row that it did not answer. */
  readonly consecutiveTimeouts: number;
  /** When the first connect was begun of those in a row that were not simply answered. */
  readonly troubleSince: number;
  /** Questions in a row that were answered with ready. */
  readonly readyAnswers: number;
  readonly readyAt: number;
  /** When the last question was asked that was answered in any way. */
  readonly answeredAt: number;
  /** Questions in a row without an answer. */
  readonly unanswered: number;
  readonly unansweredSince: number;
  /** Why the last answer was not ready, or null when it was. */
  readonly failure: string | null;
  readonly failureAt: number;
  /** Whether it is this apiserver's own affair, see ReadyzOutcome. */
  readonly isOwnFailure: boolean;
}

/** Nothing seen yet. */
export const emptyHistory: ProbeHistory = {
  connect: 'unknown',
  connectReason: '',
  heardAt: -Infinity,
  consecutiveTimeouts: 0,
  troubleSince: 0,
  readyAnswers: 0,
  readyAt: -Infinity,
  answeredAt: -Infinity,
  unanswered: 0,
  unansweredSince: 0,
  failure: null,
  failureAt: 0,
  isOwnFailure: false,
};

/** What one connect has shown; the reason is a phrase for people. */
export type ConnectResult =
  | { readonly kind: 'open' }
  | { readonly kind: 'refused' | 'doubtful' | 'unreachable' | 'silent'; readonly reason: string };

/** What one probe has shown. */
export type ProbeResult =
  | ConnectResult
  | { readonly kind: 'ready' }
  | { readonly kind: 'failing'; readonly reason: string; readonly isOwn: boolean }
  | { readonly kind: 'unanswered' };

/** Adds what a probe has shown, begun or asked at a time, to what was known. Pure. */
export function addResult(history: ProbeHistory, result: ProbeResult, askedAt: number): ProbeHistory {
  if (isConnect(result)) return addConnect(history, result, askedAt);
  switch (result.kind) {
    case 'ready':
      return {
        ...history,
        readyAnswers: history.readyAnswers + 1,
        readyAt: askedAt,
        answeredAt: askedAt,
        unanswered: 0,
        failure: null,
      };
    case 'failing':
      return {
        ...history,
        readyAnswers: 0,
        answeredAt: askedAt,
        unanswered: 0,
        failure: result.reason,
        isOwnFailure: result.isOwn,
        failureAt: history.failure === null ? askedAt : history.failureAt,
      };
    case 'unanswered':
      return {
        ...history,
        readyAnswers: 0,
        unanswered: history.unanswered + 1,
        unansweredSince: history.unanswered === 0 ? askedAt : history.unansweredSince,
      };
  }
}

function isConnect(result: ProbeResult): result is ConnectResult {
  return !['ready', 'failing', 'unanswered'].includes(result.kind);
}

function addConnect(history: ProbeHistory, result: ConnectResult, askedAt: number): ProbeHistory {
  const { kind } = result;
  const isHeard = kind !== 'unreachable' && kind !== 'silent';
  const hadTrouble = history.connect !== 'open' && history.connect !== 'unknown';
  return {
    ...history,
    connect: kind,
    connectReason: result.kind === 'open' ? '' : result.reason,
    heardAt: isHeard ? askedAt : history.heardAt,
    consecutiveTimeouts: isHeard ? 0 : history.consecutiveTimeouts + 1,
    troubleSince: hadTrouble ? history.troubleSince : askedAt,
    // An apiserver that accepts no connection answers no question, so the count of good answers starts again.
    readyAnswers: kind === 'open' ? history.readyAnswers : 0,
  };
}
