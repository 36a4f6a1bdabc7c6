import type { RoundRecord } from '../../../../tools/bench/services/record.ts';
import { test, expect } from '@jest/globals';
import { renderReport } from '../../../../tools/bench/services/report.ts';

const round: RoundRecord = {
  ...{ setUp: 'vipnat', services: 1000, at: '2026-11-23T12:00:00.000Z', startMs: 1500 },
  latenciesMs: Array.from({ length: 100 }, (_, index) => index + 1),
  ...{ writtenMs: [], unseen: 0, megabytes: 100, peakMegabytes: 150 },
  ...{ processorShare: 0.04, toolsShare: 0.03, load: 2 },
};

test('a row has percentiles of all changes of all rounds, and medians of rounds', () => {
  const other = { ...round, startMs: 2500, megabytes: 110, latenciesMs: [1000] };
  const text = renderReport([round, other], [['Kubernetes', '1.36.3']]);
  expect(text).toContain(
    '| 1,000 | vipnat | 101 | 51 ms | 100 ms | 1.0 s | 2.0 s | 105 MiB | 150 MiB | 4.0 % |',
  );
  expect(text).not.toContain('kube-proxy');
});

test('what never came says so, and counts as endless', () => {
  const theirs: RoundRecord = { ...round, setUp: 'iptables', startMs: null, latenciesMs: [200], unseen: 3 };
  const text = renderReport([round, theirs], []);
  expect(text).toContain('| 4 (3 never) | 200 ms | 200 ms | 200 ms | never |');
});
