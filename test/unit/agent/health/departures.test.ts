import { describe, expect, test } from '@jest/globals';
import { formatEndpoint } from '../../../../lib/address/endpoint.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { syncKubeProxy } from '../../../support/kube-proxy/in-memory.ts';
import { flowTo, isProbed, list, nft, one, start, three, two, vip } from '../reconcile/departed-world.ts';
import { linesOf } from '../../../support/agent/running-agent.ts';

const minuteMs = 60_000;

describe('connections to an apiserver that is listed no more', () => {
  test('are reset when its host dies: frozen, then draining, then dropped from the list', async () => {
    const world = await start();
    world.apiservers.set(three, 'frozen');
    await world.clock.advance(12_000);
    await list(world, [one, two]);
    await world.clock.advance(10 * minuteMs);
    expect(world.kernel.resets).toEqual([]);
    world.apiservers.set(three, 'silent');
    await world.clock.advance(6000);
    expect(world.kernel.resets).toContainEqual(flowTo(three));
    expect(linesOf(world, 'info')).toContainEqual(
      'vipnat reset 1 stale connection of 10.0.0.50:6443 to 10.77.0.13:6443',
    );
  });

  test('are reset when it is terminated, leaves the list, and its host is powered off within its drain', async () => {
    const world = await start();
    world.apiservers.set(three, 'failing');
    await world.clock.advance(2000);
    await list(world, [one, two]);
    world.apiservers.set(three, 'refusing');
    await world.clock.advance(20_000);
    // Its host still lives, and answers for connections that are gone.
    expect(world.kernel.resets).toEqual([]);
    world.apiservers.set(three, 'silent');
    await world.clock.advance(6000);
    expect(world.kernel.resets).toContainEqual(flowTo(three));
  });

  test('are reset by an agent that was started after it had left', async () => {
    const world = await start({ listed: [one, two] });
    await world.clock.advance(minuteMs);
    world.apiservers.set(three, 'silent');
    await world.clock.advance(6000);
    expect(world.kernel.resets).toContainEqual(flowTo(three));
  });

  test('are reset by an agent that was started after its host had died', async () => {
    const world = await start({ listed: [one, two], behaviour: 'silent' });
    await world.clock.advance(20_000);
    expect(world.kernel.resets).toContainEqual(flowTo(three));
  });

  test.each(['refusing', 'clogged', 'frozen'] as const)(
    'are left alone where it is only %s',
    async (behaviour) => {
      const world = await start();
      await list(world, [one, two]);
      world.apiservers.set(three, behaviour);
      await world.clock.advance(5 * minuteMs);
      expect(world.kernel.resets.filter(({ isHalfOpen }) => !isHalfOpen)).toEqual([]);
    },
  );

  test('are left alone where no other host is heard either: that is this side', async () => {
    const world = await start();
    await list(world, [one, two]);
    await world.clock.advance(minuteMs);
    for (const endpoint of [one, two, three]) world.apiservers.set(endpoint, 'silent');
    await world.clock.advance(minuteMs);
    expect(world.kernel.resets).toEqual([]);
  });
});

describe('an apiserver that is listed no more', () => {
  test('is probed until it has no connections', async () => {
    const world = await start();
    await list(world, [one, two]);
    await world.clock.advance(10 * minuteMs);
    expect(await isProbed(world, three)).toBe(true);
    await world.kernel.resetFlows(flowTo(three));
    await world.clock.advance(minuteMs);
    expect(await isProbed(world, three)).toBe(false);
  });

  test('and has no connections is not probed a minute later, and nothing is counted any more', async () => {
    const world = await start({ flows: [one, two] });
    await world.clock.advance(10 * minuteMs);
    expect(world.kernel.counts).toBe(1);
    await list(world, [one, two]);
    await world.clock.advance(minuteMs);
    expect(await isProbed(world, three)).toBe(false);
    await world.clock.advance(10 * minuteMs);
    expect(world.kernel.counts).toBe(2);
  });

  test('is told when it is found, and not again', async () => {
    const world = await start();
    await list(world, [one, two]);
    await world.clock.advance(10 * minuteMs);
    expect(linesOf(world, 'info').filter((line) => line.includes('is no longer listed'))).toEqual([
      `${three} is no longer listed, but has 1 open connection. vipnat probes it until it ends`,
    ]);
  });

  // One that was named before is in reserve, and may serve for that reason: these were not.
  test('gets no new connections, however well it does', async () => {
    const world = await start({ listed: [one, two] });
    await world.clock.advance(minuteMs);
    for (const behaviour of ['refusing', 'failing', 'frozen', 'silent'] as const) {
      for (const endpoint of [one, two]) world.apiservers.set(endpoint, behaviour);
      await world.clock.advance(20_000);
      expect([...world.agent.health.keys()].sort()).toEqual([one, two]);
      expect(world.kernel.show('ipv4', 'nft')).not.toContain('10.77.0.13');
      for (const endpoint of [one, two]) world.apiservers.set(endpoint, 'healthy');
      await world.clock.advance(minuteMs);
    }
    expect(await isProbed(world, three)).toBe(true);
  });

  test('is no witness: what it answers takes nobody out of use', async () => {
    const world = await start({ listed: [one, two] });
    await world.clock.advance(minuteMs);
    for (const behaviour of ['ailing', 'failing', 'frozen'] as const) {
      for (const endpoint of [one, two]) world.apiservers.set(endpoint, behaviour);
      await world.clock.advance(minuteMs);
      expect([one, two].map((endpoint) => world.agent.health.get(endpoint)?.state)).toEqual([
        'ready',
        'ready',
      ]);
    }
  });

  test('has to warm up when it is listed again', async () => {
    const world = await start();
    await list(world, [one, two]);
    await world.clock.advance(minuteMs);
    syncKubeProxy(world.kernel, nft, [one, two, three].map(toEndpoint));
    world.kernel.trigger('nft-generation');
    await world.clock.advance(100);
    expect(world.agent.health.get(three)?.state).toBe('warming');
    await world.clock.advance(5000);
    expect(world.agent.health.get(three)?.state).toBe('ready');
  });
});

describe('connections are counted', () => {
  test('of each virtual IP, of both families', async () => {
    const [otherVip, ipv6Vip] = [toEndpoint('10.0.0.51:6443'), toEndpoint('[fd77::50]:6443')];
    const departed = toEndpoint('[fd77::13]:6443');
    const flows = [
      { vip: otherVip, backend: toEndpoint(three), isHalfOpen: false },
      { vip: ipv6Vip, backend: departed, isHalfOpen: false },
    ];
    const vips = [vip, otherVip, ipv6Vip];
    const world = await start({ listed: [one, two], flows: [], otherFlows: flows, vips });
    await world.clock.advance(2 * minuteMs);
    for (const { backend } of flows) world.apiservers.set(formatEndpoint(backend), 'silent');
    await world.clock.advance(6000);
    for (const flow of flows) expect(world.kernel.resets).toContainEqual(flow);
  });

  test('once a minute at most, however often the list changes', async () => {
    const world = await start();
    for (let change = 0; change < 60; change += 1) {
      await list(world, change % 2 === 0 ? [one, two] : [one, two, three]);
    }
    // Three minutes.
    expect(world.kernel.counts).toBeLessThanOrEqual(1 + 3);
  });

  test('and of a hundred that once were apiservers the eight with the most are probed', async () => {
    const others = Array.from({ length: 100 }, (_, index) => `10.77.1.${index + 1}:6443`);
    const flows = others.flatMap((other, index) => Array<string>(index + 1).fill(other));
    const world = await start({ flows });
    await world.clock.advance(minuteMs);
    world.sent.clear();
    await world.clock.advance(minuteMs);
    expect(others.filter((other) => world.sent.to(other).connects.length > 0)).toEqual(others.slice(-8));
  });

  test('and what the virtual IPs and this host itself answer is nobody’s departure', async () => {
    const world = await start({ flows: [] });
    const otherVip = toEndpoint('10.0.0.51:6443');
    world.kernel.trackFlow({ vip, backend: vip, isHalfOpen: false });
    world.kernel.trackFlow({ vip, backend: otherVip, isHalfOpen: false });
    world.kernel.addAddress({ family: 'ipv4', address: '10.0.0.51', device: 'eth0' });
    await list(world, [one, two]);
    await world.clock.advance(2 * minuteMs);
    world.sent.clear();
    await world.clock.advance(minuteMs);
    for (const nobody of ['10.0.0.50:6443', '10.0.0.51:6443'])
      expect(world.sent.to(nobody).connects).toEqual([]);
  });

  test('and where they cannot be, one that left is probed for a quarter of an hour', async () => {
    const world = await start({ flows: [] });
    for (let time = 0; time < 100; time += 1)
      world.kernel.faults.failNext({ tool: 'connections', code: 'NETLINK_FAILED' });
    await list(world, [one, two]);
    await world.clock.advance(10 * minuteMs);
    expect(await isProbed(world, three)).toBe(true);
    await world.clock.advance(10 * minuteMs);
    expect(await isProbed(world, three)).toBe(false);
  });

  test('and where they cannot be for ever, so is each that leaves later', async () => {
    const world = await start({ flows: [] });
    for (let time = 0; time < 100; time += 1)
      world.kernel.faults.failNext({ tool: 'connections', code: 'NETLINK_FAILED' });
    await list(world, [one, two]);
    await world.clock.advance(20 * minuteMs);
    await list(world, [one, two, three]);
    await world.clock.advance(20 * minuteMs);
    await list(world, [one, two]);
    await world.clock.advance(10 * minuteMs);
    expect(await isProbed(world, three)).toBe(true);
    await world.clock.advance(10 * minuteMs);
    expect(await isProbed(world, three)).toBe(false);
  });
});

test('an agent that is stopped counts and probes no more', async () => {
  const world = await start();
  await list(world, [one, two]);
  await world.agent.stop();
  const { counts } = world.kernel;
  world.sent.clear();
  await world.clock.advance(10 * minuteMs);
  expect(world.kernel.counts).toBe(counts);
  expect(world.sent.to(three).connects).toEqual([]);
  expect(world.clock.pending).toBe(0);
});
