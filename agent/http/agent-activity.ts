import { agentRole, askHolder } from '../../lib/http/singleton.ts';
import * as z from 'zod/mini';
import { vrrpStates } from '../../lib/keepalived/notices.ts';

const answer = z.object({
  writes: z.number(),
  lookedMsAgo: z.nullable(z.number()),
  apiservers: z.record(z.string(), z.object({ forMs: z.number() })),
  /** Absent in an older agent's answer. */
  keepalived: z.optional(z.record(z.string(), z.object({ state: z.enum(vrrpStates), forMs: z.number() }))),
});

/** What a running agent has been doing: its writes, its last look, for how long each apiserver has been as it is, and what keepalived's instances are. */
export type AgentActivity = z.infer<typeof answer>;

/** Where the agent of this network namespace tells it. */
export const activityPath = '/activity';

/** What the running agent has been doing; null when none runs or none answers. */
export async function askAgentActivity(): Promise<AgentActivity | null> {
  return readAgentActivityAnswer(await askHolder(agentRole, activityPath));
}

/** Reads such an answer; null for anything else. Pure and total. */
export function readAgentActivityAnswer(json: unknown): AgentActivity | null {
  const parsed = answer.safeParse(json);
  return parsed.success ? parsed.data : null;
}
