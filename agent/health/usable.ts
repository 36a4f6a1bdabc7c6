import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { type Finding } from '../../lib/finding.ts';
import { type HealthState } from './endpoint-health.ts';

/** What the probes say of one apiserver, as far as decisions and people need it. */
export interface Health {
  readonly state: HealthState;
  /** One phrase for people. */
  readonly reason: string;
  /** Which connections to it hang, as their packets vanish: those that it has not answered yet, or all. A host that refuses resets them itself. */
  readonly hanging: 'none' | 'half-open' | 'all';
}

/** The health of apiservers by their text, see `formatEndpoint`. One that is missing has not been probed and counts as ready. */
export type HealthView = ReadonlyMap<string, Health>;

/** Nobody was probed. */
export const unprobed: HealthView = new Map();

/** The apiservers that may get new connections. */
export interface Usable extends Finding<readonly Endpoint[]> {
  /** Whether all of them are down by our probes, and kept because that says more about the probes (fail open). */
  readonly isFailOpen: boolean;
}

/** Who gets new connections, best first: the first state that anybody is in. Slow and warming ones serve better than none. */
const preference: readonly HealthState[] = ['ready', 'warming', 'draining'];

/** Chooses whom new connections go to. Never empty unless nobody is known. Pure. */
export function chooseUsable({ value, seenIn }: Finding<readonly Endpoint[]>, health: HealthView): Usable {
  const stateOf = (endpoint: Endpoint) => health.get(formatEndpoint(endpoint))?.state ?? 'ready';
  for (const state of preference) {
    const chosen = value.filter((endpoint) => stateOf(endpoint) === state);
    if (chosen.length > 0) {
      const others = value.filter((endpoint) => stateOf(endpoint) !== state);
      return {
        value: chosen,
        seenIn: describeOthers(others, health) ?? seenIn,
        isFailOpen: false,
      };
    }
  }
  return { value, seenIn, isFailOpen: value.length > 0 };
}

/** `10.0.0.13:6443 is dead: connection refused`, or null when nobody is left out. */
function describeOthers(others: readonly Endpoint[], health: HealthView): string | null {
  if (others.length === 0) return null;
  return others
    .map((endpoint) => {
      const text = formatEndpoint(endpoint);
      return `${text} is ${health.get(text)?.state ?? 'unknown'}`;
    })
    .join(', ');
}
