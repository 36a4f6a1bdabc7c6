import { expect, test } from '@jest/globals';
import { fc } from '../../support/random/fc.ts';
import { weighByCounts } from '../../../agent/decide/weigh-apiservers.ts';
import { formatEndpoint } from '../../../lib/address/endpoint.ts';
import {
  readWeights,
  unitsPerBackend,
  type Weights,
  weighWith,
} from '../../../lib/netfilter/rules/balance.ts';
import { toChances } from '../../../lib/netfilter/rules/chance.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { chooseRuns } from '../../support/random/runs.ts';

const makeBackends = (count: number) =>
  Array.from({ length: count }, (_, index) => toEndpoint(`10.0.0.${index + 1}:6443`));

const open = fc.array(fc.nat(2000), { minLength: 2, maxLength: 5 });

test('weights are whole, add up, leave nobody without, and are read back from the chances that rules have', () => {
  fc.assert(
    fc.property(open, (counts) => {
      const backends = makeBackends(counts.length);
      const weights = weighByCounts(backends, toCounts(counts), null);
      if (weights === null) return;
      const values = [...weights.values()];
      expect(values.reduce((sum, one) => sum + one, 0)).toBe(counts.length * unitsPerBackend);
      expect(Math.min(...values)).toBeGreaterThanOrEqual(unitsPerBackend / 4);
      const parts = toChances(backends, weighWith(weights)).map(({ weight, left }) => weight / left);
      expect([...(readWeights(backends, parts) ?? [])]).toEqual([...weights]);
    }),
  );
});

interface Traffic {
  readonly counts: readonly number[];
  /** In ten seconds. */
  readonly arrivals: number;
  /** The part of open connections that ends in ten seconds. */
  readonly ending: number;
  readonly seed: number;
}

const traffic = fc.record({
  counts: open,
  arrivals: fc.integer({ min: 1, max: 1000 }),
  ending: fc.constantFrom(0, 0.01, 0.1, 0.5, 1),
  seed: fc.integer(),
});

test('from any counts, shares become equal and stay so, for connections of any life', () => {
  fc.assert(
    fc.property(traffic, (one) => {
      const { changes, counts } = run(one);
      // Chance alone makes a difference now and then: hardly any of the last looks finds one.
      const late = changes.filter((at) => at > rounds / 2).length;
      expect(late).toBeLessThanOrEqual(rounds / 20);
      const mean = counts.reduce((sum, count) => sum + count, 0) / counts.length;
      const difference = Math.max(...counts) - Math.min(...counts);
      expect(difference).toBeLessThanOrEqual(1.5 * Math.max(10, 6 * Math.sqrt(mean), mean / 10));
    }),
    { numRuns: chooseRuns(50) },
  );
});

const rounds = 400;

/** The rounds in which weights changed, and the counts in the end. Enough arrive to make up for any difference. */
function run({ counts: first, arrivals, ending, seed }: Traffic): { changes: number[]; counts: number[] } {
  const backends = makeBackends(first.length);
  const random = createRandom(seed);
  const total = first.reduce((sum, count) => sum + count, 0);
  // As many rounds as there are for those that arrive rarely and never end, with all that arrives in them.
  const perRound = Math.max(arrivals, ending === 0 ? Math.ceil((4 * total) / rounds) : arrivals);
  let counts = [...first];
  let weights: Weights | null = null;
  const changes: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const next: Weights | null = weighByCounts(backends, toCounts(counts), weights);
    if (next !== weights) changes.push(round);
    weights = next;
    counts = counts.map((count) => count - draw(count, ending, random));
    let left = perRound;
    const chances = toChances(backends, weighWith(weights ?? undefined));
    for (const [at, chance] of chances.entries()) {
      const taken = draw(left, chance.weight / chance.left, random);
      counts[at] = (counts[at] ?? 0) + taken;
      left -= taken;
    }
  }
  return { changes, counts };
}

/** How many of so many, each with this chance: one by one where they are few, else by the normal distribution. */
function draw(count: number, chance: number, random: () => number): number {
  if (chance === 0 || chance === 1) return count * chance;
  const mean = count * chance;
  const deviation = Math.sqrt(mean * (1 - chance));
  if (deviation > 3) {
    const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    return Math.min(count, Math.max(0, Math.round(mean + deviation * normal)));
  }
  let some = 0;
  for (let one = 0; one < count; one += 1) if (random() < chance) some += 1;
  return some;
}

/** Mulberry32. */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

function toCounts(counts: readonly number[]): Map<string, number> {
  return new Map(
    makeBackends(counts.length).map((backend, index) => [formatEndpoint(backend), counts[index] ?? 0]),
  );
}
