import type { RoundRecord } from '../../../../tools/bench/device/record.ts';
import { test, expect } from '@jest/globals';
import { renderReport } from '../../../../tools/bench/device/report.ts';

const round: RoundRecord = {
  ...{ setUp: 'kill', at: '2026-11-27T18:00:00.000Z', sent: 1000, failed: 8, failedMs: 20, slowed: 30 },
  ...{ slowedMs: 120, stale: 0, errors: {}, updateMs: 3000, load: 2 },
};

test('a row has sums and percentiles of its rounds', () => {
  const other = { ...round, failed: 3, failedMs: 40, slowedMs: 1200, stale: 1, updateMs: 4000 };
  const text = renderReport([round, other, round], []);
  expect(text).toContain(' | 3 | 19 of 3,000 | 40 ms | 1.2 s | 1 | 3.0 s |');
  expect(text).not.toContain('nothing else');
});
