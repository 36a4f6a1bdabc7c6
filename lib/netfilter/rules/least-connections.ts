/**
 * The method `lc`: what new connections each target gets, by the open ones that were counted (docs/adr/0028). For apiservers and for pods.
 *
 * Goal: a target that came back gets its part of the connections that last, without a step of its own.
 * Tension: counts are seconds old, connections end by themselves, and each change of shares is a write.
 * Compromise: a part of the difference is made up for, never all. Small differences are left to chance.
 */

/**
 * How much of a difference shares answer. With 1, connections that end before the next count would swing from one side to the other
 * for ever.
 */
const gain = 0.75;

/** No target gets less than half of its part, whatever was counted. */
const leastPart = 0.5;

/** A difference from what is expected that chance makes once in thousands of counts, as a multiple of its root. */
const chanceFactor = 4;

/** So many connections more or less are no burden to anybody, nor is a twentieth of what is expected. */
const [leastDifference, leastRatio] = [5, 1 / 20];

/** Changes of shares below a tenth of a part are not worth a write. */
export const leastChange = 0.1;

/** A target of new connections. */
export interface CountedTarget {
  /** How many open connections it has. */
  readonly count: number;
  /** How many it is to have, compared with the others. Where all have 0, all are alike. */
  readonly weight: number;
}

/**
 * What each target gets, as a multiple of its part by weight: 1 where chance explains the difference, from `leastPart` to 1.75 elsewhere. With
 * equal weights, its share is between 2/7 and 2.5 times an even one. `isUneven` says whether any gets more or less already: smaller differences
 * count then, so that shares do not come and go. Pure and total.
 */
export function shareByCounts(targets: readonly CountedTarget[], isUneven: boolean): number[] {
  const total = sum(targets.map(({ count }) => count));
  const weights = targets.map(({ weight }) => weight);
  const all = sum(weights);
  return targets.map(({ count }, at) => {
    const expected = total * (all === 0 ? 1 / targets.length : (weights[at] ?? 0) / all);
    const most = findTolerance(expected, targets.length, isUneven);
    if (Math.abs(count - expected) <= most) return 1;
    return Math.max(leastPart, 1 + (gain * (expected - count)) / expected);
  });
}

/** Where shares are uneven: what all of so many targets keep to by chance, in more than every other count. */
function findTolerance(expected: number, targets: number, isUneven: boolean): number {
  const least = Math.max(leastDifference, expected * leastRatio);
  return isUneven
    ? Math.max(least / 3, Math.sqrt(2 * Math.log(targets) * expected))
    : Math.max(least, chanceFactor * Math.sqrt(expected));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((before, one) => before + one, 0);
}
