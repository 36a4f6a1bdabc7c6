import { cpus } from 'node:os';

/** What the machine had to do while figures were measured: a sentence, or two. `loads` are load averages. */
export function describeLoad(loads: readonly number[]): string {
  const [least, most] = [Math.min(...loads), Math.max(...loads)];
  const range = `The machine's load was ${least.toFixed(0)} to ${most.toFixed(0)} during these rounds.`;
  if (most <= 2 * cpus().length) return range;
  return `${range} So other programs kept its processors busy: compare rows, not times.`;
}
