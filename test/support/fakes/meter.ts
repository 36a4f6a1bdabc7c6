import { type Meter, counted } from '../../../lib/telemetry/metrics.ts';

/** A meter that tests read. As the real one it refuses labels that a metric does not have, and to count backwards. */
export class FakeMeter implements Meter {
  readonly #counts = new Map<string, number>();
  readonly times: number[] = [];

  readonly count: Meter['count'] = (name, labels, amount = 1) => {
    const given = Object.keys(labels).sort();
    if (given.join() !== [...counted[name].labels].sort().join())
      throw new TypeError(`${name} has not ${given.join()}`);
    if (!(amount >= 0)) throw new RangeError(`${name} cannot count ${amount}`);
    const key = [name, ...Object.values(labels)].join(' ');
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + amount);
  };

  readonly time: Meter['time'] = (seconds) => {
    this.times.push(seconds);
  };

  /** What has been counted so far, by the metric's name without `vipnat_` and its labels' values. Those that are still 0 are left out. */
  get counts(): Readonly<Record<string, number>> {
    const counted = [...this.#counts].filter(([, count]) => count > 0);
    return Object.fromEntries(counted.map(([key, count]) => [key.replace('vipnat_', ''), count]));
  }

  /** Everything that has a value, be it 0. */
  get known(): readonly string[] {
    return [...this.#counts.keys()];
  }
}
