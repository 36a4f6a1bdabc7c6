/**
 * What new connections each apiserver gets with the method `lc`: docs/adr/0028.
 *
 * Goal: an apiserver that came back gets its part of the connections that last, without a step of its own.
 * Tension: counts are seconds old, connections end by themselves, and each change of weights is a write.
 * Compromise: a part of the difference is made up for, never all. Small differences are left to chance.
 */
import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { unitsPerBackend, type Weights } from '../../lib/netfilter/rules/balance.ts';

/**
 * How much of a difference weights answer. With 1, connections that end before the next count would swing from one side to the other
 * for ever.
 */
const gain = 0.75;

/** No apiserver gets less than half of an equal part, whatever was counted. */
const leastPart = 0.5;

/** A difference between equal apiservers that chance makes once in thousands of counts, as a multiple of the mean's root. */
const chanceFactor = 6;

/** Fewer connections are no burden to anybody. */
const leastDifference = 10;

/** Weights are left as they are, unless one changes by a tenth of an equal part. */
const leastChange = unitsPerBackend / 10;

/**
 * The weights that counts ask for, given those that are in force: null for equal ones. Differences begin to count where chance does not
 * explain them, and end to count at a third of that. Each weight is above 0. Pure and total.
 */
export function weighByCounts(
  backends: readonly Endpoint[],
  counts: ReadonlyMap<string, number>,
  before: Weights | null,
): Weights | null {
  const texts = backends.map(formatEndpoint);
  const open = texts.map((text) => counts.get(text) ?? 0);
  const mean = open.reduce((sum, count) => sum + count, 0) / Math.max(1, open.length);
  const difference = Math.max(...open) - Math.min(...open);
  const most = Math.max(leastDifference, chanceFactor * Math.sqrt(mean), mean / 10);
  if (backends.length < 2 || difference <= (before === null ? most : most / 3)) return null;
  const parts = open.map((count) => Math.max(leastPart, 1 + (gain * (mean - count)) / mean));
  const wanted = toUnits(parts);
  const known = before === null ? undefined : fitWeights(before, backends);
  const isSmall = wanted.every(
    (weight, index) => Math.abs(weight - (known?.get(texts[index] ?? '') ?? unitsPerBackend)) < leastChange,
  );
  return isSmall ? before : new Map(texts.map((text, index) => [text, wanted[index] ?? unitsPerBackend]));
}

/** The same weights for other backends: one that is new gets an equal part; undefined where all are equal. Pure and total. */
export function fitWeights(weights: Weights, backends: readonly Endpoint[]): Weights | undefined {
  const texts = backends.map(formatEndpoint);
  const known = texts.map((text) => weights.get(text) ?? unitsPerBackend);
  if (known.every((weight) => weight === known[0])) return undefined;
  const isWhole = known.reduce((sum, weight) => sum + weight, 0) === known.length * unitsPerBackend;
  const fitted = isWhole ? known : toUnits(known);
  return new Map(texts.map((text, index) => [text, fitted[index] ?? unitsPerBackend]));
}

/** Whole numbers of the same proportions, as near as can be, that add up to `unitsPerBackend` for each; 1 at least. */
function toUnits(parts: readonly number[]): number[] {
  const total = parts.length * unitsPerBackend;
  const sum = parts.reduce((all, part) => all + part, 0);
  const exact = parts.map((part) => (part / sum) * total);
  const units = exact.map((one) => Math.max(1, Math.floor(one)));
  const byRest = exact
    .map((one, index) => ({ index, rest: one - Math.floor(one) }))
    .toSorted((one, other) => other.rest - one.rest);
  let missing = total - units.reduce((all, unit) => all + unit, 0);
  for (const { index } of byRest) {
    if (missing <= 0) break;
    units[index] = (units[index] ?? 0) + 1;
    missing -= 1;
  }
  return units;
}
