import { fc } from '../../support/random/fc.ts';
import { type Chance, toChances } from '../../../lib/dialect.ts';
import { matchIptablesChance as matchIptables } from '../../../lib/iptables/vip-rules.ts';
import { matchNftChance as matchNft } from '../../../lib/nft/vip-rules.ts';
import { describe, test, expect } from '@jest/globals';
import { forAll } from './for-all.ts';

type Backend = Readonly<Record<'name' | 'weight', number>>;

const backends = fc
  .array(fc.oneof(fc.nat(8), fc.nat(1000)), { maxLength: 12 })
  .map((weights) => weights.map((weight, name): Backend => ({ name, weight })));

/** iptables' rules have ten digits: twelve of them in a row add up their errors. */
const tolerance = 1e-8;

/** The probability that a rule's match tells the kernel; 1 where it has none. */
const dialects: Readonly<Record<string, (chance: Chance) => number>> = {
  iptables: (chance) => {
    const text = matchIptables(chance);
    return text === ''
      ? 1
      : Number(/^-m statistic --mode random --probability (\d\.\d{10}) $/.exec(text)?.[1]);
  },
  nftables: (chance) => {
    const text = matchNft(chance);
    if (text === '') return 1;
    const [, modulus, below] = /^numgen random mod (\d+) (?:0|< (\d+)) $/.exec(text) ?? [];
    return Number(below ?? 1) / Number(modulus);
  },
};

/** What part of all connections each backend gets from rules that are tried one after the other. */
function share(seen: readonly Backend[], readProbability: (chance: Chance) => number): Map<number, number> {
  let rest = 1;
  const shares = toChances(seen, ({ weight }) => weight).map(({ choice, ...chance }) => {
    const taken = rest * readProbability(chance);
    rest -= taken;
    return [choice.name, taken] as const;
  });
  return new Map(shares);
}

describe.each(Object.entries(dialects))('%s', (_, readProbability) => {
  test('each backend gets the share of new connections that its weight is of all, and one of weight 0 none', async () => {
    await forAll({}, [backends], (seen) => {
      const sum = seen.reduce((total, { weight }) => total + weight, 0);
      const shares = share(seen, readProbability);
      for (const { name, weight } of seen) {
        if (weight === 0) expect(shares.has(name)).toBe(false);
        else expect(Math.abs((shares.get(name) ?? 0) - weight / sum)).toBeLessThan(tolerance);
      }
    });
  });

  test('equal weights, whichever they are, read like none', async () => {
    await forAll(
      {},
      [fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 1000 })],
      (count, weight) => {
        const names = Array.from({ length: count }, (__, name) => name);
        expect(toChances(names, () => weight)).toEqual(toChances(names));
        expect(toChances(names).map(readProbability)[0]).toBeCloseTo(1 / count, 9);
      },
    );
  });
});
