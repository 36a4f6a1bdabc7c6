import { beforeEach, describe, expect, test } from '@jest/globals';
import { LoopMetrics } from '../../../../agent/report/loop-metrics.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../../support/kube-proxy/in-memory.ts';
import { FakeMeter } from '../../../support/fakes/meter.ts';
import { type RunningAgent, startAgent } from '../../../support/agent/running-agent.ts';

const nft = { family: 'ipv4', dialect: 'nft' } as const;
const texts = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'];
const vip = '10.0.0.50:6443';

let world: RunningAgent;
beforeEach(async () => {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  syncKubeProxy(
    kernel,
    nft,
    texts.map((text) => toEndpoint(text)),
  );
  world = startAgent({ clock, kernel });
  await clock.advance(2000);
});

/** What was counted while this was done and in the two seconds after it. */
async function countDuring(act: () => void, ms = 2000): Promise<Record<string, number>> {
  const before = world.meter.counts;
  act();
  await world.clock.advance(ms);
  const changes = Object.entries(world.meter.counts).map(
    ([key, count]) => [key, count - (before[key] ?? 0)] as const,
  );
  return Object.fromEntries(changes.filter(([, count]) => count > 0));
}

describe('what is counted', () => {
  test('is one write for the first decision, and then nothing but looks on a quiet host', async () => {
    expect(world.meter.counts).toEqual({ 'writes_total decision': 1 });
    const looks = world.meter.times.length;
    expect(await countDuring(() => undefined, 130_000)).toEqual({});
    expect(world.meter.times.length).toBeGreaterThan(looks + 1);
  });

  test('is a repair when somebody takes our hook away', async () => {
    const script = '*nat\n-F OUTPUT\nCOMMIT\n';
    expect(
      await countDuring(() => {
        world.kernel.run('ipv4', 'nft', script);
      }),
    ).toEqual({
      'writes_total repair': 1,
    });
  });

  test('is an update when only leftovers go', async () => {
    const script = '*nat\n:VIPNAT-OLD - [0:0]\nCOMMIT\n';
    expect(
      await countDuring(() => {
        world.kernel.run('ipv4', 'nft', script);
      }),
    ).toEqual({
      'writes_total update': 1,
    });
  });

  test('is a death, a decision and another way when an apiserver goes', async () => {
    const counts = await countDuring(() => {
      world.apiservers.set('10.77.0.13:6443', 'refusing');
    });
    expect(counts).toEqual({
      'apiserver_deaths_total 10.77.0.13:6443': 1,
      'writes_total decision': 1,
      [`way_changes_total ${vip}`]: 1,
    });
  });

  test('is every failed look by its code', async () => {
    const counts = await countDuring(() => {
      world.kernel.faults.failNext({ tool: 'iptables-nft-save', code: 'TOOL_NOT_PERMITTED' });
      world.kernel.faults.hangNext('iptables-nft-save');
      world.kernel.trigger('ipvs');
    }, 30_000);
    expect(counts).toEqual({ 'failures_total TOOL_NOT_PERMITTED': 1, 'failures_total TOOL_TIMED_OUT': 1 });
  });

  test('in a fight is each repair until the budget is spent, and from then on each one put off', async () => {
    expect(world.agent.state.isFighting).toBe(false);
    for (let count = 0; count < 200; count += 1) {
      world.kernel.run('ipv4', 'nft', '*nat\n-F OUTPUT\nCOMMIT\n');
      await world.clock.advance(100);
    }
    const { 'writes_total repair': repairs = 0, repairs_postponed_total: postponed = 0 } = world.meter.counts;
    expect([repairs, world.agent.state.isFighting]).toEqual([expect.any(Number), true]);
    expect(repairs).toBeGreaterThanOrEqual(10);
    expect(repairs).toBeLessThanOrEqual(15);
    expect(postponed).toBeGreaterThan(0);
    await world.clock.advance(90_000);
    expect(world.agent.state.isFighting).toBe(false);
  });
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

const ready = { state: 'ready', reason: '', staleConnections: 'none' } as const;
