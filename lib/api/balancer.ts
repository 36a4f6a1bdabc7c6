import type { Family } from '../net.ts';
import { type OwnerInfo, line, askLockOwner, balancerRole } from '../http/singleton.ts';
import type { VipnatError } from '../errors.ts';
import { nodeModes } from './node.ts';
import * as z from 'zod/mini';
import { familyToNft } from '../kernel/port.ts';

/** One of the balancer's tables. */
interface BalancerTable {
  readonly family: Family;
  /** For how many more seconds its rules count unless a balancer renews them; null where they do not count. */
  readonly aliveSeconds: number | null;
}

/** What is there of Services on this host. */
export interface HostBalancer {
  /** Null where none runs. */
  readonly balancer: OwnerInfo | null;
  /** Null where none runs, and while it does not say it: it has just begun, or is of an older version. */
  readonly activity: BalancerActivity | null;
  readonly tables: readonly BalancerTable[];
  /** Why the tables could not be read; null where they were. */
  readonly unread: VipnatError | null;
  /** The folder that balancer and keepalived share, as far as it is known here. */
  readonly runDir: string;
  /** Whether keepalived's configuration is in it. */
  readonly hasConfiguration: boolean;
}

/** Whether Services have anything on this host. Pure. */
export function isUsed({ balancer, tables, hasConfiguration }: HostBalancer): boolean {
  return balancer !== null || tables.length > 0 || hasConfiguration;
}

/** In milliseconds. A sync is a few runs of nft, which ends after seconds: one that takes longer hangs, which a restart can help. */
export const hangingMs = 120_000;

/** Why this node does not balance Services; null where it does. In a clause. */
export function findTrouble(host: HostBalancer): string | null {
  const { balancer, activity, tables } = host;
  if (!isUsed(host)) return null;
  if (balancer === null) return 'no balancer runs';
  if (activity === null) return 'the balancer does not say how it does';
  if (activity.behindMs >= hangingMs) return 'the balancer hangs';
  if (tables.some(({ aliveSeconds }) => aliveSeconds === null)) return 'its tables do not count';
  if (activity.mode === 'direct') return null;
  if (activity.mode === null) return 'the balancer has not written its tables yet';
  return activity.mode === 'none'
    ? 'this node can serve no address'
    : 'the balancer leaves them to kube-proxy';
}

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
  kept: z.optional(lines),
  isWatched: z.optional(z.nullable(z.boolean())),
  isControllerAway: z.optional(z.boolean()),
  /** Memories of which more than nine tenths are used: `ipv4 relayed/default/web/tcp/80/900`. */
  fullMemories: z.optional(lines),
});

/** How a running balancer does, as it says itself: of this host, without the Kubernetes API. */
export type BalancerActivity = z.infer<typeof answer>;

/** Where the balancer of this network namespace says it. */
export const activityPath = '/activity';

/** How the balancer of this network namespace does; null where none runs, or none says it. Never rejects. */
export async function askBalancerActivity(): Promise<BalancerActivity | null> {
  return answer.safeParse(await askLockOwner(balancerRole, activityPath)).data ?? null;
}

/** The name of the balancer's table. Whatever it holds is vipnat's: nobody else writes there. */
export const tableName = 'vipnat-lb';

/** `ip vipnat-lb` or `ip6 vipnat-lb`. */
export function nameTable(family: Family): string {
  return `${familyToNft[family]} ${tableName}`;
}

/** All of these, with commas between. */
export function nameTables(tables: readonly BalancerTable[]): string {
  return tables.map(({ family }) => nameTable(family)).join(', ');
}

/** A map that packets fill has no more elements. Source: nft_dynset_init. */
export const maxKeys = 65_535;

/** For how long packets are balanced after the balancer has last said that it lives. */
export const aliveSeconds = 30;
