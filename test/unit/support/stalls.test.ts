import { expect, test } from '@jest/globals';
import { findStalled } from '../../support/lab/stalls.ts';
import type { ConnectReport } from '../../support/network/seat-tasks.ts';

/** Of connections from 100 s on. */
const report = (startedAt: number, ...failures: readonly [atMs: number, error: string][]): ConnectReport => ({
  ...{ startedAt, sent: 475, apiservers: {}, slowAtMs: [], isQuiet: true },
  failures: failures.map(([atMs, error]) => ({ atMs, error, isConnected: false })),
});

const connects = report(100_000, [1000, 'timeout'], [2000, 'timeout'], [3000, 'ECONNREFUSED']);

const atOf = (straight: readonly ConnectReport[]) => findStalled(connects, straight).map(({ atMs }) => atMs);

test('a connection that timed out while straight ones to any machine did is told apart, whenever each client began', () => {
  expect(atOf([report(100_000), report(99_000, [2040, 'timeout'])])).toEqual([1000]);
});

test('a connection that timed out while straight ones were quick is lost', () => {
  expect(atOf([report(100_000), report(100_000), report(100_000)])).toEqual([]);
  expect(atOf([])).toEqual([]);
});

test('a straight connection that fails otherwise is no sign, and a stall refuses nobody', () => {
  expect(atOf([report(100_000, [2000, 'ECONNREFUSED'], [3000, 'timeout'])])).toEqual([]);
});
