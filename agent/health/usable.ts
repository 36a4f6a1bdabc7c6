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
  /** Why its good answers say only that its process lives: one phrase for people. Left out where they say that it is ready. */
  readonly livenessOnly?: string | undefined;
  /**
   * Whether nothing has been heard from its host for a second, and it is kept in use because nothing is heard from any
   * other host either: this side's fault. False when left out.
   */
  readonly isSilent?: boolean | undefined;
  /** Whether its silence has lasted for so long that its host, or the way to it, is gone (docs/adr/0032). False when left out. */
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

/** States of apiservers that get new connections, best first. A warming or draining one serves better than none. */
const preference: readonly HealthState[] = ['ready', 'warming', 'draining'];

/**
 * Chooses the apiservers that get new connections: the listed ones in the best state. If all listed apiservers are dead,
 * fallback endpoints that live serve instead; if the best listed one is draining, fallback endpoints that are ready do, see
 * `Watched`. This host's own unlisted apiserver comes last. It also serves if every chosen apiserver is silent. The choice is
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
  if (chosen.every((endpoint) => health.get(formatEndpoint(endpoint))?.isSilent === true)) {
    return others.filter((endpoint) => isSame(endpoint, own) && isServing(endpoint, health));
  }
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
      const { state = 'unknown', isSilent = false, isDrained = false } = health.get(text) ?? {};
      if (isDrained) return `${text} is drained`;
      return `${text} ${isSilent ? 'does not answer' : `is ${state}`}`;
    })
    .join(', ');
}
