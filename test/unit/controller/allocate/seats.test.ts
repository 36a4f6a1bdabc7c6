import { expect, test } from '@jest/globals';
import { assignSeats, type SeatsRequest } from '../../../../controller/allocate/seats.ts';
import { parseRange } from '../../../../lib/services/ranges.ts';

function assign(parts: Partial<SeatsRequest> & { readonly addresses?: readonly string[] }) {
  const { addresses = ['10.0.9.10-10.0.9.99'], ...others } = parts;
  return assignSeats({
    pool: 'pool',
    ranges: addresses.map(parseRange).filter((range) => range !== null),
    count: 4,
    before: [],
    isUsed: () => false,
    isFree: () => true,
    isOthers: () => false,
    nodes: ['node-1', 'node-2'],
    takenVrids: { ipv4: new Set(), ipv6: new Set() },
    ...others,
  });
}

function count(items: readonly (string | undefined)[]): number[] {
  const counts = new Map<string | undefined, number>();
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1);
  return [...counts.values()].sort();
}

test('each node is the first of as many seats as any other', () => {
  expect(count(assign({}).map(({ nodes }) => nodes[0]))).toEqual([2, 2]);
  const three = assign({ nodes: ['a', 'b', 'c'] });
  expect(count(three.map(({ nodes }) => nodes[0]))).toEqual([1, 1, 2]);
  for (const { nodes } of three) expect([...nodes].sort()).toEqual(['a', 'b', 'c']);
});

test('anchors stay, and so do places in the order, when a node comes', () => {
  const before = assign({});
  const after = assign({ before, nodes: ['node-1', 'node-2', 'node-3'] });
  expect(after.map(({ anchors }) => anchors)).toEqual(before.map(({ anchors }) => anchors));
  const kept = after.filter(({ nodes }, index) => nodes[0] === before[index]?.nodes[0]);
  expect(kept.length).toBeGreaterThanOrEqual(3);
  expect(assign({ before: after, nodes: ['node-1', 'node-2', 'node-3'] })).toEqual(after);
});

test('a VRID that others have is left out, and 255 is the largest', () => {
  const takenVrids = { ipv4: new Set([11, 12]), ipv6: new Set<number>() };
  expect(assign({ takenVrids, count: 1 })[0]?.anchors).toEqual(['10.0.9.12']);
  expect(assign({ addresses: ['10.0.9.254-10.0.10.0'], count: 3 }).flatMap(({ anchors }) => anchors)).toEqual(
    ['10.0.9.254', '10.0.10.0'],
  );
});

test('two families have an anchor each, and there are as many seats as the smaller one has addresses', () => {
  const seats = assign({ addresses: ['10.0.9.10-10.0.9.11', 'fd00::/120'] });
  expect(seats.map(({ anchors }) => anchors)).toEqual([
    ['10.0.9.10', 'fd00::'],
    ['10.0.9.11', 'fd00::1'],
  ]);
});

test('seats that are too many stay while somebody sits there', () => {
  const before = assign({});
  expect(assign({ before, count: 2, isUsed: (index) => index === 3 }).map(({ index }) => index)).toEqual([
    0, 1, 3,
  ]);
});

test('no anchor is an address that somebody has; one that is there stays, unless another pool gave it away', () => {
  const isFree = ({ text }: { readonly text: string }) => !text.endsWith('.10') && !text.endsWith('.12');
  expect(assign({ isFree, count: 2 }).flatMap(({ anchors }) => anchors)).toEqual(['10.0.9.11', '10.0.9.13']);
  const before = assign({ count: 2 });
  expect(assign({ before, isFree, count: 2 })).toEqual(before);
  const isOthers = ({ text }: { readonly text: string }) => text === '10.0.9.10';
  const moved = assign({ before, isOthers, isFree: (one) => !isOthers(one), count: 2 });
  expect(moved.map(({ anchors }) => anchors)).toEqual([['10.0.9.12'], ['10.0.9.11']]);
});
