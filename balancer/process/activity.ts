import { type BalancerActivity } from '../../lib/services/balancer-activity.ts';
import { type BalancerState } from '../report/state.ts';

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
