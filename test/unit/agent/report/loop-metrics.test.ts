import { expect, test } from '@jest/globals';
import { LoopMetrics } from '../../../../agent/report/loop-metrics.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeMeter } from '../../../support/fakes/meter.ts';
import { play } from '../reconcile/timeline.ts';

const vip = '10.0.0.50:6443';
const ready = { state: 'ready', reason: '', staleConnections: 'none' } as const;

test.each<[string, string, Record<string, number>]>([
  ['one write for the first decision, and nothing else on a quiet host', 'wait 130000', {}],
  ['a repair when somebody takes our hook away', 'unhook OUTPUT; wait 2000', { 'writes_total repair': 1 }],
  ['an update when only leftovers go', 'leave VIPNAT-OLD; wait 2000', { 'writes_total update': 1 }],
  [
    'a death, a decision and another way when an apiserver goes',
    'm3 refusing; wait 2000',
    {
      'apiserver_deaths_total 10.77.0.13:6443': 1,
      'writes_total decision': 2,
      [`way_changes_total ${vip}`]: 1,
    },
  ],
  [
    'every failed look by its code',
    'fail iptables-nft-save as TOOL_NOT_PERMITTED; hang iptables-nft-save; look; wait 30000',
    { 'failures_total TOOL_NOT_PERMITTED': 1, 'failures_total TOOL_TIMED_OUT': 1 },
  ],
])('what is counted is %s', async (_what, timeline, counts) => {
  const { running } = await play(timeline);
  expect(running.meter.counts).toEqual({ 'writes_total decision': 1, ...counts });
});

test('the time of each look is', async () => {
  const { running, clock } = await play('wait 0');
  const { length } = running.meter.times;
  await clock.advance(130_000);
  expect(running.meter.times.length).toBe(length + 2);
});

test('in a fight each repair is until the budget is spent, and from then on each one put off', async () => {
  const { running, clock } = await play('unhook OUTPUT; wait 100;'.repeat(200));
  const { 'writes_total repair': repairs = 0, repairs_postponed_total: postponed = 0 } = running.meter.counts;
  expect(running.agent.state.isFighting).toBe(true);
  expect(repairs).toBeGreaterThanOrEqual(10);
  expect(repairs).toBeLessThanOrEqual(15);
  expect(postponed).toBeGreaterThan(0);
  await clock.advance(90_000);
  expect(running.agent.state.isFighting).toBe(false);
});

test('everything that can be told beforehand counts from 0', () => {
  const meter = new FakeMeter();
  new LoopMetrics(meter, [toEndpoint(vip)]).looked({ health: new Map([['10.77.0.11:6443', ready]]) }, 20);
  expect(meter.counts).toEqual({});
  expect(meter.known).toEqual(
    expect.arrayContaining([
      'vipnat_writes_total repair',
      'vipnat_failures_total TOOL_FAILED',
      `vipnat_way_changes_total ${vip}`,
      `vipnat_flow_resets_total ${vip}`,
      'vipnat_apiserver_deaths_total 10.77.0.11:6443',
    ]),
  );
  expect(meter.known).not.toContain('vipnat_failures_total CONFIG_INVALID');
  expect(meter.times).toEqual([0.02]);
});
