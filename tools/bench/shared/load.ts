import { cpus } from 'node:os';

/** What the machine had to do while figures were measured: a sentence. `loads` are load averages. */
export function describeLoad(loads: readonly number[]): string {
  const [least, most] = [Math.min(...loads), Math.max(...loads)];
  const range = `Load ${least.toFixed(0)} to ${most.toFixed(0)}`;
  return most <= 2 * cpus().length ? `${range}.` : `${range}, of other programs: compare rows.`;
}
