import type { Outcome } from './balancer-elements-child.ts';
import { beforeAll, describe, test, expect } from '@jest/globals';
import { runInNetworkNamespace } from '../../support/network/network-namespace.ts';

let outcome: Outcome;
beforeAll(async () => {
  const child = new URL('balancer-elements-child.ts', import.meta.url);
  outcome = (await runInNetworkNamespace(child)) as Outcome;
});

describe('endpoints that are replaced', () => {
  test.each([
    ['random', 'one of 100', 0],
    ['udp', 'of UDP', 0],
    ['sctp', 'of SCTP', 0],
    ['hash', 'chosen by the address of the client', 0],
    ['local', 'that see the client', 0],
    ['more', 'one more, which takes another rule', 1],
    ['many', 'more than fit into one message to the kernel', 1],
    ['affinity', 'that clients keep for another time: other sets, and those before are deleted', 2],
  ] as const)('%s: %s: the tables are as nft writes them, and nft is run %i times', (name, _, scripts) => {
    const mode = outcome.ways[name];
    expect(mode.tables).toEqual(mode.expected);
    expect([mode.scripts, mode.changes]).toEqual([scripts, scripts === 0 ? 1 : 0]);
  });

  test('get connections, and those that they replace get none', () => {
    const { before, after, changes } = outcome.packets;
    expect(before).toEqual([
      ['10.244.0.1', '10.244.0.2'],
      ['fd00:244::1', 'fd00:244::2'],
    ]);
    expect(after).toEqual([
      ['10.244.0.2', '10.244.0.3'],
      ['fd00:244::2', 'fd00:244::3'],
    ]);
    expect(changes).toBe(1);
  });
});

test('changes of both families are made together or not at all', () => {
  const { isDone, before, middle, isDoneLater, after } = outcome.half;
  expect([isDone, isDoneLater]).toEqual([false, true]);
  expect(middle).toEqual(before);
  expect(after).not.toEqual(before);
});

test('own changes are no reason to look at the tables, and those of others are', () => {
  expect(outcome.watched).toEqual({ scripts: 10, changes: 10, own: 0, foreign: 1 });
});

test('where somebody else has removed an element, the table is compared, and repaired', () => {
  const { problem, isKnown, isKnownLater, tables } = outcome.meddled;
  expect([problem, isKnown, isKnownLater]).toEqual(['TOOL_FAILED', false, true]);
  expect(tables).toEqual(outcome.expected);
});

test('nothing differs from what was just written, however nft prints ranges', () => {
  expect(outcome.drifted).toEqual([]);
});

test('a Service that nft refuses is named, the others are there, and questions about features leave nothing', () => {
  const { programmed, refused, missing, tables } = outcome.isolated;
  expect(programmed).toBe(19);
  expect(refused).toEqual([['default/s13', expect.stringContaining('nft failed')]]);
  expect(missing).toEqual({ ipv4: [], ipv6: [] });
  expect(tables).toBe('table ip vipnat-lb\n');
});

test('what clients fill is in no comparison, its memory does not grow with nodes, and the kernel tells how full it is', () => {
  const { full, large } = outcome;
  // Kernels before NFTA_SET_COUNT do not.
  const counts = full.counts.map((count) => count ?? 65_535);
  expect({ ...full, counts, bytes: full.bytes < 100_000 || full.bytes }).toEqual({
    full: 3,
    counts: [65_535, 65_535, 65_535],
    drifted: [],
    bytes: true,
  });
  expect(large).toEqual({ written: 300, memories: 300 });
});
