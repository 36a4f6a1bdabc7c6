import * as z from 'zod/mini';
import { agentRole, askHolder, line } from '../../lib/http/singleton.ts';

/** How it is about the drain of this host. */
export interface DrainState {
  readonly since: Date | null;
  /** Since when the virtual IPs may stay here, as no other host took one; null while they are to leave. */
  readonly vipStaysSince: Date | null;
  /** Whether the kernel holds what follows from that. */
  readonly isKept: boolean;
  /** Why not, or null. */
  readonly problem: string | null;
}

const answer = z.object({
  since: z.nullable(z.iso.datetime()),
  vipStaysSince: z.optional(z.nullable(z.iso.datetime())),
  isKept: z.boolean(),
  problem: z.nullable(line),
});

/** Where the agent of this network namespace says whether its host is drained. Each question makes it read its state folder again. */
export const drainPath = '/drain';

/** What the agent answers there. */
export function toDrainAnswer({ since, vipStaysSince, isKept, problem }: DrainState): object {
  return { since: toText(since), vipStaysSince: toText(vipStaysSince), isKept, problem };
}

/** What the running agent knows of its host's drain; null when none runs, or one of a version before drains. */
export async function askAgentDrain(): Promise<DrainState | null> {
  return readDrainAnswer(await askHolder(agentRole, drainPath));
}

/** Reads such an answer; null for anything else. Pure and total. */
export function readDrainAnswer(json: unknown): DrainState | null {
  const parsed = answer.safeParse(json);
  if (!parsed.success) return null;
  const { since, vipStaysSince = null, isKept, problem } = parsed.data;
  return { since: toDate(since), vipStaysSince: toDate(vipStaysSince), isKept, problem };
}

function toText(date: Date | null): string | null {
  return date?.toISOString() ?? null;
}

function toDate(text: string | null): Date | null {
  return text === null ? null : new Date(text);
}
