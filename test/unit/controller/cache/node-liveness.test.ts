import { expect, test } from '@jest/globals';
import { NodeLiveness } from '../../../../controller/cache/node-leases.ts';

/** Ticks each second. Answers the nodes whose Lease ran out. */
function pass(liveness: NodeLiveness, fromMs: number, seconds: number, isFollowed = true): string[] {
  return Array.from({ length: seconds }, (_, index) =>
    liveness.tick(fromMs + (index + 1) * 1000, isFollowed),
  ).flat();
}

function begin(): NodeLiveness {
  const liveness = new NodeLiveness();
  liveness.tick(0, true);
  liveness.heard('node-1', 'first', 40_000);
  return liveness;
}

test('a Lease is over when it was not renewed for longer than it lasts', () => {
  const liveness = begin();
  expect(pass(liveness, 0, 40)).toEqual([]);
  expect(liveness.isLiving('node-1')).toBe(true);
  expect(pass(liveness, 40_000, 1)).toEqual(['node-1']);
  expect(liveness.isLiving('node-1')).toBe(false);
});

test('the same renewal heard again does not count, another one does', () => {
  const liveness = begin();
  pass(liveness, 0, 30);
  expect(liveness.heard('node-1', 'first', 40_000)).toBe(false);
  expect(pass(liveness, 30_000, 11)).toEqual(['node-1']);
  expect(liveness.heard('node-1', 'first', 40_000)).toBe(false);
  expect(liveness.isLiving('node-1')).toBe(false);
  expect(liveness.heard('node-1', 'second', 40_000)).toBe(true);
  expect(liveness.isLiving('node-1')).toBe(true);
});

test('no node dies while the controller is held up, or hears nothing', () => {
  const liveness = begin();
  expect(liveness.tick(3_600_000, true)).toEqual([]);
  expect(pass(liveness, 3_600_000, 100, false)).toEqual([]);
  expect(pass(liveness, 3_700_000, 38)).toEqual([]);
  expect(pass(liveness, 3_738_000, 1)).toEqual(['node-1']);
});

test('a Lease that was deleted is forgotten', () => {
  const liveness = begin();
  liveness.forget('node-1');
  expect(liveness.isLiving('node-1')).toBe(false);
  expect(liveness.heard('node-1', 'first', 40_000)).toBe(true);
});
