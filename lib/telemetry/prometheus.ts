import { counted, sampled, type SampledName } from './catalogue.ts';
import { type Meter } from './meter.ts';
import { describeMetric, createSampler, type Sampler } from './sampler.ts';

/** All metrics of an agent, as Prometheus reads them. */
export interface Metrics extends Pick<Sampler<SampledName>, 'contentType' | 'print'> {
  /** Counts from now on. */
  readonly meter: Meter;
}

/** A look starts a few tools: tens of milliseconds on a quiet host, seconds where one waits for a lock. */
const lookBuckets = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Makes them, with the library that only who serves them loads. */
export async function createMetrics(): Promise<Metrics> {
  const { registry, contentType, print } = await createSampler(sampled);
  const { Counter, Histogram } = await import('prom-client');
  const { vipnat_look_duration_seconds: look, ...others } = counted;
  const lookOptions = describeMetric('vipnat_look_duration_seconds', look, registry);
  const histograms = {
    vipnat_look_duration_seconds: new Histogram({ ...lookOptions, buckets: lookBuckets }),
  };
  const counters = new Map(
    Object.entries(others).map(([name, definition]) => [
      name,
      new Counter(describeMetric(name, definition, registry)),
    ]),
  );
  return {
    meter: {
      count: (name, labels, amount = 1) => counters.get(name)?.inc(labels, amount),
      time: (name, seconds) => {
        histograms[name].observe(seconds);
      },
    },
    contentType,
    print,
  };
}
