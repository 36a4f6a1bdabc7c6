import { expect, test } from '@jest/globals';
import { WaitedTooLong } from '../../support/jest/waiting.ts';
import { measureFailing } from '../../support/lab/failing.ts';
import type { WitnessedReport } from '../../support/network/witness.ts';

/** Connections from 100 s on of which some failed. Something is done at 101.5 s, and all ends at 110 s. */
const measure = (failedAtMs: readonly number[], more: Partial<WitnessedReport> = {}, error = 'timeout') => {
  const rest = { sent: 500, apiservers: {}, slowAtMs: [], resentSyns: 0, isQuiet: true, lostSyns: 0 };
  const failures = failedAtMs.map((atMs) => ({ atMs, error, isConnected: false }));
  const report = { startedAt: 100_000, ...rest, failures, excused: [], ...more };
  return measureFailing(report, { doneAt: 101_500, endedAt: 110_000 });
};

test('the time that connections fail is theirs that failed since it was done', () => {
  expect(measure([])).toEqual({ failed: 0, errors: '', windowMs: 0, quietMs: 10_000 });
  expect(measure([1000, 1700, 4500])).toMatchObject({ failed: 3, windowMs: 3000, quietMs: 5500 });
});

test('what is excused neither counts nor takes time, and a second SYN is a failure', () => {
  const excused = [{ atMs: 9000, error: 'timeout', isConnected: false }];
  expect(measure([2000], { excused, lostSyns: 2 })).toEqual({
    ...{ failed: 3, windowMs: 0, quietMs: 8000 },
    errors: '1 timeout, 2 by a second SYN, 1 excused: the machine stood still',
  });
});

test('failures from before it was done are not counted to it: nothing is known then', () => {
  expect(() => measure([999, 4500])).toThrow(WaitedTooLong);
  const refused = () => measure([999, 4500], {}, 'ECONNREFUSED');
  expect(refused).toThrow('before anything was done 1 ECONNREFUSED');
  expect(refused).not.toThrow(WaitedTooLong);
});
