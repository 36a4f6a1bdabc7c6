import { describe, expect, test } from '@jest/globals';
import { formatWeights, readPodWeight, readWeights } from '../../../../lib/services/weights.ts';

describe('the weight of a pod', () => {
  test.each([
    ['0', 0],
    ['1', 1],
    [' 7 ', 7],
    ['256', 256],
    ['257', 1],
    ['-1', 1],
    ['1.5', 1],
    ['', 1],
    ['many', 1],
    ['0x10', 1],
  ])('%j counts as %d', (text, expected) => {
    expect(readPodWeight({ 'vipnat.io/weight': text })).toBe(expected);
  });

  test('is not there where nobody says it', () => {
    for (const annotations of [null, undefined, {}]) expect(readPodWeight(annotations)).toBeNull();
  });
});

describe('the weights of an EndpointSlice', () => {
  test('are read as they were written, without those that are usual, in one order', () => {
    const weights = new Map([
      ['fd00::9', 0],
      ['10.1.0.5', 1],
      ['10.1.0.4', 3],
    ]);
    const text = formatWeights(weights);
    expect(text).toBe('{"10.1.0.4":3,"fd00::9":0}');
    expect(readWeights({ 'vipnat.io/weights': text })).toEqual(
      new Map([
        ['10.1.0.4', 3],
        ['fd00::9', 0],
      ]),
    );
  });

  test('are not written where all are usual', () => {
    expect(formatWeights(new Map([['10.1.0.5', 1]]))).toBeNull();
  });

  test.each(['', '[', '7', '{"10.1.0.4":"3"}', '{"10.1.0.4":257}', '{"10.1.0.4":1.5}', '{"10.1.0.4":-1}'])(
    'are none where %j is there',
    (text) => {
      expect(readWeights({ 'vipnat.io/weights': text })).toEqual(new Map());
    },
  );
});
