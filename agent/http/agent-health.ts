import * as z from 'zod/mini';
import { type HealthView } from '../health/usable.ts';
import { askAgent } from './presence.ts';

const answer = z.record(
  z.string(),
  z.object({
    state: z.enum(['ready', 'warming', 'draining', 'dead']),
    reason: z.string(),
    hanging: z.enum(['none', 'half-open', 'all']),
  }),
);

/** Where the agent of this network namespace says how it finds the apiservers. */
export const healthPath = '/health';

/** What the agent answers there: an object from each apiserver's `ADDR:PORT` to its health. */
export function toHealthAnswer(health: HealthView): object {
  return Object.fromEntries(health);
}

/** How the running agent finds the apiservers, so that what is shown is what is done; null when none runs or none answers. */
export async function askAgentHealth(): Promise<HealthView | null> {
  const parsed = answer.safeParse(await askAgent(healthPath));
  return parsed.success ? new Map(Object.entries(parsed.data)) : null;
}
