import { judgeBalancerHealth, judgeBalancerReadiness } from './pages.ts';
import { balancerMetrics, listBalancerSamples, programmingDuration } from './samples.ts';
import { type BalancerState } from './state.ts';
import { systemClock } from '../../lib/control/clock.ts';
import { type Page, toText } from '../../lib/http/page.ts';
import { createProbePages } from '../../lib/http/probe-pages.ts';
import { listProcessSamples, processMetrics, readProcess } from '../../lib/telemetry/process-samples.ts';
import { createSampler, describeMetric } from '../../lib/telemetry/sampler.ts';
import { version } from '../../lib/text/version.ts';

/** What a balancer serves, and where it says how long changes take. */
export interface BalancerPages {
  readonly pages: ReadonlyMap<string, Page>;
  readonly time: (seconds: number) => void;
}

/** A change of a Service takes some tens of milliseconds, and the first list of a large cluster a second. */
const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10];

/** Makes them, with the library that only who serves them loads. Without a state the balancer waits for another one to end. */
export async function createBalancerPages(readState: () => BalancerState | null): Promise<BalancerPages> {
  const startedAt = systemClock.date();
  const { contentType, print, registry } = await createSampler({ ...processMetrics, ...balancerMetrics });
  const { Histogram } = await import('prom-client');
  const { name, definition } = programmingDuration;
  const histogram = new Histogram({ ...describeMetric(name, definition, registry), buckets });
  const waiting = () => toText(503, 'not ready: it waits for another balancer on this host to end');
  const pages = createProbePages({
    metrics: {
      contentType,
      print: () => {
        const state = readState();
        const samples = state === null ? [] : listBalancerSamples(state);
        return print([...listProcessSamples(readProcess(version, startedAt)), ...samples]);
      },
    },
    health: () => judgeBalancerHealth(readState() ?? { behindMs: 0 }),
    readiness: () => {
      const state = readState();
      return state === null ? waiting() : judgeBalancerReadiness(state);
    },
  });
  return {
    pages,
    time: (seconds) => {
      histogram.observe(seconds);
    },
  };
}
