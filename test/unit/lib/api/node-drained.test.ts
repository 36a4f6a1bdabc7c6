import { readDrained, formatDrained, dropDrained } from '../../../../lib/api/node.ts';
import { describe, test, expect } from '@jest/globals';

const read = (text: string) =>
  readDrained({
    metadata: {
      ...{ name: 'default', uid: 'u', resourceVersion: '1', generation: 1 },
      annotations: { 'vipnat.io/drained': text },
    },
  });

describe('the nodes that a pool’s annotation drains', () => {
  test('are read as they are written, each once, in order', () => {
    const drained = read(' w2/0 ,w1,w2/0');
    expect(drained).toEqual([
      { node: 'w2', seat: 0 },
      { node: 'w1', seat: null },
      { node: 'w2', seat: 0 },
    ]);
    expect(formatDrained(drained)).toBe('w1,w2/0');
    expect(formatDrained([])).toBeNull();
  });

  test.each(['', ',', 'W1', 'w1/x', 'w1/', '/0', 'w1 w2'])('are none in %j', (text) => {
    expect(read(text)).toEqual([]);
  });

  const nodes = ['w1', 'w2', 'w3'];
  const isAble = () => true;

  test('hold no seat, or not the one that is named', () => {
    const drained = read('w1,w2/0');
    expect(dropDrained(nodes, { drained, seat: null, isAble })).toEqual(['w2', 'w3']);
    expect(dropDrained(nodes, { drained, seat: 0, isAble })).toEqual(['w3']);
    expect(dropDrained(nodes, { drained, seat: 1, isAble })).toEqual(['w2', 'w3']);
  });

  test.each([
    ['is left', 'w1,w2,w3', isAble],
    ['that is left lives', 'w1,w2', (node: string) => node !== 'w3'],
  ])('hold it all the same where nobody %s', (_, text, isLiving) => {
    expect(dropDrained(nodes, { drained: read(text), seat: 0, isAble: isLiving })).toEqual(nodes);
  });
});
