/** What one connect has shown; the reason is a phrase for people. */
export type ConnectResult =
  | { readonly kind: 'open' }
  | { readonly kind: 'refused' | 'doubtful' | 'unreachable' | 'silent'; readonly reason: string };

/** What the connects to one host have shown. Times are of the Clock, and are when connects were begun. */
export interface ConnectHistory {
  /** How the last connect ended; `doubtful` is a refusal while an older connection is up. */
  readonly connect: 'unknown' | ConnectResult['kind'];
  /** What it was in words, for the reason. */
  readonly connectReason: string;
  /** When the last connect was begun that the peer answered in any way. */
  readonly heardAt: number;
  /** Connects in a row that it did not answer. */
  readonly consecutiveTimeouts: number;
  /** When the first connect was begun of those in a row that were not simply answered. */
  readonly troubleSince: number;
}

/** Nothing seen yet. */
export const emptyConnects: ConnectHistory = {
  connect: 'unknown',
  connectReason: '',
  heardAt: -Infinity,
  consecutiveTimeouts: 0,
  troubleSince: 0,
};

/** A lost packet is nothing, and two in a row are rare: with 1 % of loss one pair of connects in 2,500. */
export const timeoutsToDoubt = 2;

/** Adds what a connect has shown to what was known. Pure. */
export function addConnect<T extends ConnectHistory>(history: T, result: ConnectResult, askedAt: number): T {
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
  };
}

/** Whether the last connect was answered for certain. Pure. */
export function isHeard({ connect }: Pick<ConnectHistory, 'connect'>): boolean {
  return connect === 'open' || connect === 'refused';
}

/** Whether it is a witness of the network since a time: asked no earlier, and heard. Pure. */
export function isWitness(history: ConnectHistory, since: number): boolean {
  return isHeard(history) && history.heardAt >= since;
}
