import type { Counter, Gauge, Registry } from 'prom-client';
import { type MetricDefinition } from './catalogue.ts';

/** One value of one metric. */
export interface AnySample<Name extends string = string> {
  readonly name: Name;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Metrics whose values are read from a state when somebody asks. */
export interface Sampler<Name extends string> {
  readonly registry: Registry;
  /** How the text is to be called in an answer. */
  readonly contentType: string;
  /** The text for Prometheus, with these values. One at a time. */
  readonly print: (samples: readonly AnySample<Name>[]) => Promise<string>;
}

/** What the library wants to know of a metric. */
export function describeMetric(
  name: string,
  { help, labels }: MetricDefinition,
  registry: Registry,
): { name: string; help: string; labelNames: string[]; registers: Registry[] } {
  return { name, help, labelNames: [...labels], registers: [registry] };
}

/** Makes them, with the library that only who serves them loads. */
export async function createSampler<Name extends string>(
  definitions: Readonly<Record<Name, MetricDefinition>>,
): Promise<Sampler<Name>> {
  const { Registry, Counter, Gauge } = await import('prom-client');
  const registry = new Registry();
  const values = new Map<string, Counter | Gauge>(
    Object.entries<MetricDefinition>(definitions).map(([name, definition]) => {
      const options = describeMetric(name, definition, registry);
      return [name, definition.type === 'counter' ? new Counter(options) : new Gauge(options)];
    }),
  );
  return {
    registry,
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
