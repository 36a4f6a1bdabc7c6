import { expect, test } from '@jest/globals';
import { CandidateNodes } from '../../../../controller/cache/candidate-nodes.ts';
import { makeNode, makePool, makeReport } from '../../../support/fakes/service-objects.ts';

/** Candidates of one pool: each node with the version that it is at, in the order in which they came. */
function createCandidates(nodeToVersion: Readonly<Record<string, number>>): CandidateNodes {
  const names = Object.keys(nodeToVersion);
  return new CandidateNodes(
    new Map([['default', makePool('default', { addresses: ['10.0.9.10'] })]]),
    new Map(names.map((name) => [name, makeNode(name)])),
    new Map(names.map((name) => [name, makeReport(name, nodeToVersion[name] ?? 0)])),
  );
}

test('who is behind is named in order, whoever came first: a condition says the same all the time', () => {
  const orders = [
    { w1: 4, w2: 4, w3: 9, w4: 4 },
    { w4: 4, w3: 9, w2: 4, w1: 4 },
  ];
  for (const order of orders) {
    const candidates = createCandidates(order);
    expect(candidates.listBehind('default', '5')).toEqual(['w1', 'w2', 'w4']);
    expect(candidates.listNotForgotten('5')).toEqual(['w1', 'w2', 'w4']);
  }
});

test('all have a version when the last one has, and a pool without nodes has each', () => {
  const haveProgrammed = (nodes: Readonly<Record<string, number>>, version: string) =>
    createCandidates(nodes).haveProgrammed('default', 'virtualips', version);
  expect(['4', '5'].map((version) => haveProgrammed({ w1: 9, w2: 4 }, version))).toEqual([true, false]);
  expect(haveProgrammed({}, '5')).toBe(true);
});
