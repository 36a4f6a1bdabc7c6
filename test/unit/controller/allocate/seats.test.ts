import { type SeatsRequest, assignSeats } from '../../../../controller/allocate/seats.ts';
import type { Seat, AddressPool } from '../../../../lib/api/vipnat.ts';
import { makePool } from '../../../support/fakes/seat-objects.ts';
import { parseRange } from '../../../../lib/net.ts';
import { describe, test, expect } from '@jest/globals';

type Parts = Partial<SeatsRequest> & {
  readonly before?: readonly Seat[];
  readonly spec?: Partial<AddressPool['spec']>;
};

function assign({ before = [], spec = {}, ...others }: Parts = {}) {
  const pool = makePool('pool', before, { addresses: ['10.0.9.10-10.0.9.99'], seats: 4, ...spec });
  return assignSeats({
    ...{ pool, ranges: pool.spec.addresses.map(parseRange).filter((range) => range !== null) },
    ...{ isUsed: () => false, findGiven: () => null, nodes: ['node-1', 'node-2'], judgeNode: () => 'able' },
    ...{ others: { older: [], younger: [] }, reservedVrids: new Set(), ...others },
  });
}

function count(items: readonly (string | undefined)[]): number[] {
  const counts = new Map<string | undefined, number>();
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1);
  return [...counts.values()].sort();
}

const listVrids = (seats: readonly Seat[]) => seats.map(({ vrid }) => vrid);

test('each node is the first of as many seats as any other', () => {
  expect(count(assign().map(({ nodes }) => nodes[0]))).toEqual([2, 2]);
  const three = assign({ nodes: ['a', 'b', 'c'] });
  expect(count(three.map(({ nodes }) => nodes[0]))).toEqual([1, 1, 2]);
  for (const { nodes } of three) expect([...nodes].sort()).toEqual(['a', 'b', 'c']);
});

test('numbers stay, and so do places in the order, when a node comes', () => {
  const before = assign();
  const after = assign({ before, nodes: ['node-1', 'node-2', 'node-3'] });
  const strip = (seats: readonly Seat[]) => seats.map((seat) => ({ ...seat, nodes: [] }));
  expect(strip(after)).toEqual(strip(before));
  const kept = after.filter(({ nodes }, index) => nodes[0] === before[index]?.nodes[0]);
  expect(kept.length).toBeGreaterThanOrEqual(3);
  expect(assign({ before: after, nodes: ['node-1', 'node-2', 'node-3'] })).toEqual(after);
});

test('two families have seats of their own, which are known by their indexes also when there are more', () => {
  const spec = { addresses: ['fd00:9::/120', '10.0.9.10'], seats: 2 };
  const seats = assign({ spec });
  const show = (some: readonly Seat[]) => some.map(({ index, network }) => `${index} ${network}`);
  expect(show(seats)).toEqual(['0 10.0.9.10', '1 10.0.9.10', '2 fd00:9::', '3 fd00:9::']);
  const more = assign({ before: seats, spec: { ...spec, seats: 3 } });
  expect(show(more).slice(4)).toEqual(['4 10.0.9.10', '5 fd00:9::']);
  expect(more.slice(0, 4).map(({ anchor, vrid }) => [anchor, vrid])).toEqual(
    seats.map(({ anchor, vrid }) => [anchor, vrid]),
  );
});

test('no two seats of a cluster have an anchor or a VRID of one family', () => {
  const one = assign({ spec: { seats: 32 } });
  const other = assign({ others: { older: one, younger: [] }, spec: { seats: 32 } });
  for (const name of ['anchor', 'vrid'] as const)
    expect(new Set([...one, ...other].map((seat) => seat[name])).size).toBe(64);
});

test('of two pools with one number the younger gets another one', () => {
  const one = assign();
  const other = assign();
  expect(assign({ before: one, others: { older: [], younger: other } })).toEqual(one);
  const moved = assign({ before: other, others: { older: one, younger: [] }, isUsed: () => true });
  for (const name of ['anchor', 'vrid'] as const)
    expect(new Set([...one, ...moved].map((seat) => seat[name])).size).toBe(8);
});

test('VRIDs are those of spec.vrids that nobody else on the network uses', () => {
  const spec = { vrids: '51-60' };
  const reservedVrids = new Set([51, 53]);
  expect(listVrids(assign({ spec, reservedVrids }))).toEqual([52, 54, 55, 56]);
  expect(listVrids(assign({ spec: { vrids: '7-8' } }))).toEqual([7, 8]);
  expect(listVrids(assign({ before: assign(), spec, isUsed: () => true }))).toEqual([51, 52, 53, 54]);
});

test('a VRID that others use goes only from a seat that no Service uses', () => {
  const before = assign({ spec: { vrids: '51-60' } });
  const reservedVrids = new Set([51, 52]);
  const after = assign({ before, spec: { vrids: '51-60' }, reservedVrids, isUsed: (index) => index === 1 });
  expect(listVrids(after)).toEqual([55, 52, 53, 54]);
});

test('a used seat stays although no VRID is left for it', () => {
  const before = assign({ spec: { vrids: '51-54' } });
  const spec = { vrids: '60-61' };
  expect(listVrids(assign({ before, spec, isUsed: () => true }))).toEqual([60, 61, 53, 54]);
  expect(listVrids(assign({ before, spec }))).toEqual([60, 61]);
});

test('addresses of a family that the pool no longer has get a seat again, and one alone, until it is used', () => {
  const parts = {
    spec: { addresses: ['fd00:9::/120'], seats: 2 },
    findGiven: (family: string) => (family === 'ipv4' ? '10.0.9.12' : null),
  };
  const after = assign({ ...parts, before: assign(parts).filter(({ anchor }) => anchor.includes(':')) });
  const ofLost = after.filter(({ anchor }) => anchor.includes('.'));
  expect(ofLost).toMatchObject([
    { network: '10.0.9.12', nodes: expect.arrayContaining(['node-1', 'node-2']) },
  ]);
  expect(assign({ ...parts, before: after })).toEqual(after);
  const isUsed = (index: number) => index === ofLost[0]?.index;
  expect(assign({ ...parts, before: after, isUsed })).toEqual(after);
});

test('the network of a seat stays while the pool has it', () => {
  const before = assign();
  const look = (...addresses: string[]) => assign({ before, spec: { addresses } })[0]?.network;
  expect([look('10.0.8.0/24', '10.0.9.0/24'), look('10.0.8.0/24')]).toEqual(['10.0.9.10', '10.0.8.0']);
});

test('what another program has written into the status is mended', () => {
  const before = assign();
  const vrid = before[0]?.vrid ?? 0;
  for (const parts of [{ index: 0 }, { index: -1 }, { anchor: '10.0.9.10' }, { vrid: 0 }, { vrid }])
    expect(assign({ before: before.map((seat, at) => (at === 3 ? { ...seat, ...parts } : seat)) })).toEqual(
      before,
    );
});

test('seats that are too many stay while somebody sits there, also of a family that the pool no longer has', () => {
  const before = assign();
  const isUsed = (index: number) => index === 3;
  const indexes = (spec: NonNullable<Parts['spec']>) =>
    assign({ before, spec, isUsed }).map(({ index }) => index);
  expect(indexes({ seats: 2 })).toEqual([0, 1, 3]);
  expect(indexes({ seats: 1, addresses: ['fd00:9::/120'] })).toEqual([3, 4]);
});

const many = Array.from({ length: 500 }, (_, at) => `node-${String(at).padStart(3, '0')}.`.padEnd(48, 'x'));

test('500 nodes with long names and 64 seats make a status below 64 kB, and a node that comes changes nothing', () => {
  const spec = { addresses: ['10.0.9.0/24', 'fd00:1234:5678:9abc:def0:1234:5678:0/120'], seats: 32 };
  const seats = assign({ spec, nodes: many });
  expect(seats).toHaveLength(64);
  // Room for three conditions of the pool.
  expect(JSON.stringify({ seats }).length).toBeLessThan(61_000);
  expect(count(seats.map(({ nodes }) => nodes[0]))).toEqual(Array.from({ length: 64 }, () => 1));
  expect(assign({ spec, before: seats, nodes: [...many, 'node-500'] })).toEqual(seats);
  const [gone] = seats[0]?.nodes ?? [];
  const after = assign({ spec, before: seats, nodes: many.filter((node) => node !== gone) });
  for (const { nodes } of after) expect(new Set(nodes).size).toBe(16);
});

describe('of 500 nodes a seat names', () => {
  const known = many.slice(0, 16);
  const others = many.slice(100, 120);
  const [last = ''] = many.slice(-1);
  /** Which 16 it names that named some before, where some are able, and one may hold it. */
  const look = (before: readonly string[], able: readonly string[], holder?: string) => {
    const judgeNode = (node: string) => (able.includes(node) ? 'able' : node === holder ? 'holds' : 'unable');
    const parts: Parts = { spec: { seats: 1 }, nodes: many, judgeNode };
    const seats = assign({
      ...parts,
      before: assign(parts).map((seat) => ({ ...seat, nodes: [...before] })),
    });
    expect(assign({ ...parts, before: seats })).toEqual(seats);
    expect(seats[0]?.nodes).toHaveLength(16);
    return seats[0]?.nodes ?? [];
  };

  test('the same while 4 are able, and others for those that are not when only 3 are', () => {
    expect(look(known, [...known.slice(0, 4), ...others])).toEqual(known);
    const replaced = look(known, [...known.slice(0, 3), ...others]);
    expect(replaced.slice(0, 3)).toEqual(known.slice(0, 3));
    for (const node of [...replaced.slice(3), ...look(known, others)]) expect(others).toContain(node);
  });

  test('the few that run a balancer; while none does, the same', () => {
    const few = [many[7], many[300], last].map(String);
    for (const before of [[], known]) expect(look(before, few)).toEqual(expect.arrayContaining(few));
    expect(look(known, [])).toEqual(known);
  });

  test('the one that holds it, also after a controller that named all', () => {
    const without = many.slice(0, -1);
    expect(look(many, without)).toEqual(known);
    expect(look(many, without, last)).toEqual(expect.arrayContaining([...many.slice(0, 15), last]));
  });
});

test('16 nodes keep their places, able or not', () => {
  const nodes = many.slice(0, 16);
  const seats = assign({ nodes });
  expect(assign({ nodes, before: seats, judgeNode: () => 'unable' })).toEqual(seats);
});
