import * as z from 'zod/mini';
import { type ApiView } from '../discovery/api/cluster-api.ts';
import { askAgent } from './presence.ts';

const endpoint = z.object({ family: z.enum(['ipv4', 'ipv6']), address: z.string(), port: z.number() });
const finding = z.object({ value: z.array(endpoint), seenIn: z.string() });

const answer = z.object({
  view: z.nullable(
    z.object({
      endpoints: z.partialRecord(z.enum(['ipv4', 'ipv6']), finding),
      clusterIps: z.partialRecord(z.enum(['ipv4', 'ipv6']), z.string()),
      affinitySeconds: z.nullable(z.number()),
      refused: z.array(z.string()),
      isCurrent: z.boolean(),
    }),
  ),
});

/** Where the agent of this network namespace tells what the Kubernetes API has said to it. */
export const apiPath = '/api';

/** What the agent answers there. */
export function toApiAnswer(view: ApiView | null): { readonly view: ApiView | null } {
  return { view };
}

/**
 * What the Kubernetes API has said to the running agent, which may be nothing, so that what is shown is what is done,
 * also while the API is lost. Null when none runs or none answers.
 */
export async function askAgentApi(): Promise<{ readonly view: ApiView | null } | null> {
  const parsed = answer.safeParse(await askAgent(apiPath));
  return parsed.success ? parsed.data : null;
}
