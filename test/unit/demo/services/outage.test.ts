import type { ConnectReport } from '../../../support/network/seat-tasks.ts';
import { test, expect } from '@jest/globals';
import { measureOutage } from '../../../../tools/demo/services/outage.ts';

/** A load that began at 1,000 and failed at these times of its own. */
const report = (failedAtMs: readonly number[], error = 'timeout'): ConnectReport => ({
  ...{ startedAt: 1000, sent: 500, apiservers: {}, slowAtMs: [], resentSyns: 0, isQuiet: true },
  failures: failedAtMs.map((atMs) => ({ atMs, error, isConnected: false })),
});

test('without a failure nothing was out', () => {
  expect(measureOutage(report([]), 1500)).toEqual({ sent: 500, failed: 0, lastFailedMs: 0, isOver: true });
});

test('the last failure counts from what was done', () => {
  expect(measureOutage(report([510, 520, 2500]), 1500)).toMatchObject({ failed: 3, lastFailedMs: 2000 });
});

test('a port that the client has in use is no failure', () => {
  expect(measureOutage(report([510], 'EADDRINUSE'), 1500)).toMatchObject({ failed: 0, lastFailedMs: 0 });
});
