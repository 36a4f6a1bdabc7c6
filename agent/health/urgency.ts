import { type EndpointHealth } from './endpoint-health.ts';

/** What a change of somebody's health asks for. */
export type Urgency =
  /** New connections must go elsewhere, or open ones be reset: now. */
  | 'urgent'
  /** The next look will do. */
  | 'calm';

/** Whether a change cannot wait for a look: connections go, or hang, where nobody answers. A look decides who is watched beside it. */
export function rateUrgency(before: EndpointHealth, after: EndpointHealth): Urgency {
  const isEjection = before.state === 'ready' && after.state !== 'ready';
  return isEjection || (after.hasStaleConnections && !before.hasStaleConnections) ? 'urgent' : 'calm';
}
