import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { type RunningAgent, startAgent, ordinaryConfig, linesOf } from '../../support/agent/running-agent.ts';
import { describe, test, expect } from '@jest/globals';
import { VipnatError } from '../../../lib/errors.ts';

const vip = toEndpoint('10.0.0.50:6443');
const vip6 = toEndpoint('[fd00::50]:6443');
const held = { family: 'ipv4', address: '10.0.0.50', device: 'eth0' } as const;
const held6 = { family: 'ipv6', address: 'fd00::50', device: 'eth0' } as const;
const route = { address: '10.0.0.50', device: 'eth0', source: '10.0.0.11' };

/** Longer than the kernel takes to tell of a change, shorter than a look at all rules may take. */
const noticedMs = 250;

function createKernel(clock = new FakeClock()): { clock: FakeClock; kernel: FakeKernel } {
  const kernel = new FakeKernel(clock);
  kernel.addAddress({ family: 'ipv4', address: '10.0.0.11', device: 'eth0', prefixLength: 24 });
  return { clock, kernel };
}

async function start(world = createKernel()): Promise<RunningAgent> {
  const running = startAgent({ ...world, config: { ...ordinaryConfig, vips: [vip, vip6] } });
  await world.clock.advance(5000);
  return running;
}

describe('a VIP that comes and goes', () => {
  test('has a route of ours while it is here, however long a look at the rules takes', async () => {
    const { kernel, clock, logger, agent } = await start();
    expect(kernel.sourceRoutes).toEqual([]);
    kernel.faults.delayEvery('iptables-nft-save', 5000);
    kernel.addAddress(held);
    await clock.advance(noticedMs);
    expect(kernel.sourceRoutes).toEqual([route]);
    expect(agent.state.localSources).toEqual(new Map([['10.0.0.50', '10.0.0.11']]));
    kernel.removeAddress('10.0.0.50');
    await clock.advance(noticedMs);
    expect(kernel.sourceRoutes).toEqual([]);
    expect(agent.state.localSources).toEqual(new Map());
    const lines = logger.lines.map(({ message }) => message).filter((line) => line.includes('10.0.0.11'));
    expect(lines).toEqual([
      'local clients now connect to 10.0.0.50 from 10.0.0.11: their connections survive a move of the VIP',
      'vipnat removed the local route of 10.0.0.50 with the source 10.0.0.11: 10.0.0.50 is no longer on this host',
    ]);
  });

  test('ends the own connections that it takes along, and no other', async () => {
    const { kernel, clock, logger } = await start();
    kernel.connect(vip);
    kernel.addAddress(held);
    kernel.addAddress(held6);
    await clock.advance(noticedMs);
    kernel.connect(vip);
    kernel.connect(vip6);
    kernel.removeAddress('10.0.0.50');
    kernel.removeAddress('fd00::50');
    await clock.advance(noticedMs);
    expect(kernel.connections).toEqual([{ vip, source: '10.0.0.11' }]);
    expect(logger.lines.map(({ message }) => message)).toEqual(
      expect.arrayContaining([
        '10.0.0.50 left this node: vipnat ended 1 stale connection of local clients to 10.0.0.50:6443',
        'fd00::50 left this node: vipnat ended 1 stale connection of local clients to [fd00::50]:6443',
      ]),
    );
  });
});

describe('an agent', () => {
  test('that cannot add a route removes others all the same, adds the next, and ends what hangs', async () => {
    const { clock, kernel } = createKernel();
    const other = toEndpoint('10.0.0.60:6443');
    // As in a VRF: the kernel refuses every route of its addresses in this table.
    const add = kernel.addSourceRoute.bind(kernel);
    kernel.addSourceRoute = (one) =>
      one.address === vip.address ? Promise.reject(new VipnatError('NETLINK_FAILED', 'EINVAL')) : add(one);
    kernel.addAddress(held);
    kernel.addAddress({ ...held, address: '10.0.0.60' });
    kernel.connect(vip6);
    kernel.sourceRoutes = [{ ...route, address: '10.0.0.99' }];
    startAgent({ clock, kernel, config: { ...ordinaryConfig, vips: [vip, other, vip6] } });
    await clock.advance(1000);
    expect(kernel.sourceRoutes).toEqual([{ ...route, address: '10.0.0.60' }]);
    expect(kernel.connections).toEqual([]);
  });

  test('takes its routes along when it stops', async () => {
    const { kernel, clock, agent } = await start();
    kernel.addAddress(held);
    await clock.advance(noticedMs);
    await agent.stop();
    expect(kernel.sourceRoutes).toEqual([]);
    kernel.removeAddress('10.0.0.50');
    kernel.addAddress(held);
    await clock.advance(noticedMs);
    expect(kernel.sourceRoutes).toEqual([]);
  });

  test('sets a route again that somebody removed, at its next look at the latest', async () => {
    const { kernel, clock } = await start();
    kernel.addAddress(held);
    await clock.advance(noticedMs);
    kernel.sourceRoutes = [];
    await clock.advance(65_000);
    expect(kernel.sourceRoutes).toEqual([route]);
  });

  test('that may not change routes says so once, and keeps the rules all the same', async () => {
    const { kernel, clock, logger, meter, agent } = await start();
    for (let failure = 0; failure < 3; failure += 1)
      kernel.faults.failNext({ tool: 'route', code: 'TOOL_NOT_PERMITTED' });
    kernel.addAddress(held);
    const sources: unknown[] = [];
    for (let change = 0; change < 3; change += 1) {
      await clock.advance(noticedMs);
      sources.push(agent.state.localSources.get('10.0.0.50'));
      kernel.trigger('addresses');
    }
    expect(sources[0]).toBe('10.0.0.50');
    const about = logger.lines.filter(({ message }) =>
      message.includes('Connections of local clients may hang'),
    );
    expect(about).toHaveLength(1);
    expect(meter.counts).toMatchObject({ 'failures_total TOOL_NOT_PERMITTED': 3 });
    await clock.advance(noticedMs);
    expect(kernel.sourceRoutes).toEqual([route]);
    expect(linesOf({ logger }, 'error')).toEqual([]);
  });
});
