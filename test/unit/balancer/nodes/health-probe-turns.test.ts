import { ProbeTurns } from '../../../../balancer/nodes/health.ts';
import { test, expect } from '@jest/globals';

const pace = { intervalMs: 5000, perSecond: 20 };

/** Turns of nodes that were all taken once at 0, and none of which is due before. */
function start(nodes: readonly string[], random = () => 0, its = pace): ProbeTurns {
  const turns = new ProbeTurns(random, its);
  turns.setNodes(new Set(nodes), 0);
  nodes.forEach((_, index) => turns.take(index * 1000));
  return turns;
}

test('a node is asked again after its interval, and one of which something is doubtful after 200 ms', () => {
  for (const [isDoubtful, dueAt] of [
    [false, 5000],
    [true, 200],
  ] as const) {
    const turns = start(['a']);
    turns.ended('a', { askedAt: 0, isDoubtful });
    expect([turns.take(dueAt - 1), turns.take(dueAt)]).toEqual([null, 'a']);
  }
});

test('a doubt waits no longer than the interval does, and a tenth less by chance', () => {
  const turns = start(['a'], () => 0, { intervalMs: 100, perSecond: 20 });
  turns.ended('a', { askedAt: 0, isDoubtful: true });
  expect(turns.dueAt).toBe(100);
  const early = start(['a'], () => 1);
  early.ended('a', { askedAt: 0, isDoubtful: true });
  expect(early.dueAt).toBe(180);
});

test('of many nodes no more are asked in a second than the pace allows: the interval grows', () => {
  const nodes = Array.from({ length: 200 }, (_, index) => `n${index}`);
  const turns = start(nodes);
  turns.ended('n7', { askedAt: 199_000, isDoubtful: false });
  expect(turns.dueAt).toBe(199_000 + (200 * 1000) / 20);
  turns.hurry('n7', 199_500);
  turns.ended('n8', { askedAt: 199_000, isDoubtful: true });
  expect([turns.take(199_500), turns.take(199_549), turns.take(199_550)]).toEqual(['n8', null, 'n7']);
});

test('who is being asked is not asked again, and who is gone is asked no more', () => {
  const turns = start(['a', 'b']);
  turns.hurry('a', 5000);
  expect(turns.take(5000)).toBeNull();
  turns.setNodes(new Set(['b']), 5000);
  for (const node of ['a', 'b']) turns.ended(node, { askedAt: 5000, isDoubtful: true });
  expect([turns.take(5200), turns.take(60_000)]).toEqual(['b', null]);
});

test('another pace brings forward who would be late', () => {
  const turns = start(['a'], () => 0.5);
  turns.ended('a', { askedAt: 0, isDoubtful: false });
  const fast = { intervalMs: 1000, perSecond: 20 };
  expect([turns.dueAt, turns.setPace(fast, 0), turns.dueAt, turns.setPace(fast, 0)]).toEqual([
    4750,
    true,
    500,
    false,
  ]);
});
