/** Another program that takes back what a controller writes into one object's status, each time. */
import type { Kind, StoredObject, Written } from '../../../support/fakes/object-api.ts';
import type { Cluster } from './cluster.ts';
import type { Random } from '../../../support/random/random.ts';
import { mayBeOurs, listIps } from './invariants.ts';
import type { Write } from '../../../../controller/step.ts';

/** What it wants, and of which object. */
export interface Rewriter {
  readonly kind: Kind;
  readonly key: string;
  readonly status: Readonly<Record<string, unknown>>;
}

/** Seats stay: without them nobody could hold the pool's addresses. */
const kindToStatuses = {
  Service: [{ loadBalancer: { ingress: null } }, { conditions: null }],
  VirtualIP: [{ conditions: null }, { seatHolder: 'node-9' }, { releasedAt: null }],
  AddressPool: [{ conditions: null }],
} as const satisfies Partial<Record<Kind, readonly Rewriter['status'][]>>;

/** It begins with an object, or ends. Answers which one; null where there is none. */
export function toggleRewriter(cluster: Cluster, random: Random): string | null {
  const before = cluster.rewriter;
  cluster.rewriter = null;
  if (before !== null) return 'ends';
  const kind = random.pick(['Service', 'Service', 'VirtualIP', 'AddressPool'] as const);
  const keys = [...cluster.api.list(kind)].filter(([, each]) => isRewritten(kind, each)).map(([key]) => key);
  if (keys.length === 0) return null;
  const key = random.pick(keys);
  const status = random.pick<Rewriter['status']>(kindToStatuses[kind]);
  cluster.rewriter = { kind, key, status };
  cluster.api.patch(kind, key, { status }, true);
  return `${kind}/${key}: ${JSON.stringify(status)}`;
}

function isRewritten(kind: Kind, object: StoredObject): boolean {
  return kind !== 'Service' || (mayBeOurs(object) && listIps(object).length > 0);
}

/** Takes back what was written, if that is of its object. */
export function rewrite({ api, rewriter }: Cluster, { kind, key, after }: Written): void {
  if (rewriter === null || after === null || kind !== rewriter.kind || key !== rewriter.key) return;
  // What changes nothing has no new version: so this ends.
  api.patch(kind, key, { status: rewriter.status }, true);
}

/** S8: equal writes of one key in a minute. */
const mostEqual = 11;
const spanMs = 60_000;

/** Counts what one controller writes again and again. */
export class WriteCounts {
  readonly #textToMs = new Map<string, readonly number[]>();

  /** It was written for a key, or refused as old. Answers what is wrong with that. */
  note(key: string, { method, path, body }: Write, nowMs: number): string | null {
    const text = `${key}: ${method} ${path} ${JSON.stringify(body, (name, value: unknown) => (news.has(name) ? undefined : value))}`;
    const times = [...(this.#textToMs.get(text) ?? []).filter((ms) => nowMs - ms < spanMs), nowMs];
    this.#textToMs.set(text, times);
    return times.length > mostEqual ? `S8: ${times.length} times in a minute: ${text}` : null;
  }
}

/** Differences that are none (S8). */
const news: ReadonlySet<string> = new Set([
  'resourceVersion',
  'lastTransitionTime',
  'releasedAt',
  'renewal',
  'message',
]);
