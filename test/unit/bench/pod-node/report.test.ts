import type { RoundRecord } from '../../../../tools/bench/pod-node/record.ts';
import { test, expect } from '@jest/globals';
import { renderReport } from '../../../../tools/bench/pod-node/report.ts';

const round: RoundRecord = {
  ...{ setUp: 'vipnat-power', at: '2026-11-23T12:00:00.000Z', sent: 5000, failed: 0, failedMs: 0 },
  ...{ slowed: 100, slowedMs: 600, held: 100, cut: 50, errors: {}, load: 2 },
};

test('a row has sums and percentiles of its rounds', () => {
  const other = { ...round, failed: 3, failedMs: 40, slowedMs: 1200, cut: 48 };
  const text = renderReport([round, other, { ...round, setUp: 'kube-proxy-power', failedMs: 50_200 }], []);
  expect(text).toContain('| `power` | vipnat | 2 | 3 of 10,000 | 40 ms | 600 ms | 1.2 s | 98 of 200');
  expect(text).toContain('| `power` | kube-proxy alone, by a node port | 1 | 0 of 5,000 | 50.2 s |');
  expect(text).not.toContain('| `api`');
});
