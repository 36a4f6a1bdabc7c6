import { type EndpointHealth } from './endpoint-health.ts';

/** How soon a change of an apiserver's health has to be acted on. */
export type Urgency =
  /** New connections must go elsewhere, or open ones be reset: now. */
  | 'urgent'
  /** The next look will do. */
  | 'calm';

/** Whether a change cannot wait for the next look: connections go to, or hang on, an apiserver that does not answer. */
export function rateUrgency(before: EndpointHealth, after: EndpointHealth): Urgency {
  const isEjection = before.state === 'ready' && after.state !== 'ready';
  return isEjection || (after.hasStaleConnections && !before.hasStaleConnections) ? 'urgent' : 'calm';
}
