import { type Counter, type Gauge } from 'prom-client';
import { counted, type MetricDefinition, sampled, type Sample } from './catalogue.ts';
import { type Meter } from './meter.ts';

/** All metrics of a process, as Prometheus reads them. */
export interface Metrics {
  /** Counts from now on. */
  readonly meter: Meter;
  /** How the text is to be called in an answer. */
  readonly contentType: string;
  /** The text for Prometheus, with these values of what is read from the state. One at a time. */
  readonly print: (samples: readonly Sample[]) => Promise<string>;
}

/** A look starts a few tools: tens of milliseconds on a quiet host, seconds where one waits for a lock. */
const lookBuckets = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Makes them, with the library that only who serves them loads. */
export async function createMetrics(): Promise<Metrics> {
  const { Registry, Counter, Gauge, Histogram } = await import('prom-client');
  const registry = new Registry();
  const describe = (name: string, { help, labels }: MetricDefinition) => ({
    name,
    help,
    labelNames: [...labels],
    registers: [registry],
  });
  const values = new Map<string, Counter | Gauge>(
    Object.entries(sampled).map(([name, definition]) => {
      const options = describe(name, definition);
      return [name, definition.type === 'counter' ? new Counter(options) : new Gauge(options)];
    }),
  );
  const { vipnat_look_duration_seconds: look, ...others } = counted;
  const lookOptions = describe('vipnat_look_duration_seconds', look);
  const histograms = {
    vipnat_look_duration_seconds: new Histogram({ ...lookOptions, buckets: lookBuckets }),
  };
  const counters = new Map(
    Object.entries(others).map(([name, definition]) => [name, new Counter(describe(name, definition))]),
  );
  return {
    meter: {
      count: (name, labels, amount = 1) => counters.get(name)?.inc(labels, amount),
      time: (name, seconds) => {
        histograms[name].observe(seconds);
      },
    },
    contentType: registry.contentType,
    print: async (samples) => {
      for (const value of values.values()) forget(value);
      for (const { name, labels, value } of samples) values.get(name)?.inc(labels, value);
      return await registry.metrics();
    },
  };
}

/** Also the value that the library gives to what has no labels: unknown is not 0. */
function forget(value: Counter | Gauge): void {
  value.reset();
  value.remove({});
}
