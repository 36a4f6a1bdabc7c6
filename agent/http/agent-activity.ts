import * as z from 'zod/mini';
import { askAgent } from './presence.ts';

const answer = z.object({
  writes: z.number(),
  lookedMsAgo: z.nullable(z.number()),
  apiservers: z.record(z.string(), z.object({ forMs: z.number() })),
});

/** What a running agent has been doing: its writes, its last look, and for how long each apiserver has been as it is. */
export type AgentActivity = z.infer<typeof answer>;

/** Where the agent of this network namespace tells it. */
export const activityPath = '/activity';

/** What the running agent has been doing; null when none runs or none answers. */
export async function askAgentActivity(): Promise<AgentActivity | null> {
  const parsed = answer.safeParse(await askAgent(activityPath));
  return parsed.success ? parsed.data : null;
}
