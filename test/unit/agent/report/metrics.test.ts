import type { ProcessState } from '../../../../lib/telemetry/metrics.ts';
import {
  type AgentWorld,
  type RunningAgent,
  startAgent,
  ordinaryConfig,
} from '../../../support/agent/running-agent.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { FakeKernel } from '../../../support/fakes/kernel.ts';
import { syncKubeProxy } from '../../../support/kube-proxy/in-memory.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { listSamples, LoopMetrics } from '../../../../agent/report/metrics.ts';
import { describe, test, expect } from '@jest/globals';
import { FakeStore } from '../../../support/fakes/store.ts';
import { VipnatError } from '../../../../lib/errors.ts';
import { FakeDrain } from '../../../support/fakes/drain.ts';
import { noApi } from '../../../../agent/api.ts';
import { play } from '../timeline.ts';
import { FakeMeter } from '../../../support/fakes/meter.ts';

const texts = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'];
const processState: ProcessState = {
  version: '1.2.3',
  nodeVersion: '24.0.0',
  startedAt: new Date('2026-01-01T00:00:00Z'),
  cpuSeconds: 1.5,
  residentBytes: 1000,
};

async function start(world: Partial<AgentWorld> = {}, known = texts): Promise<RunningAgent> {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  syncKubeProxy(kernel, { family: 'ipv4', dialect: 'nft' }, known.map(toEndpoint));
  const running = startAgent({ clock, kernel, ...world });
  await clock.advance(2000);
  return running;
}

/** Every value by `name` and its labels' values. */
function read({ agent }: RunningAgent): Record<string, number> {
  return Object.fromEntries(
    listSamples(agent.state, processState).map(({ name, labels, value }) => [
      [name, ...Object.values(labels)].join(' '),
      value,
    ]),
  );
}

describe('what an agent is like', () => {
  test('where all is well', async () => {
    const world = await start();
    const seconds = Date.parse('2026-01-01T00:00:00Z') / 1000;
    const values = read(world);
    expect(values).toMatchObject({
      ...{ 'vipnat_build_info 1.2.3 24.0.0': 1, process_start_time_seconds: seconds },
      ...{ process_cpu_seconds_total: 1.5, process_resident_memory_bytes: 1000, vipnat_rules_in_sync: 1 },
      ...{ vipnat_rule_differences: 0, vipnat_rule_conflict: 0 },
      ...{ [`vipnat_vip_mode ${vip} service-chain`]: 1, [`vipnat_vip_mode ${vip} cluster-ip`]: 0 },
      ...{ [`vipnat_vip_mode ${vip} direct`]: 0, [`vipnat_vip_mode ${vip} passthrough`]: 0 },
      ...{ [`vipnat_vip_bypass ${vip}`]: 0, [`vipnat_vip_held ${vip}`]: 0 },
      ...{ [`vipnat_vip_apiservers ${vip}`]: 3, 'vipnat_apiserver_state 10.77.0.11:6443 ready': 1 },
      ...{ 'vipnat_apiserver_state 10.77.0.11:6443 dead': 0, vipnat_can_serve: 1 },
      ...{ vipnat_track_file_current: 1, vipnat_state_file_current: 1, vipnat_host_drained: 0 },
      vipnat_host_drained_vip_stays: 0,
    });
    expect(values['vipnat_last_sync_timestamp_seconds']).toBeCloseTo(seconds, 0);
  });

  test('when it holds the virtual IP and an apiserver is dead, so that kube-proxy lags', async () => {
    const world = await start();
    world.kernel.addAddress({ family: 'ipv4', address: '10.0.0.50', device: 'eth0' });
    world.apiservers.set('10.77.0.13:6443', 'refusing');
    await world.clock.advance(1000);
    expect(read(world)).toMatchObject({
      ...{ [`vipnat_vip_held ${vip}`]: 1, [`vipnat_vip_mode ${vip} service-chain`]: 0 },
      ...{ [`vipnat_vip_mode ${vip} direct`]: 1, [`vipnat_vip_bypass ${vip}`]: 1 },
      [`vipnat_vip_apiservers ${vip}`]: 2,
      [`vipnat_vip_apiserver_share ${vip} 10.77.0.11:6443`]: 0.5,
      'vipnat_apiserver_state 10.77.0.13:6443 dead': 1,
      'vipnat_apiserver_state 10.77.0.13:6443 ready': 0,
    });
    // All stay in the rules then, and none of them answers.
    for (const text of texts) world.apiservers.set(text, 'refusing');
    await world.clock.advance(3000);
    expect(read(world)).toMatchObject({ [`vipnat_vip_apiservers ${vip}`]: 0, vipnat_rules_in_sync: 1 });
  });

  const choices = ['keep', 'leave'] as const;
  test.each(choices)('when it holds the virtual IP, with --local-clients %s', async (localClients) => {
    const kept = localClients === 'keep' ? 1 : 0;
    const world = await start({ config: { ...ordinaryConfig, localClients } });
    expect(read(world)).not.toHaveProperty([`vipnat_vip_local_clients_kept ${vip}`]);
    world.kernel.addAddress({ family: 'ipv4', address: '10.0.0.11', device: 'eth0', prefixLength: 24 });
    world.kernel.addAddress({ family: 'ipv4', address: '10.0.0.50', device: 'eth0' });
    await world.clock.advance(1000);
    expect(read(world)).toMatchObject({ [`vipnat_vip_local_clients_kept ${vip}`]: kept });
  });

  test('while drift is seen and cannot be written', async () => {
    const world = await start();
    for (let count = 0; count < 50; count += 1)
      world.kernel.faults.failNext({ tool: 'iptables-nft-restore', code: 'TOOL_FAILED' });
    world.kernel.run('ipv4', 'nft', '*nat\n-F OUTPUT\nCOMMIT\n');
    await world.clock.advance(1000);
    expect(read(world)).toMatchObject({ vipnat_rules_in_sync: 0, vipnat_rule_differences: 1 });
  });

  test('where files cannot be written', async () => {
    const store = new FakeStore();
    store.problem = new VipnatError('STATE_NOT_WRITTEN', 'x');
    const world = await start({ store }, ['10.77.0.11:6443']);
    expect(read(world)).toMatchObject({
      ...{ vipnat_state_file_current: 0, vipnat_can_serve: 1, vipnat_track_file_current: 1 },
    });
    world.trackFile.problem = new VipnatError('TRACK_FILE_NOT_WRITTEN', 'x');
    world.apiservers.set('10.77.0.11:6443', 'unreachable');
    await world.clock.advance(7000);
    expect(read(world)).toMatchObject({ vipnat_can_serve: 0, vipnat_track_file_current: 0 });
    expect(world.meter.counts).toMatchObject({
      'failures_total STATE_NOT_WRITTEN': 1,
      'failures_total TRACK_FILE_NOT_WRITTEN': 1,
    });
  });

  test('on a host that is drained, and is drained no longer', async () => {
    const drain = new FakeDrain();
    drain.since = new Date('2026-01-01T00:00:00Z');
    const world = await start({ ports: { drain } });
    expect(read(world)).toMatchObject({ vipnat_host_drained: 1 });
    drain.since = null;
    world.agent.checkDrain();
    await world.clock.advance(1000);
    expect(read(world)).toMatchObject({ vipnat_host_drained: 0 });
  });

  test('of the API, where there are credentials', async () => {
    const world = await start();
    const seconds = Date.parse('2026-01-01T00:00:00Z') / 1000;
    world.api.list('ipv4', texts);
    const followed = { vipnat_api_followed: 1, vipnat_api_followed_change_timestamp_seconds: seconds };
    expect(read(world)).toMatchObject(followed);
    world.api.lose();
    expect(read(world)).toMatchObject({ vipnat_api_followed: 0 });
  });

  test('before the first look, and without credentials, is not made up', () => {
    const { agent } = startAgent({ ports: { followApi: () => noApi } });
    const names = new Set(listSamples(agent.state, processState).map(({ name }) => name));
    expect([...names].sort()).toEqual([
      ...['process_cpu_seconds_total', 'process_resident_memory_bytes', 'process_start_time_seconds'],
      ...['vipnat_build_info', 'vipnat_host_drained', 'vipnat_host_drained_vip_stays'],
      ...['vipnat_rule_conflict', 'vipnat_state_file_current', 'vipnat_waiting'],
    ]);
  });
});

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
      [`mode_changes_total ${vip}`]: 1,
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
  expect(running.agent.state.hasRuleConflict).toBe(true);
  expect(repairs).toBeGreaterThanOrEqual(10);
  expect(repairs).toBeLessThanOrEqual(15);
  expect(postponed).toBeGreaterThan(0);
  await clock.advance(90_000);
  expect(running.agent.state.hasRuleConflict).toBe(false);
});

test('everything that can be told beforehand counts from 0', () => {
  const meter = new FakeMeter();
  new LoopMetrics(meter, [toEndpoint(vip)]).synced({ health: new Map([['10.77.0.11:6443', ready]]) }, 20);
  expect(meter.counts).toEqual({});
  expect(meter.known).toEqual(
    expect.arrayContaining([
      'vipnat_writes_total repair',
      'vipnat_failures_total TOOL_FAILED',
      `vipnat_mode_changes_total ${vip}`,
      `vipnat_flow_resets_total ${vip}`,
      'vipnat_apiserver_deaths_total 10.77.0.11:6443',
    ]),
  );
  expect(meter.known).not.toContain('vipnat_failures_total CONFIG_INVALID');
  expect(meter.times).toEqual([0.02]);
});
