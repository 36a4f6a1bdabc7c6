import { describe, expect, test } from '@jest/globals';
import { WaitedTooLong } from '../../support/jest/waiting.ts';
import type { ConnectReport } from '../../support/network/seat-tasks.ts';
import { judge } from '../../support/network/witness.ts';

type Failed = readonly [atMs: number, error: string];

/** Of a hundred connections from a moment on. */
const report = (startedAt: number, failed: readonly Failed[], more: Partial<ConnectReport> = {}) => ({
  ...{ startedAt, sent: 100, apiservers: {}, slowAtMs: [], resentSyns: 0, isQuiet: true },
  failures: failed.map(([atMs, error]) => ({ atMs, error, isConnected: false })),
  ...more,
});

const connects = report(100_000, [
  [1000, 'timeout'],
  [2000, 'timeout'],
  [2001, 'ECONNREFUSED'],
  [2002, 'ECONNRESET'],
]);
const well = report(100_000, []);

const timesOf = (straight: readonly ConnectReport[]) => {
  const { failures, excused } = judge(connects, straight);
  return [failures, excused].map((list) => list.map(({ atMs }) => atMs));
};

describe('connections that failed beside straight ones', () => {
  test('are lost where straight ones were quick, or there are none', () => {
    expect(timesOf([well, well])).toEqual([[1000, 2000, 2001, 2002], []]);
    expect(timesOf([])).toEqual([[1000, 2000, 2001, 2002], []]);
  });

  test('are excused where any straight one timed out within half a second, whenever each client began', () => {
    expect(timesOf([well, report(99_000, [[2499, 'timeout']])])).toEqual([[2000, 2001, 2002], [1000]]);
    expect(timesOf([well, report(99_000, [[2501, 'timeout']])])).toEqual([[1000, 2001, 2002], [2000]]);
    expect(timesOf([well, report(99_000, [[1499, 'timeout']])])).toEqual([[1000, 2000, 2001, 2002], []]);
  });

  test('are not excused where they were reset or refused, nor by a straight one that was', () => {
    expect(timesOf([report(100_000, [[2000, 'timeout']])])).toEqual([[1000, 2001, 2002], [2000]]);
    const dead = report(100_000, [
      [1000, 'ECONNREFUSED'],
      [2000, 'ECONNRESET'],
    ]);
    expect(timesOf([dead])).toEqual([[1000, 2000, 2001, 2002], []]);
  });

  test('say nothing where more than a tenth of the straight ones timed out', () => {
    const timeouts = (count: number) =>
      report(
        100_000,
        Array.from({ length: count }, (_, at) => [9000 + at, 'timeout']),
      );
    expect(() => timesOf([well, timeouts(21)])).toThrow(WaitedTooLong);
    expect(timesOf([well, timeouts(20)])[1]).toEqual([]);
    // Who lost none has nothing to be excused, and a reset is nobody's standstill.
    expect(judge(well, [timeouts(100)])).toMatchObject({ failures: [], excused: [] });
    expect(judge(report(0, [[1, 'ECONNRESET']]), [timeouts(100)]).failures).toHaveLength(1);
  });
});

test('a connection that needed a second SYN is told where the kernel says so, unless straight ones were slow too', () => {
  const slow = (slowAtMs: number[], resentSyns: number) => report(100_000, [], { slowAtMs, resentSyns });
  expect(judge(slow([1000, 3000], 2), [well]).lostSyns).toBe(2);
  expect(judge(slow([1000, 3000], 1), [well]).lostSyns).toBe(1);
  expect(judge(slow([1000, 3000], 0), [well]).lostSyns).toBe(0);
  expect(judge(slow([1000, 3000], 2), [slow([3400], 0)]).lostSyns).toBe(1);
});
