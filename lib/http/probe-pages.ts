import { type Answer, type Page } from './page.ts';

/** What kubelet and Prometheus ask a program for. */
export interface ProbePageSources {
  readonly metrics: { readonly contentType: string; readonly print: () => Promise<string> };
  /** Whether a restart could help it: 500, and why. */
  readonly health: () => Answer;
  /** Whether it does its work: 503, and why not. */
  readonly readiness: () => Answer;
}

/** `/metrics`, `/healthz` and `/readyz` of a program, by path. */
export function createProbePages({
  metrics,
  health,
  readiness,
}: ProbePageSources): ReadonlyMap<string, Page> {
  return new Map<string, Page>([
    ['/metrics', async () => ({ status: 200, type: metrics.contentType, text: await metrics.print() })],
    ['/healthz', health],
    ['/readyz', readiness],
  ]);
}
