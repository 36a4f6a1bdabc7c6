import { type ControllerPageSources } from './pages.ts';
import { controllerMetrics, drainStart, listControllerSamples } from './samples.ts';
import { systemClock } from '../../lib/control/clock.ts';
import { listProcessSamples, processMetrics, readProcess } from '../../lib/telemetry/process-samples.ts';
import { createSampler, describeMetric } from '../../lib/telemetry/sampler.ts';
import { version } from '../../lib/text/version.ts';

/** What a controller's metrics are printed from, and where it says how long drains take to start. */
export interface ControllerMeter {
  readonly metrics: ControllerPageSources['metrics'];
  readonly time: (seconds: number) => void;
}

/** A sleep before the end of a pod is some seconds: what takes longer than a minute is broken. */
const buckets = [0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60];

/** Makes it, with the library that only who serves metrics loads. */
export async function createControllerMeter(): Promise<ControllerMeter> {
  const startedAt = systemClock.date();
  const { contentType, print, registry } = await createSampler({ ...processMetrics, ...controllerMetrics });
  const { Histogram } = await import('prom-client');
  const { name, definition } = drainStart;
  const histogram = new Histogram({ ...describeMetric(name, definition, registry), buckets });
  return {
    metrics: {
      contentType,
      print: (state) =>
        print([...listProcessSamples(readProcess(version, startedAt)), ...listControllerSamples(state)]),
    },
    time: (seconds) => {
      histogram.observe(seconds);
    },
  };
}
