import { type Family } from '../../lib/address/address.ts';
import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { type EndpointHealth } from './endpoint-health.ts';
import { type Watched } from './watched.ts';
import { emptyHistory } from '../probe/probe-history.ts';

/** How an apiserver counts until its first probes have ended. */
export type FirstSight = Pick<EndpointHealth, 'state' | 'reason'>;

/** Nothing speaks against it. */
export const trusted: FirstSight = { state: 'ready', reason: 'not probed yet' };

/** Others serve: it has to prove itself. */
export const newcomer: FirstSight = { state: 'warming', reason: 'new' };

/** An address that no source lists: whether an apiserver is there is not known. */
export const unknown: FirstSight = { state: 'dead', reason: 'no apiserver has answered at this address yet' };

const leftOut = 'the rules from before this start do not use it, and it has not been ready since';

/** What a process begins with, for one family. */
export interface Beginning {
  readonly listed: readonly Endpoint[];
  /** The apiservers that vipnat's intact rules send connections to; empty without such rules. */
  readonly inUse: readonly Endpoint[];
}

/**
 * The state of an apiserver in a process that has just started, by the rules that the process before it wrote. An apiserver
 * in use is trusted; any other has to prove itself. Without rules, all are trusted. Pure.
 */
export function beginWith(endpoint: Endpoint, { listed, inUse }: Beginning): FirstSight {
  const used = new Set(inUse.map(formatEndpoint));
  if (used.size === 0 || used.has(formatEndpoint(endpoint))) return trusted;
  const isListed = (one: Endpoint) => used.has(formatEndpoint(one));
  // Where somebody else serves in place of all who are listed, a good answer takes that back (docs/adr/0003).
  return { state: listed.some(isListed) ? 'warming' : 'draining', reason: leftOut };
}

/** Those of one family. Pure. */
export function ofFamily(endpoints: readonly Endpoint[], family: Family): Endpoint[] {
  return endpoints.filter((endpoint) => endpoint.family === family);
}

/** Whether one of them is this one. Pure. */
export function includes(endpoints: readonly Endpoint[], endpoint: Endpoint): boolean {
  return endpoints.some((other) => formatEndpoint(other) === formatEndpoint(endpoint));
}

/** What one that is new comes to. */
export interface Scene {
  /** All that were watched so far. */
  readonly all: readonly EndpointHealth[];
  /** Those of them that are watched on. */
  readonly known: readonly EndpointHealth[];
  readonly watched: Watched;
}

/** The first state of a new apiserver. One that appears while others serve has to prove itself. Pure. */
export function see(endpoint: Endpoint, { all, known, watched }: Scene): FirstSight {
  const { family } = endpoint;
  const { endpoints, own = [], inUse = [] } = watched;
  const isFirst = !all.some((one) => one.endpoint.family === family);
  if (includes(own, endpoint) && !(isFirst && includes(inUse, endpoint))) return unknown;
  if (isFirst && inUse.some((one) => one.family === family)) {
    return beginWith(endpoint, { listed: ofFamily(endpoints, family), inUse: ofFamily(inUse, family) });
  }
  const isServed = known.some(
    (one) => one.state === 'ready' || (one.state === 'draining' && one.endpoint.family === family),
  );
  return isServed ? newcomer : trusted;
}

/** An apiserver of which nothing was seen yet. Pure. */
export function meet(
  endpoint: Endpoint,
  sight: FirstSight,
  { now, isLocal, isOwn }: { readonly now: number } & Pick<EndpointHealth, 'isLocal' | 'isOwn'>,
): EndpointHealth {
  return {
    endpoint,
    metAt: now,
    isLocal,
    isOwn,
    ...sight,
    since: now,
    isDrained: false,
    unconfirmedFailure: null,
    ejectionGraceUntil: 0,
    hasStaleConnections: false,
    staleAt: -Infinity,
    history: emptyHistory,
    ejections: [],
  };
}

/** Whether nothing good has been seen of one that nobody names: it is none of anybody's business then. Pure. */
export function isUnknown({ isOwn, state, since, metAt }: EndpointHealth): boolean {
  return isOwn && state === 'dead' && since === metAt;
}

/** Whether that is so only because no question to it has ended yet: it accepts connections. Pure. */
export function isUnasked(one: EndpointHealth): boolean {
  const { connect, answeredAt, unanswered } = one.history;
  return isUnknown(one) && connect === 'open' && answeredAt === -Infinity && unanswered === 0;
}

/** Whether it is known to be an apiserver: what listens where nobody names one may be anything, until it has answered well. Pure. */
export function isSomebody({ isOwn, history }: EndpointHealth): boolean {
  return !isOwn || history.readyAt !== -Infinity;
}
