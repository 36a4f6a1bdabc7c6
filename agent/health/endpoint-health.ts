import { type Endpoint } from '../../lib/address/endpoint.ts';

/**
 * How an apiserver is: `ready` gets new connections; `warming` has not been good for long enough to get them;
 * `draining` accepts and says that it should get none; `dead` accepts none.
 */
export const healthStates = ['ready', 'warming', 'draining', 'dead'] as const;

/** One of healthStates. */
export type HealthState = (typeof healthStates)[number];

/** What probes have shown of one apiserver. Times are of the Clock, and those of questions are when they were asked. */
export interface Symptoms {
  /** How the last connect ended; `doubtful` is a refusal while the held connection is up. */
  readonly connect: 'unknown' | ConnectEvidence['kind'];
  /** What it was in words, for the reason. */
  readonly connectReason: string;
  /** When the last connect was begun that the peer answered in any way. */
  readonly heardAt: number;
  /** Connects in a row that it did not answer. */
  readonly unheard: number;
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

/** What looks bad, and since when it does. */
export interface Suspicion {
  /** One phrase for people. */
  readonly reason: string;
  readonly since: number;
}

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
  /** Looks bad in a way that only this agent may see: its state stays, and people are told. Null when all is well. */
  readonly suspicion: Suspicion | null;
  /** Until when a bad answer does not count: after a time in which nobody did well they do not all recover at once. */
  readonly pardonedUntil: number;
  /** Dead and silent for so long that its connections are lost: they are to be reset. */
  readonly isLost: boolean;
  readonly symptoms: Symptoms;
  /** When it fell out of use lately, oldest first. */
  readonly falls: readonly number[];
}

/** Nothing seen yet. */
export const noSymptoms: Symptoms = {
  connect: 'unknown',
  connectReason: '',
  heardAt: -Infinity,
  unheard: 0,
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
export type ConnectEvidence =
  | { readonly kind: 'open' }
  | { readonly kind: 'refused' | 'doubtful' | 'unreachable' | 'silent'; readonly reason: string };

/** What one probe has shown. */
export type Evidence =
  | ConnectEvidence
  | { readonly kind: 'ready' }
  | { readonly kind: 'failing'; readonly reason: string; readonly isOwn: boolean }
  | { readonly kind: 'unanswered' };

/** Adds what a probe has shown, begun or asked at a time, to what was known. Pure. */
export function addEvidence(symptoms: Symptoms, evidence: Evidence, askedAt: number): Symptoms {
  if (isConnect(evidence)) return addConnect(symptoms, evidence, askedAt);
  switch (evidence.kind) {
    case 'ready':
      return {
        ...symptoms,
        readyAnswers: symptoms.readyAnswers + 1,
        readyAt: askedAt,
        answeredAt: askedAt,
        unanswered: 0,
        failure: null,
      };
    case 'failing':
      return {
        ...symptoms,
        readyAnswers: 0,
        answeredAt: askedAt,
        unanswered: 0,
        failure: evidence.reason,
        isOwnFailure: evidence.isOwn,
        failureAt: symptoms.failure === null ? askedAt : symptoms.failureAt,
      };
    case 'unanswered':
      return {
        ...symptoms,
        readyAnswers: 0,
        unanswered: symptoms.unanswered + 1,
        unansweredSince: symptoms.unanswered === 0 ? askedAt : symptoms.unansweredSince,
      };
  }
}

function isConnect(evidence: Evidence): evidence is ConnectEvidence {
  return !['ready', 'failing', 'unanswered'].includes(evidence.kind);
}

function addConnect(symptoms: Symptoms, evidence: ConnectEvidence, askedAt: number): Symptoms {
  const { kind } = evidence;
  const isHeard = kind !== 'unreachable' && kind !== 'silent';
  const hadTrouble = symptoms.connect !== 'open' && symptoms.connect !== 'unknown';
  return {
    ...symptoms,
    connect: kind,
    connectReason: evidence.kind === 'open' ? '' : evidence.reason,
    heardAt: isHeard ? askedAt : symptoms.heardAt,
    unheard: isHeard ? 0 : symptoms.unheard + 1,
    troubleSince: hadTrouble ? symptoms.troubleSince : askedAt,
    // Who accepts no connection answers no question: a restart begins anew.
    readyAnswers: kind === 'open' ? symptoms.readyAnswers : 0,
  };
}

/** Whether nothing speaks against it, and a question that was asked since was answered well. Pure. */
export function isWell({ state, suspicion, symptoms }: EndpointHealth, since = -Infinity): boolean {
  const isUsable = state === 'ready' || state === 'warming';
  return isUsable && suspicion === null && (since === -Infinity || symptoms.readyAt > since);
}
