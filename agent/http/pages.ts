import { podParameter } from '../../lib/telemetry/pod-kind.ts';
import { type Answer, type Page, toText } from '../../lib/http/page.ts';
import { hangingMs } from '../../lib/telemetry/heartbeat.ts';

/** Where the pages that are about the agent come from. */
export interface PageSources {
  /** Which pod's probes are about this agent (VIPNAT_POD); null for an agent in none. */
  readonly pod: string | null;
  /** For how long the loop has been at one look, or late for the next. */
  readonly behindMs: () => number;
  /** Why the agent is not ready, or null. */
  readonly notReadyReason: () => string | null;
  /** The metrics, as Prometheus reads them. */
  readonly metrics: { readonly contentType: string; print(): Promise<string> };
  /** `status --json`; null before the first look. */
  readonly status: () => Promise<string | null>;
}

/** By path: the agent's pages, as kubelet and Prometheus ask for them. */
export function createPages({
  pod,
  behindMs,
  notReadyReason,
  metrics,
  status,
}: PageSources): ReadonlyMap<string, Page> {
  const isForAnother = (query: URLSearchParams) => query.has(podParameter) && query.get(podParameter) !== pod;
  return new Map<string, Page>([
    ['/metrics', async () => ({ status: 200, type: metrics.contentType, text: await metrics.print() })],
    ['/healthz', (query) => (isForAnother(query) ? toText(200, 'ok') : toHealth(behindMs()))],
    [
      '/readyz',
      (query) => {
        const reason = isForAnother(query) ? describeOther(pod) : notReadyReason();
        return reason === null ? toText(200, 'ok') : toText(503, `not ready: ${reason}`);
      },
    ],
    [
      '/status',
      async () => {
        const text = await status();
        if (text === null) return toText(503, 'no sync has succeeded yet');
        return { status: 200, type: 'application/json', text };
      },
    ],
  ]);
}

/** Whether the agent is alive, by how long its loop is behind. */
function toHealth(behindMs: number): Answer {
  if (behindMs < hangingMs) return toText(200, 'ok');
  return toText(
    500,
    `the agent hangs: its sync has been running or overdue for ${Math.round(behindMs / 1000)} s`,
  );
}

function describeOther(pod: string | null): string {
  return `waiting for another agent, which runs on this host ${pod === null ? 'outside any pod' : `from a ${pod}`}`;
}
