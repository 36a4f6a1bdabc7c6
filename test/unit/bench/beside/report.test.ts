import type { RoundRecord } from '../../../../tools/bench/beside/record.ts';
import { test, expect } from '@jest/globals';
import { renderReport } from '../../../../tools/bench/beside/report.ts';

const round: RoundRecord = {
  ...{ setUp: 'none', at: '2026-11-23T12:00:00.000Z', tookMs: [1, 2, 30], failed: 0 },
  agents: [
    { processorShare: 0.01, megabytes: 70, syncsPerSecond: 0 },
    { processorShare: 0.03, megabytes: 72, syncsPerSecond: 1 },
    { processorShare: 0.02, megabytes: 71, syncsPerSecond: 0.5 },
  ],
  repairsMs: [100, 120],
  killed: {
    ...{ sent: 3000, failed: 10, windowMs: 30, refusedMs: 20, slowed: 0, slowedMs: 0, isOpen: false },
    ...{ watchesMs: [], silentMs: [], errors: {} },
  },
  ...{ writtenPerSecond: 0, refused: 0, idleShare: 0.5, load: 1 },
};

test('percentiles are of what all rounds of a set-up have together', () => {
  const text = renderReport([round, { ...round, tookMs: [4, 5, 250], failed: 2, repairsMs: [1500] }], []);
  expect(text).toContain(
    '| no Services | 2 | 4.0 ms | 250 ms | 2 of 8 | 120 ms | 1.5 s | 30 ms | 30 ms | 2.0 % | 50.0 % |',
  );
});

test('a round in which connections still failed at its end is worse than all others', () => {
  const open = { ...round, setUp: 'balancers' as const, killed: { ...round.killed, isOpen: true } };
  expect(renderReport([{ ...round, repairsMs: [100, null] }], [])).toContain('| 100 ms | > 20 s |');
  expect(renderReport([round, open], [])).toMatch(/\| the storm, and balancers .* > 40 s \| > 40 s \|/);
});
