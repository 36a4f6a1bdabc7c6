import * as z from 'zod/mini';
import { askHolder, line } from '../../lib/http/presence.ts';
import { nodeModes } from '../../lib/services/node-report.ts';
import { type BalancerState } from '../report/state.ts';
import { balancerRole } from './presence.ts';

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

/** What stays the same as long as it runs. */
export interface BalancerPlace {
  /** As the API names it. */
  readonly node: string;
  /** What it shares with its keepalived. */
  readonly runDir: string;
}

/** What it answers there. Pure. */
export function toActivity(
  state: BalancerState,
  { node, runDir }: BalancerPlace,
  now: Date,
): BalancerActivity {
  const { mode, services, elements, seats, held, inUse, isFollowing, syncedAt, behindMs, counts } = state;
  const { outages, unheard, left, zone, endings } = state;
  return {
    ...{ node, runDir, mode, services, elements, isFollowing, behindMs },
    ...{ seats: [...seats], held: [...held], inUse: [...inUse] },
    syncedMsAgo: syncedAt === null ? null : Math.max(0, now.getTime() - syncedAt.getTime()),
    repairs: counts.repairs,
    ...{ out: [...outages.out], lost: [...outages.lost], unheard: [...unheard], left: [...left] },
    ...{ zone, ending: [...endings.keys()] },
  };
}

/** How the balancer of this network namespace does; null where none runs, or none says it. Never rejects. */
export async function askBalancerActivity(): Promise<BalancerActivity | null> {
  return readActivity(await askHolder(balancerRole, activityPath));
}

/** Reads such an answer; null for anything else. Pure and total. */
export function readActivity(json: unknown): BalancerActivity | null {
  const parsed = answer.safeParse(json);
  return parsed.success ? parsed.data : null;
}
