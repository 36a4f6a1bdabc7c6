import { type CounterName, type HistogramName, type LabelsOf } from './catalogue.ts';

/**
 * Where what happens is counted. The agent's is made by prometheus.ts; test/support/fakes/meter.ts has one that tests read.
 * Never throws, and costs next to nothing.
 */
export interface Meter {
  /** Adds to a counter, 1 unless an amount is given. */
  count<Name extends CounterName>(name: Name, labels: LabelsOf<Name>, amount?: number): void;
  /** Adds one measured time. */
  time(name: HistogramName, seconds: number): void;
}

/** Counts nothing: nobody can ask. */
export const silentMeter: Meter = { count: () => undefined, time: () => undefined };
