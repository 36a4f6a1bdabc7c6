import * as z from 'zod/mini';
import { healthStates } from '../health/endpoint-health.ts';
import { type Health, type HealthView } from '../health/usable.ts';
import { agentRole, askHolder, line } from '../../lib/http/singleton.ts';

const apiserver = z.object({
  state: z.enum(healthStates),
  reason: line,
  hanging: z.enum(['none', 'half-open', 'all']),
  doubt: z.optional(line),
  livenessOnly: z.optional(line),
  isUnheard: z.optional(z.boolean()),
  isOwn: z.optional(z.boolean()),
  isDrained: z.optional(z.boolean()),
  isUntried: z.optional(z.boolean()),
});

const answer = z.record(z.string(), apiserver);

/** Where the agent of this network namespace says how it finds the apiservers. */
export const healthPath = '/health';

/** What the agent answers there: an object from each apiserver's `ADDR:PORT` to its health. */
export function toHealthAnswer(health: HealthView): object {
  return Object.fromEntries([...health].map(([text, one]) => [text, toAnswer(one)]));
}

/** How the running agent finds the apiservers, so that what is shown is what is done; null when none runs or none answers. */
export async function askAgentHealth(): Promise<HealthView | null> {
  return readAgentHealthAnswer(await askHolder(agentRole, healthPath));
}

/** Reads such an answer; null for anything else. Pure and total. */
export function readAgentHealthAnswer(json: unknown): HealthView | null {
  const parsed = answer.safeParse(json);
  if (!parsed.success) return null;
  return new Map(Object.entries(parsed.data).map(([text, one]) => [text, toHealth(one)]));
}

/** The keys are those that agents of every version tell. */
function toAnswer({
  staleConnections: hanging,
  unconfirmedFailure: doubt,
  isSilent: isUnheard,
  ...same
}: Health): z.infer<typeof apiserver> {
  return { ...same, hanging, doubt, isUnheard };
}

function toHealth({ hanging, doubt, isUnheard, ...same }: z.infer<typeof apiserver>): Health {
  return { ...same, staleConnections: hanging, unconfirmedFailure: doubt, isSilent: isUnheard };
}
