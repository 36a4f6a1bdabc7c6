import * as z from 'zod/mini';
import { askHolder, balancerRole, line } from '../http/singleton.ts';
import { nodeModes } from './node-report.ts';

/** Of a node: more seats than a balancer may hold make no sense. */
const maxSeats = 10_000;

const lines = z.array(line).check(z.maxLength(maxSeats));

const answer = z.object({
  node: line,
  runDir: line,
  mode: z.nullable(z.enum(nodeModes)),
  services: z.number(),
  elements: z.number(),
  seats: lines,
  held: lines,
  inUse: lines,
  isFollowing: z.boolean(),
  syncedMsAgo: z.nullable(z.number()),
  behindMs: z.number(),
  repairs: z.number(),
  /** A balancer of an older version does not say them. */
  out: z.optional(lines),
  lost: z.optional(lines),
  unheard: z.optional(lines),
  left: z.optional(lines),
  zone: z.optional(z.nullable(line)),
  ending: z.optional(lines),
});

/** How a running balancer does, as it says itself: of this host, without the Kubernetes API. */
export type BalancerActivity = z.infer<typeof answer>;

/** Where the balancer of this network namespace says it. */
export const activityPath = '/activity';

/** How the balancer of this network namespace does; null where none runs, or none says it. Never rejects. */
export async function askBalancerActivity(): Promise<BalancerActivity | null> {
  return readActivity(await askHolder(balancerRole, activityPath));
}

/** Reads such an answer; null for anything else. Pure and total. */
export function readActivity(json: unknown): BalancerActivity | null {
  const parsed = answer.safeParse(json);
  return parsed.success ? parsed.data : null;
}
