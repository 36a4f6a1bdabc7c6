import {
  type EndpointHealth,
  type Verdict,
  isUnresponsive,
  isLost,
  isEndLasting,
  type HealthState,
} from './judge.ts';
import { emptyHistory } from './apiserver.ts';
import type { Sourced } from '../../lib/text.ts';
import {
  type Endpoint,
  sortEndpoints,
  formatEndpoint,
  includesEndpoint,
  type Family,
} from '../../lib/net.ts';

/** What decisions and people need to know of one apiserver's health. Pure. */
export function summarize(one: EndpointHealth): Health {
  const { state, reason, history, unconfirmedFailure } = one;
  return {
    ...{ state, reason, staleConnections: findStaleConnections(one) },
    ...(unconfirmedFailure === null ? {} : { unconfirmedFailure: unconfirmedFailure.reason }),
    ...(history.livenessOnly === null ? {} : { livenessOnly: history.livenessOnly }),
    ...(isUnresponsive(one) ? { isUnresponsive: true } : {}),
    ...(isLost(one) ? { isLost: true } : {}),
    ...(one.isDrained ? { isDrained: true } : {}),
    ...(one.isOwn ? { isOwn: true } : {}),
    ...(history === emptyHistory ? { isUntried: true } : {}),
  };
}

function findStaleConnections(one: EndpointHealth): Health['staleConnections'] {
  if (one.hasStaleConnections) return 'all';
  return one.state === 'dead' && one.history.consecutiveTimeouts > 0 ? 'half-open' : 'none';
}

/** After its start, kube-apiserver refuses everybody for a second or two: until it has read its roles. */
const livenessMs = 10_000;

/** Whether it has shown for so long only that it lives that it will show no more. Pure. */
export function isLivenessOnly({ history }: EndpointHealth): boolean {
  const { livenessOnly, livenessSince, readyAt } = history;
  return livenessOnly !== null && readyAt - livenessSince >= livenessMs;
}

/** Whether a change is to be reported: of a state, of what is stale, lasts or can be known, or of a failure that nobody confirms. Pure. */
export function isNews(before: EndpointHealth, after: EndpointHealth): boolean {
  return (
    before.state !== after.state ||
    before.isDrained !== after.isDrained ||
    before.hasStaleConnections !== after.hasStaleConnections ||
    isLivenessOnly(before) !== isLivenessOnly(after) ||
    isUnresponsive(before) !== isUnresponsive(after) ||
    isEndLasting(before) !== isEndLasting(after) ||
    isLost(before) !== isLost(after) ||
    (before.unconfirmedFailure === null) !== (after.unconfirmedFailure === null)
  );
}

/** What the probes say of one apiserver, as far as decisions and people need it. */
export interface Health {
  readonly state: HealthState;
  /** One phrase for people. */
  readonly reason: string;
  /** Which connections to it hang, as their packets vanish: those that it has not answered yet, or all. A host that refuses resets them itself. */
  readonly staleConnections: 'none' | 'half-open' | 'all';
  /** What looks bad although its state stays, as no other is healthier: one phrase for people. Left out where nothing looks bad. */
  readonly unconfirmedFailure?: string | undefined;
  /** Why its good answers say only that its process lives: one phrase for people. Left out where they say that it is ready. */
  readonly livenessOnly?: string | undefined;
  /** Kept in use without an answer for a second, as no other host answers either. False when left out. */
  readonly isUnresponsive?: boolean | undefined;
  /** Whether it has not answered for so long that its host, or the path to it, is gone (docs/adr/0010). False when left out. */
  readonly isLost?: boolean | undefined;
  /** Whether nobody names it: it is this host's own apiserver, see `Watched`. False when left out. */
  readonly isOwn?: boolean | undefined;
  /** Whether its host is drained (`vipnat drain`): it is draining for that. False when left out. */
  readonly isDrained?: boolean | undefined;
  /** Whether no probe of it has ended yet. False when left out. */
  readonly isUntried?: boolean | undefined;
}

/** The health of apiservers by their text, see `formatEndpoint`. One that is missing has not been probed and counts as ready. */
export type HealthView = ReadonlyMap<string, Health>;

/** Nobody was probed. */
export const unprobed: HealthView = new Map();

/** The apiservers that may get new connections. */
export interface Usable extends Sourced<readonly Endpoint[]> {
  /** Whether all of them are down by this node's probes, and kept because that says more about the probes (fail open). */
  readonly isFailOpen: boolean;
  /** Whether these serve in place of all who are listed. False when left out. */
  readonly isSubstitute?: boolean;
}

/** Whom a VIP could be balanced over, and where they are known from. */
export interface Choices extends Sourced<readonly Endpoint[]> {
  /** Apiservers that other sources list, or any source listed before: used when no listed one is healthy. */
  readonly fallbackEndpoints: readonly Endpoint[];
  /** Where this host's own apiserver would be, used when no other one is healthy. Null if a source lists it. */
  readonly own: Endpoint | null;
}

/** States of apiservers that get new connections, best first. A warming or draining one serves better than none. */
const preference: readonly HealthState[] = ['ready', 'warming', 'draining'];

/**
 * Chooses the apiservers that get new connections: the listed ones in the best state. If all listed apiservers are dead,
 * fallback endpoints that live serve instead; if the best listed one is draining, fallback endpoints that are ready do, see
 * `Watched`. This host's own unlisted apiserver comes last. It also serves if no chosen apiserver answers. The choice is
 * empty only if no apiserver is known. Pure.
 */
export function chooseUsable(choices: Choices, health: HealthView): Usable {
  const { value, seenIn } = choices;
  const chosen = chooseBest(value, health);
  const fallbackEndpoints = chooseFallback(choices, chosen, health);
  const [first] = fallbackEndpoints;
  if (first !== undefined) {
    const whose = isSame(first, choices.own) ? "this node's own, which no source lists" : 'named earlier';
    const others = describeOthers(value, health) ?? seenIn;
    return {
      value: fallbackEndpoints,
      seenIn: `${whose}, because ${others}`,
      isFailOpen: false,
      isSubstitute: true,
    };
  }
  if (chosen.length === 0) return { value, seenIn, isFailOpen: value.length > 0 };
  const others = value.filter((endpoint) => !chosen.includes(endpoint));
  return { value: chosen, seenIn: describeOthers(others, health) ?? seenIn, isFailOpen: false };
}

/** The apiservers that are dead or draining, as text: their answers cannot be relied on. Pure. */
export function listDown(health: HealthView): ReadonlySet<string> {
  return new Set(
    [...health].filter(([, { state }]) => state === 'dead' || state === 'draining').map(([text]) => text),
  );
}

/** The fallback endpoints that serve instead of the chosen listed apiservers; empty if the listed ones stay. */
function chooseFallback(
  { fallbackEndpoints: named, own }: Choices,
  chosen: readonly Endpoint[],
  health: HealthView,
): Endpoint[] {
  // Fallback endpoints are probed only while no listed apiserver is healthy.
  const others = sortEndpoints(own === null ? named : [...named, own]).filter((endpoint) =>
    health.has(formatEndpoint(endpoint)),
  );
  const fallbackEndpoints = putOwnLast(chooseBest(others, health), own);
  const [best] = chosen;
  const [first] = fallbackEndpoints;
  if (first === undefined || best === undefined) return fallbackEndpoints;
  if (chosen.every((endpoint) => health.get(formatEndpoint(endpoint))?.isUnresponsive === true))
    return others.filter((one) => isSame(one, own) && ['ready', 'warming'].includes(stateOf(one, health)));
  return stateOf(best, health) === 'draining' && stateOf(first, health) === 'ready' ? fallbackEndpoints : [];
}

/** Leaves out this host's own apiserver if there is any other. */
function putOwnLast(endpoints: readonly Endpoint[], own: Endpoint | null): Endpoint[] {
  const named = endpoints.filter((endpoint) => !isSame(endpoint, own));
  return named.length > 0 ? named : [...endpoints];
}

function isSame(endpoint: Endpoint, own: Endpoint | null): boolean {
  return own !== null && formatEndpoint(endpoint) === formatEndpoint(own);
}

/** Those in the best state that anybody is in; empty when all are dead. */
function chooseBest(endpoints: readonly Endpoint[], health: HealthView): Endpoint[] {
  const best = preference.find((state) => endpoints.some((endpoint) => stateOf(endpoint, health) === state));
  return endpoints.filter((endpoint) => stateOf(endpoint, health) === best);
}

function stateOf(endpoint: Endpoint, health: HealthView): HealthState {
  return health.get(formatEndpoint(endpoint))?.state ?? 'ready';
}

/** `10.0.0.13:6443 is dead: connection refused`, or null when nobody is left out. */
function describeOthers(others: readonly Endpoint[], health: HealthView): string | null {
  if (others.length === 0) return null;
  return others
    .map((endpoint) => {
      const text = formatEndpoint(endpoint);
      const { state = 'unknown', isUnresponsive = false, isDrained = false } = health.get(text) ?? {};
      if (isDrained) return `${text} is drained`;
      return `${text} ${isUnresponsive ? 'does not answer' : `is ${state}`}`;
    })
    .join(', ');
}

/** Nothing speaks against it. */
export const trusted: Verdict = { state: 'ready', reason: 'not probed yet' };

/** Others serve: it has to prove itself. */
const unproven: Verdict = { state: 'warming', reason: 'new' };

/** An address that no source lists: whether an apiserver is there is not known. */
const unknown: Verdict = { state: 'dead', reason: 'no apiserver has answered at this address yet' };

const leftOut = 'the rules from before this start do not use it, and it has not been ready since';

/**
 * The state of an apiserver in a process that has just started, by the rules that the process before it wrote: those of its family that
 * are listed, and that are in use, one at least. One in use is trusted; any other has to prove itself. Pure.
 */
function beginWith(endpoint: Endpoint, listed: readonly Endpoint[], inUse: readonly Endpoint[]): Verdict {
  if (includesEndpoint(inUse, endpoint)) return trusted;
  // Where somebody else serves in place of all who are listed, a good answer takes that back (docs/design.md).
  const isServed = listed.some((one) => includesEndpoint(inUse, one));
  return { state: isServed ? 'warming' : 'draining', reason: leftOut };
}

/** Those of one family. Pure. */
export function ofFamily(endpoints: readonly Endpoint[], family: Family): Endpoint[] {
  return endpoints.filter((endpoint) => endpoint.family === family);
}

/**
 * The first state of a new apiserver. One that appears while others serve has to prove itself. `all` were watched so far, and `known`
 * of them are watched on. Pure.
 */
export function see(
  endpoint: Endpoint,
  watched: Watched,
  all: readonly EndpointHealth[],
  known = all,
): Verdict {
  const { family } = endpoint;
  const { endpoints, own = [], inUse = [] } = watched;
  const isFirst = !all.some((one) => one.endpoint.family === family);
  if (includesEndpoint(own, endpoint) && !(isFirst && includesEndpoint(inUse, endpoint))) return unknown;
  const used = ofFamily(inUse, family);
  if (isFirst && used.length > 0) return beginWith(endpoint, ofFamily(endpoints, family), used);
  const isServed = known.some(
    (one) => one.state === 'ready' || (one.state === 'draining' && one.endpoint.family === family),
  );
  return isServed ? unproven : trusted;
}

/** An apiserver of which nothing was seen yet. Pure. */
export function initialize(
  endpoint: Endpoint,
  initialState: Verdict,
  { now, isLocal, isOwn }: { readonly now: number } & Pick<EndpointHealth, 'isLocal' | 'isOwn'>,
): EndpointHealth {
  return {
    endpoint,
    metAt: now,
    isLocal,
    isOwn,
    ...initialState,
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

/** Apiservers as a sync finds them, and which addresses are this host's own. */
export interface Watched {
  readonly endpoints: readonly Endpoint[];
  readonly localAddresses: ReadonlySet<string>;
  /** Those of `endpoints` that the API or kube-proxy lists; none when left out. */
  readonly live?: readonly Endpoint[];
  /** Also watched while no listed apiserver of a family is healthy: all are dead, draining, or kept in use because no other one is ready. */
  readonly fallbackEndpoints?: readonly Endpoint[];
  /**
   * Where this host's own apiserver would be, if no source lists it. It is watched like fallback endpoints. It counts as an
   * apiserver once it has answered a question well: any program may listen there.
   */
  readonly own?: readonly Endpoint[];
  /** The apiservers that vipnat's intact rules send connections to, for a monitor that starts; none when left out. */
  readonly inUse?: readonly Endpoint[];
  /** Whether the rules could not be read, so that `inUse` says nothing yet. False when left out. */
  readonly isBlind?: boolean;
}
