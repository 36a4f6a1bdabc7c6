import { type Endpoint } from '../../lib/address/endpoint.ts';
import { type ProbeHistory } from '../probe/probe-history.ts';

/**
 * How an apiserver is: `ready` gets new connections; `warming` has not been good for long enough to get them;
 * `draining` accepts and says that it should get none; `dead` accepts none.
 */
export const healthStates = ['ready', 'warming', 'draining', 'dead'] as const;

/** One of healthStates. */
export type HealthState = (typeof healthStates)[number];

/** What looks bad, and since when it does. */
export interface UnconfirmedFailure {
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
  /** Whether it is draining because its host is drained (`vipnat drain`). */
  readonly isDrained: boolean;
  /** Looks bad in a way that only this agent may see: its state stays, and people are told. Null when all is well. */
  readonly unconfirmedFailure: UnconfirmedFailure | null;
  /** Until when a bad answer does not count: after a time in which nobody did well they do not all recover at once. */
  readonly ejectionGraceUntil: number;
  /** Dead and silent for so long that its connections are lost: they are to be reset. */
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
