import { test, expect } from '@jest/globals';
import { toChances } from '../../../lib/dialect.ts';
import { matchNftChance as matchNft } from '../../../lib/nft/vip-rules.ts';
import { matchIptablesChance as matchIptables } from '../../../lib/iptables/vip-rules.ts';

test('without weights each choice is as likely: the first takes 1 of n, the next 1 of n - 1, the last all the rest', () => {
  const chances = toChances(['a', 'b', 'c']);
  expect(chances.map(({ choice, weight, left }) => `${choice}: ${weight} of ${left}`)).toEqual([
    'a: 1 of 3',
    'b: 1 of 2',
    'c: 1 of 1',
  ]);
  expect(chances.map(matchNft)).toEqual(['numgen random mod 3 0 ', 'numgen random mod 2 0 ', '']);
  expect(chances.map(matchIptables)).toEqual([
    '-m statistic --mode random --probability 0.3333333333 ',
    '-m statistic --mode random --probability 0.5000000000 ',
    '',
  ]);
});

test('with weights each takes its weight of what is left, and one of weight 0 has no rule', () => {
  const weights: Readonly<Record<string, number>> = { a: 4, b: 0, c: 2, d: 6 };
  const chances = toChances(Object.keys(weights), (name) => weights[name] ?? 0);
  expect(chances.map(({ choice }) => choice)).toEqual(['a', 'c', 'd']);
  expect(chances.map(matchNft)).toEqual(['numgen random mod 6 < 2 ', 'numgen random mod 4 0 ', '']);
  expect(chances.map(matchIptables)).toEqual([
    '-m statistic --mode random --probability 0.3333333333 ',
    '-m statistic --mode random --probability 0.2500000000 ',
    '',
  ]);
});

test('where all weights are 0 there is nothing to choose', () => {
  expect(toChances(['a', 'b'], () => 0)).toEqual([]);
});
