import { type Page, toText } from '../../lib/http/page.ts';
import { createProbePages } from '../../lib/http/probe-pages.ts';
import { hangingMs } from '../../lib/telemetry/heartbeat.ts';
import { type ControllerState } from './state.ts';

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
function judgeReadiness({ isLeading, holder, world }: ControllerState): ReturnType<typeof toText> {
  if (isLeading && world === null)
    return toText(503, 'not ready: it leads, and does not know all objects yet');
  if (holder === null) return toText(503, 'not ready: it has not reached the API');
  return toText(200, isLeading ? 'ok: it leads' : 'ok: it waits for another to end');
}
