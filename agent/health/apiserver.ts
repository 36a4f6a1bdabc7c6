import { emptyConnects, type ConnectResult, addConnect, type ConnectOutcome } from '../../lib/http/client.ts';
import type { Endpoint } from '../../lib/net.ts';

/** Of an apiserver of which nothing was seen yet. */
export const emptyHistory = {
  ...emptyConnects,
  /** When the last connect was begun. */
  connectedAt: -Infinity,
  /** For how long it has answered no connect, as far as this process ran: from the first such connect to the last. */
  unansweredMs: 0,
  /** Questions in a row that were answered with ready. */
  readyAnswers: 0,
  readyAt: -Infinity,
  /** When the first question was asked of those in a row that were answered with ready within a second; Infinity where the last was not. */
  promptSince: Infinity,
  /** When the last such question was asked. */
  promptAt: -Infinity,
  /** When the last question was asked that got any answer. */
  answeredAt: -Infinity,
  /** Questions in a row without an answer. */
  unanswered: 0,
  unansweredSince: 0,
  /** Why the last answer was not ready, or null when it was. */
  failure: null as string | null,
  failureAt: 0,
  failureCause: 'other' as FailureCause,
  /** Why its good answers say only that its process lives; null where they say that it is ready. */
  livenessOnly: null as string | null,
  /** When the first question was asked of those in a row that were answered so. */
  livenessSince: 0,
  /** Whether its process has answered nothing for 2.5 s, not even a new handshake. */
  isFrozen: false,
  /** Since when. */
  frozenSince: 0,
  /** Whether its process closed both connections of the probes together, and has answered no question since. */
  isEnded: false,
  /** When it did that last, also if it has answered since. */
  endedAt: -Infinity,
  isDrained: false,
};

/** What probes have shown of one apiserver. Times are of the Clock, and those of questions are when they were asked. */
export type ProbeHistory = Readonly<typeof emptyHistory>;

/** What one probe has shown. */
export type ProbeResult =
  | ConnectResult
  | QuestionResult
  /** Nothing was answered since it was asked, the first sign of life after that, and that both connections were closed together. */
  | { readonly kind: 'frozen' | 'alive' | 'ended' | Exclude<DrainOutcome, 'unknown'> };

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

/** What its process shows in addition to answers. */
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
  return { ...after, connectedAt: askedAt, unansweredMs: isFirst ? 0 : history.unansweredMs + passedMs };
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

/** One that comes back from a drain has its good answers counted from zero. */
function addDrain(history: ProbeHistory, isDrained: boolean): ProbeHistory {
  if (history.isDrained === isDrained) return history;
  return { ...history, isDrained, readyAnswers: isDrained ? history.readyAnswers : 0 };
}

/** How one GET /readyz ended. */
export type ReadyzOutcome =
  /** 200; or 401 or 403, where the answer says only that its process lives: `livenessOnly` is then why, a phrase for people. */
  | { readonly kind: 'ready'; readonly livenessOnly?: string }
  /** Another status, or a peer that is no apiserver of this cluster; `reason` is a phrase for people. */
  | { readonly kind: 'failing'; readonly reason: string; readonly cause: FailureCause }
  /** No answer within the limit: slow or frozen. The connection is given up. */
  | { readonly kind: 'silent' }
  /** The connection could not be made or was closed before an answer. */
  | { readonly kind: 'closed' };

/**
 * Why an answer is bad. `shutdown`: it says that it shuts down, its own affair. `distrust`: it is no apiserver of this cluster by the
 * CA and the clock of this host, and one of these may be what is wrong. `other` may fail for all of them a moment later.
 */
type FailureCause = 'shutdown' | 'distrust' | 'other';

/**
 * What a drain check has shown: `drained` refuses a connect from a drain port and accepts one from an ordinary port, see
 * createDrainCheck; `admitting` accepts both; `unknown` is everything else, and says nothing.
 */
export type DrainOutcome = 'drained' | 'admitting' | 'unknown';

/**
 * The apiservers as the probes see them. The real one is `createApiserver` (prober.ts); test/support/fakes has
 * one that tests turn by hand. Credentials go only to an apiserver whose certificate was verified, with a question
 * that it does not answer without them.
 */
export interface Apiserver {
  /** Connects once and closes again. Never rejects; answers after the limit at the latest. */
  connect(endpoint: Endpoint, limitMs: number): Promise<ConnectOutcome>;
  /** Whether its host is drained. Never rejects; answers after twice the limit at the latest. */
  checkDrain(endpoint: Endpoint, limitMs: number): Promise<DrainOutcome>;
  /** A connection to be held. Nothing is sent before the first question. */
  hold(endpoint: Endpoint, onClose: () => void): HeldConnection;
  /** A connection for signs of life, made immediately. */
  openPingConnection(endpoint: Endpoint, listener: PingListener): PingConnection;
}

/** A kept-alive TLS connection. A question makes it again where it ended or its handshake is outdated. */
export interface HeldConnection {
  readonly isOpen: boolean;
  /** Asks GET /readyz, one at a time. Never rejects; ends by the limit, by twice that where it connects. */
  ask(limitMs: number): Promise<ReadyzOutcome>;
  /** Ends it for good; `onClose` is not called for that, nor for a question that was given up. */
  close(): void;
}

/** One TLS connection, on which only the smallest request of HTTP is sent. */
export interface PingConnection {
  /** Whether the peer's kernel has accepted it. */
  readonly isConnected: boolean;
  /** Sends a request, as soon as the handshake is over. One at a time. */
  send(): void;
  /** Ends it for good; the listener is not called again. */
  close(): void;
}

/** What is received on it. */
export interface PingListener {
  /** The peer's process has sent something: an answer to the request, or a part of the handshake. */
  readonly onReceived: (isAnswer: boolean) => void;
  readonly onEnd: () => void;
}

/** A connection that closes is followed by a burst of connects this often at most: one that always closes immediately says nothing new. */
const burstRestMs = 10_000;

/** A closed connection keeps its source port for a minute: so 30 of the drain ports are taken, and no more. */
export const drainCheckMs = 2000;

/** What one apiserver gets: so many of a kind within a time. */
const limits = {
  /** The regular one, and three that cannot wait. */
  question: { count: 4, withinMs: 1000 },
  burst: { count: 1, withinMs: burstRestMs },
  drainCheck: { count: 1, withinMs: drainCheckMs },
  /** A pinger makes two when an apiserver stops answering. One that is slow costs a handshake in two seconds. */
  pingConnection: { count: 2, withinMs: 4000 },
} as const;

type Limited = keyof typeof limits;

/** Limits what is sent to one apiserver (I13): ask first. A new prober continues with what is left. */
export class ProbeBudget {
  /** When the last ones were begun, oldest first. */
  readonly #kindToTimes = new Map<Limited, readonly number[]>();
  /** When the last connect was begun. */
  connectedAt = -Infinity;
  #alarmedAt = -Infinity;

  /** When the next one of a kind may begin; the past when it may begin immediately. */
  findStart(kind: Limited): number {
    const { count, withinMs } = limits[kind];
    return (this.#kindToTimes.get(kind)?.at(-count) ?? -Infinity) + withinMs;
  }

  /** Answers whether one of a kind may begin now, and counts it as begun when it may. */
  take(kind: Limited, now: number): boolean {
    if (this.findStart(kind) > now) return false;
    const times = [...(this.#kindToTimes.get(kind) ?? []), now];
    this.#kindToTimes.set(kind, times.slice(-limits[kind].count));
    return true;
  }

  /**
   * Answers whether a bad answer of this apiserver may cost the others a question now, and counts it when it may: once,
   * and once more after it has answered well. `readyAt` is when the last question was asked that it answered well.
   */
  takeAlarm(readyAt: number, now: number): boolean {
    if (this.#alarmedAt !== -Infinity && readyAt <= this.#alarmedAt) return false;
    this.#alarmedAt = now;
    return true;
  }

  /** Whether nothing in it limits anything any more. */
  isIdle(now: number): boolean {
    const lastAt = Math.max(this.connectedAt, this.#alarmedAt, ...[...this.#kindToTimes.values()].flat());
    return now - lastAt >= burstRestMs;
  }
}
