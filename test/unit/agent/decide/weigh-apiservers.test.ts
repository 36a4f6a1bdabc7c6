import { describe, expect, test } from '@jest/globals';
import { fitWeights, weighByCounts } from '../../../../agent/decide/weigh-apiservers.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';

const [one, two, three] = ['10.0.0.11:6443', '10.0.0.12:6443', '10.0.0.13:6443'] as const;
const backends = [one, two, three].map(toEndpoint);
const weigh = (counts: readonly number[], before: readonly number[] | null = null) => {
  const toMap = (values: readonly number[]) =>
    new Map([one, two, three].map((text, index) => [text, values[index] ?? 0]));
  const weights = weighByCounts(backends, toMap(counts), before === null ? null : toMap(before));
  return weights === null ? null : [...weights.values()];
};

describe('new connections by open ones', () => {
  test('an apiserver that came back gets more than half, the others at least half of an equal part', () => {
    expect(weigh([150, 150, 0])).toEqual([13, 12, 35]);
  });

  test.each([
    ['the same everywhere', [100, 100, 100]],
    ['as chance makes them', [90, 100, 125]],
    ['few', [0, 5, 10]],
    ['none', [0, 0, 0]],
  ])('counts that are %s ask for equal shares', (_, counts) => {
    expect(weigh(counts)).toBeNull();
  });

  test('weights stay while counts change little, and end once the difference is a third of where they began', () => {
    expect(weigh([150, 149, 2], [13, 12, 35])).toEqual([13, 12, 35]);
    expect(weigh([120, 120, 60], [13, 12, 35])).not.toBeNull();
    expect(weigh([110, 110, 95], [13, 12, 35])).toBeNull();
  });

  test('counts of an apiserver that is not usable do not matter, and a single one needs no weights', () => {
    const counts = new Map([[one, 500]]);
    expect(weighByCounts(backends.slice(1), counts, null)).toBeNull();
    expect(weighByCounts(backends.slice(0, 1), counts, null)).toBeNull();
  });
});

describe('weights where the apiservers have changed', () => {
  const weights = new Map([
    [one, 13],
    [two, 12],
    [three, 35],
  ]);

  test('keep their proportions, in units that can be read back', () => {
    const fitted = [...(fitWeights(weights, backends.slice(1)) ?? [])];
    expect(fitted.map(([text]) => text)).toEqual([two, three]);
    expect(fitted.reduce((sum, [, weight]) => sum + weight, 0)).toBe(40);
  });

  test('are none for a single one', () => {
    expect(fitWeights(weights, backends.slice(2))).toBeUndefined();
  });
});
