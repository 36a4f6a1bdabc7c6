import {
  type Point,
  summarize,
  measureProcessor,
  measureOwnPart,
  measureMemory,
} from '../../../../tools/bench/datapath/figures.ts';
import { describe, test, expect } from '@jest/globals';
import { makeWindow, p50 } from './windows.ts';

const vipnat: Point = {
  ...{ row: { setting: 'service-chain', path: 'vipnat', title: 'vipnat' }, workload: 'new', clients: 100 },
};

describe('a way is held against straight access', () => {
  test('of the same round: a machine that is slower in one round is so for both', () => {
    const windows = [
      ...[makeWindow({ round: 1, all: p50(100) }), makeWindow({ round: 2, all: p50(1000) })],
      makeWindow({ round: 1, path: 'vipnat', all: p50(110) }),
      makeWindow({ round: 2, path: 'vipnat', all: p50(1200) }),
    ];
    expect(summarize(windows, vipnat)?.ratio).toEqual({ median: expect.closeTo(1.15), min: 1.1, max: 1.2 });
  });

  test('and not at all where the rounds contradict each other', () => {
    const windows = [1, 2].flatMap((round) => [
      makeWindow({ round, all: p50(100) }),
      makeWindow({ round, path: 'vipnat', all: p50(round === 1 ? 90 : 1000) }),
    ]);
    expect(summarize(windows, vipnat)).toMatchObject({ p50: 545, ratio: null });
  });

  test('of the same setting and load, and of no other', () => {
    const windows = [
      makeWindow({ setting: 'nftables' }),
      makeWindow({ clients: 1 }),
      makeWindow({ workload: 'tls' }),
      makeWindow({ path: 'vipnat' }),
    ];
    expect([summarize(windows, vipnat), measureProcessor(windows, vipnat)]).toEqual([null, null]);
  });
});

test('failed requests are counted in thousandths', () => {
  const windows = [makeWindow({}), makeWindow({ path: 'vipnat', requests: 999, errors: { timeout: 1 } })];
  expect(summarize(windows, vipnat)?.failed).toBe(1);
});

test("a request's processor time is what the machine takes more than at rest", () => {
  const windows = [
    makeWindow({ rest: 0.5, requests: 1000 }),
    makeWindow({ rest: 0.5, requests: 750, path: 'vipnat' }),
  ];
  expect(measureProcessor(windows, vipnat)).toEqual({
    total: 2000,
    beyond: { median: 500, min: 500, max: 500 },
  });
});

test("a process's own part and its memory are those of its window", () => {
  const windows = [
    makeWindow({ watched: { haproxy: { seconds: 9, megabytes: 9 } } }),
    makeWindow({ path: 'vipnat', watched: { haproxy: { seconds: 0.5, megabytes: 40 } } }),
  ];
  expect(measureOwnPart(windows, vipnat, 'haproxy')).toBe(500);
  expect(measureMemory(windows, vipnat, 'haproxy')).toBe(40);
  expect(measureMemory(windows, vipnat, 'nobody')).toBeNaN();
});
