import { type Page, toText } from '../../lib/http/page.ts';
import { createProbePages } from '../../lib/http/probe-pages.ts';
import { hangingMs } from '../../lib/telemetry/heartbeat.ts';
import { type QueueStatistics } from '../../lib/control/keyed-queue.ts';
import { type Execution } from '../engine/execute.ts';
import { type World } from '../cache/world.ts';
import { type WebhookState } from '../webhook/webhook.ts';

/** How a controller does: what health and metrics say. */
export interface ControllerState {
  readonly isLeading: boolean;
  /** Who leads, as far as is known; null before anything is. */
  readonly holder: string | null;
  /** Each kind of objects that it reads while it leads, to whether it is not lost. */
  readonly kinds: ReadonlyMap<string, boolean>;
  /** Null while it does not lead, or before all objects are known. */
  readonly world: World | null;
  readonly statistics: QueueStatistics | null;
  /** Devices, to how many requests each got since this process leads. */
  readonly deviceCalls: ReadonlyMap<string, number>;
  /** Objects that cannot be read, and are left out. */
  readonly unreadable: readonly { readonly kind: string; readonly object: string }[];
  /** Writes since the start, by what became of them. */
  readonly writes: ReadonlyMap<Execution['result'], number>;
  /** Null where it serves none. */
  readonly webhook: WebhookState | null;
}

/** Where the pages come from. */
export interface ControllerPageSources {
  readonly state: () => ControllerState;
  readonly metrics: { readonly contentType: string; print(state: ControllerState): Promise<string> };
}

/** What a running controller serves, by path, as kubelet and Prometheus ask for it. */
export function createControllerPages({ state, metrics }: ControllerPageSources): ReadonlyMap<string, Page> {
  return createProbePages({
    metrics: { contentType: metrics.contentType, print: () => metrics.print(state()) },
    health: () => judgeHealth(state()),
    readiness: () => judgeReadiness(state()),
  });
}

/** For how long the step under way has lasted. It is a few requests of at most 4 s each: one that takes two minutes hangs. */
export function getBehindMs({ statistics }: Pick<ControllerState, 'statistics'>): number {
  return statistics?.longestTurnMs ?? 0;
}

function judgeHealth(state: ControllerState): ReturnType<typeof toText> {
  const turnMs = getBehindMs(state);
  if (turnMs < hangingMs) return toText(200, 'ok');
  return toText(500, `the controller hangs: one step has taken ${Math.round(turnMs / 1000)} s`);
}

/** Who waits for its turn is ready to take over. */
function judgeReadiness({ isLeading, holder, world, webhook }: ControllerState): ReturnType<typeof toText> {
  if (isLeading && world === null)
    return toText(503, 'not ready: it leads, and does not know all objects yet');
  if (holder === null) return toText(503, 'not ready: it has not reached the API');
  // API servers ask only pods that are ready.
  if (webhook?.isServing === false) return toText(503, 'not ready: it does not serve the webhook yet');
  return toText(200, isLeading ? 'ok: it leads' : 'ok: it waits for another to end');
}
