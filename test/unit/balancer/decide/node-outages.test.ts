import { expect, test } from '@jest/globals';
import { applyOutages, listSilent, noOutages } from '../../../../balancer/decide/node-outages.ts';
import { type Backend, chooseServing } from '../../../../lib/services/endpoints.ts';

function make(node: string | null, state: 'ready' | 'serving' | 'not ready' = 'ready'): Backend {
  const address = `10.244.0.${node?.slice(1) ?? 9}`;
  const isEnding = state === 'serving';
  const conditions = { isReady: state === 'ready', isEnding, isServingLast: isEnding };
  return { address, port: 80, weight: 1, node, zone: null, ...conditions, forZones: [], forNodes: [] };
}

const all = [make('w1'), make('w2'), make('w3'), make(null)];
const out = (nodes: readonly string[], lost: readonly string[] = []) => ({
  out: new Set(nodes),
  lost: new Set(lost),
});
const nodesOf = (backends: readonly Backend[]) => backends.map(({ node }) => node);

test('without outages all stays as it is', () => {
  expect(applyOutages(all, noOutages)).toBe(all);
  expect(applyOutages(all, out(['w9']))).toBe(all);
});

test('the endpoints of nodes that are out take no new connection, and are still there', () => {
  const left = applyOutages(all, out(['w2']));
  expect(nodesOf(chooseServing(left))).toEqual(['w1', 'w3', null]);
  expect(nodesOf(left)).toEqual(nodesOf(all));
  expect(nodesOf(listSilent(left, out(['w2'])))).toEqual(['w2']);
});

test('those of nodes that are lost are gone', () => {
  const left = applyOutages(all, out(['w1', 'w2'], ['w2']));
  expect(nodesOf(left)).toEqual(['w1', 'w3', null]);
});

test('where nobody would be left, all serve as before, also those of lost nodes', () => {
  const some = [make('w1'), make('w2', 'not ready')];
  const outages = out(['w1'], ['w1']);
  expect(applyOutages(some, outages)).toBe(some);
  expect(listSilent(applyOutages(some, outages), outages)).toEqual([]);
});

test('an endpoint that ends and still answers is better than one on a node that does not', () => {
  const left = applyOutages([make('w1'), make('w2', 'serving')], out(['w1']));
  expect(nodesOf(chooseServing(left))).toEqual(['w2']);
});
