import { type Endpoint, formatEndpoint, sortEndpoints } from '../../lib/address/endpoint.ts';
import { type Sourced } from '../../lib/text/sourced.ts';
import { type HealthState } from './endpoint-health.ts';

/** What the probes say of one apiserver, as far as decisions and people need it. */
export interface Health {
  readonly state: HealthState;
  /** One phrase for people. */
  readonly reason: string;
  /** Which connections to it hang, as their packets vanish: those that it has not answered yet, or all. A host that refuses resets them itself. */
  readonly staleConnections: 'none' | 'half-open' | 'all';
  /** What looks bad although its state stays, as nothing else does better: one phrase for people. Left out where all is well. */
  readonly unconfirmedFailure?: string | undefined;
  /**
   * Whether nothing has been heard from its host for a second, and it is kept in use because nothing is heard from any
   * other host either: this side's fault. False when left out.
   */
  readonly isSilent?: boolean | undefined;
  /** Whether nobody names it: it is this host's own apiserver, see `Watched`. False when left out. */
  readonly isOwn?: boolean | undefined;
  /** Whether no probe of it has ended yet. False when left out. */
  readonly isUntried?: boolean | undefined;
}

/** The health of apiservers by their text, see `formatEndpoint`. One that is missing has not been probed and counts as ready. */
export type HealthView = ReadonlyMap<string, Health>;

/** Nobody was probed. */
export const unprobed: HealthView = new Map();

/** The apiservers that may get new connections. */
export interface Usable extends Sourced<readonly Endpoint[]> {
  /** Whether all of them are down by our probes, and kept because that says more about the probes (fail open). */
  readonly isFailOpen: boolean;
  /** Whether these serve in place of all who are listed. False when left out. */
  readonly isSubstitute?: boolean;
}

/** Whom a VIP could be balanced over, see `Candidates`. */
export interface Choices extends Sourced<readonly Endpoint[]> {
  readonly fallbackEndpoints: readonly Endpoint[];
  readonly own: Endpoint | null;
}

/** Who gets new connections, best first: the first state that anybody is in. Slow and warming ones serve better than none. */
const preference: readonly HealthState[] = ['ready', 'warming', 'draining'];

/**
 * Chooses whom new connections go to. When all who are listed are dead, somebody else who was found alive serves, and when
 * the best of them is draining, somebody else who is ready: one of their fallback endpoints, see `Watched`. This host's own apiserver, which
 * nobody names, comes last, and serves also when none of those who are listed is heard. Never empty unless nobody is known. Pure.
 */
export function chooseUsable(choices: Choices, health: HealthView): Usable {
  const { value, seenIn } = choices;
  const chosen = chooseBest(value, health);
  const fallbackEndpoints = chooseFallback(choices, chosen, health);
  const [first] = fallbackEndpoints;
  if (first !== undefined) {
    const whose = isSame(first, choices.own) ? "this node's own, which nobody names" : 'named before';
    const others = describeOthers(value, health) ?? seenIn;
    return {
      value: fallbackEndpoints,
      seenIn: `${whose}, as ${others}`,
      isFailOpen: false,
      isSubstitute: true,
    };
  }
  if (chosen.length === 0) return { value, seenIn, isFailOpen: value.length > 0 };
  const others = value.filter((endpoint) => !chosen.includes(endpoint));
  return { value: chosen, seenIn: describeOthers(others, health) ?? seenIn, isFailOpen: false };
}

/** Those who are down, as text: nothing that they say can be relied on. Pure. */
export function listDown(health: HealthView): ReadonlySet<string> {
  return new Set(
    [...health].filter(([, { state }]) => state === 'dead' || state === 'draining').map(([text]) => text),
  );
}

/** Who else does better than those who are listed were chosen; nobody where these do well, or nobody is listed. */
function chooseFallback(
  { fallbackEndpoints: named, own }: Choices,
  chosen: readonly Endpoint[],
  health: HealthView,
): Endpoint[] {
  // Only while none of those who are listed does well are these probed.
  const others = sortEndpoints(own === null ? named : [...named, own]).filter((endpoint) =>
    health.has(formatEndpoint(endpoint)),
  );
  const fallbackEndpoints = putOwnLast(chooseBest(others, health), own);
  const [best] = chosen;
  const [first] = fallbackEndpoints;
  if (first === undefined || best === undefined) return fallbackEndpoints;
  if (chosen.every((endpoint) => health.get(formatEndpoint(endpoint))?.isSilent === true)) {
    return others.filter((endpoint) => isSame(endpoint, own) && isServing(endpoint, health));
  }
  return stateOf(best, health) === 'draining' && stateOf(first, health) === 'ready' ? fallbackEndpoints : [];
}

/** Who is named by somebody goes before who is not. */
function putOwnLast(endpoints: readonly Endpoint[], own: Endpoint | null): Endpoint[] {
  const named = endpoints.filter((endpoint) => !isSame(endpoint, own));
  return named.length > 0 ? named : [...endpoints];
}

function isSame(endpoint: Endpoint, own: Endpoint | null): boolean {
  return own !== null && formatEndpoint(endpoint) === formatEndpoint(own);
}

function isServing(endpoint: Endpoint, health: HealthView): boolean {
  return ['ready', 'warming'].includes(stateOf(endpoint, health));
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
      const { state = 'unknown', isSilent = false } = health.get(text) ?? {};
      return `${text} is ${isSilent ? 'not heard' : state}`;
    })
    .join(', ');
}
