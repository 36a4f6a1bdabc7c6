/** What new connections each apiserver gets with the method `lc`, as weights of rules: docs/adr/0028. */
import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { unitsPerBackend, type Weights } from '../../lib/netfilter/rules/balance.ts';
import { leastChange, shareByCounts } from '../../lib/netfilter/rules/least-connections.ts';

/**
 * The weights that counts ask for, given those that are in force: null for equal ones. Each weight is above 0. They stay as they are
 * unless one changes by a tenth of an equal part. Pure and total.
 */
export function weighByCounts(
  backends: readonly Endpoint[],
  counts: ReadonlyMap<string, number>,
  before: Weights | null,
): Weights | null {
  const texts = backends.map(formatEndpoint);
  const targets = texts.map((text) => ({ count: counts.get(text) ?? 0, weight: 1 }));
  const parts = shareByCounts(targets, before !== null);
  if (parts.every((part) => part === 1)) return null;
  const wanted = toUnits(parts);
  const known = before === null ? undefined : fitWeights(before, backends);
  const isSmall = wanted.every(
    (weight, index) =>
      Math.abs(weight - (known?.get(texts[index] ?? '') ?? unitsPerBackend)) < leastChange * unitsPerBackend,
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
