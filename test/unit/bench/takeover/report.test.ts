import type { RoundRecord } from '../../../../tools/bench/takeover/record.ts';
import { test, expect } from '@jest/globals';
import { renderReport } from '../../../../tools/bench/takeover/report.ts';

const round: RoundRecord = {
  ...{ setUp: 'vipnat', fault: 'cut', addresses: 1, at: '2026-11-23T12:00:00.000Z' },
  ...{ allMs: 900, medianMs: 880, lostLater: 0, load: 2 },
};

test('a row has percentiles of its rounds', () => {
  const text = renderReport([round, { ...round, allMs: 1100 }], []);
  expect(text).toContain('| `cut` | 1 | vipnat | 2 | 900 ms | 1.1 s |');
});

test('a round in which an address did not answer again is worse than all others', () => {
  const text = renderReport([round, { ...round, setUp: 'metallb', addresses: 1000, allMs: null }], []);
  expect(text).toContain('| `cut` | 1,000 | MetalLB, layer 2 mode | 1 | > 60 s | > 60 s |');
});
