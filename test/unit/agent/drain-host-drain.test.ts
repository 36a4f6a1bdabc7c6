import { linesOf } from '../../support/agent/running-agent.ts';
import { FakeDrain } from '../../support/fakes/drain.ts';
import { play } from './timeline.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { test, expect, describe } from '@jest/globals';
import { VipnatError } from '../../../lib/errors.ts';

const [own, second, third] = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'] as const;
const since = new Date('2026-11-23T10:00:00.000Z');

const toAddress = (address: string) => ({ family: 'ipv4', address, device: 'eth0' }) as const;

const vip = toAddress('10.0.0.50');
const mac = '02:00:00:00:00:12';
const vacant = /no other host has taken 10\.0\.0\.50: this host may hold it until vipnat undrain/;
const warnings = (world: World) => linesOf(world, 'warn').filter((line) => vacant.test(line));

/** An agent on the host of the first of three apiservers, which holds the VIP. */
async function start(isDrained = false, vipStaysSince: Date | null = null) {
  const drain = new FakeDrain();
  if (isDrained) drain.since = since;
  drain.vipStaysSince = vipStaysSince;
  const { running, kernel } = await play('before; start; wait 5000', {
    config: { endpoints: [own, second, third].map(toEndpoint) },
    prepare: (host) => {
      for (const address of [toAddress('10.77.0.11'), vip]) host.kernel.addAddress(address);
    },
    world: { ports: { drain } },
  });
  return { ...running, kernel, drain };
}

type World = Awaited<ReturnType<typeof start>>;

/** As keepalived does where it is told so: the VIP goes, and another host takes it, if one is there to. */
function giveUp({ kernel, link }: World, isTaken: boolean): void {
  kernel.removeAddress(vip.address);
  if (isTaken) link.others.set(vip.address, mac);
}

test('a host that was never drained reads its rule once, and writes none', async () => {
  const { drain, clock, agent, trackFile } = await start();
  await clock.advance(600_000);
  expect(drain).toMatchObject({ reads: 1, written: [] });
  expect(agent.checkDrain()).toEqual({ since: null, vipStaysSince: null, isKept: true, problem: null });
  expect(trackFile.values.at(-1)).toBe(0);
});

test('one that is drained refuses drain checks at its own port, and lets the VIP go', async () => {
  const { drain, clock, agent, trackFile, logger } = await start();
  drain.since = since;
  agent.checkDrain();
  await clock.advance(1000);
  expect(drain.ports).toEqual([6443]);
  expect(agent.checkDrain()).toEqual({ since, vipStaysSince: null, isKept: true, problem: null });
  expect(trackFile.values.at(-1)).toBe(1);
  expect(linesOf({ logger }, 'warn').filter((line) => line.includes('drained'))).toEqual([
    'this host is drained since 2026-11-23T10:00:00.000Z: its apiserver gets no new connections, and the VIP leaves. vipnat undrain ends that',
  ]);
});

test('its drain ends where the file goes: the rule is removed, and the node may hold the VIP', async () => {
  const { drain, clock, agent, trackFile } = await start(true);
  expect({ ports: drain.ports, value: trackFile.values.at(-1) }).toEqual({ ports: [6443], value: 1 });
  drain.since = null;
  agent.checkDrain();
  await clock.advance(1000);
  expect({ ports: drain.ports, value: trackFile.values.at(-1) }).toEqual({ ports: [], value: 0 });
});

test('an agent that starts on a drained host never says that its node can serve', async () => {
  const { trackFile } = await start(true);
  expect(trackFile.values).toEqual([1]);
});

test('another program that removes or edits the rule is undone by the next look', async () => {
  const { drain, kernel, clock } = await start(true);
  for (const ports of [[], null]) {
    drain.ports = ports;
    kernel.addAddress(toAddress('10.0.0.99'));
    await clock.advance(5000);
    expect(drain.ports).toEqual([6443]);
    kernel.removeAddress('10.0.0.99');
    await clock.advance(5000);
  }
  // And in sync nothing is written.
  const count = drain.written.length;
  await clock.advance(300_000);
  expect(drain.written).toHaveLength(count);
});

test('a drained node keeps the VIP where no apiserver on another host takes connections', async () => {
  const { apiservers, clock, trackFile } = await start(true);
  for (const endpoint of [second, third]) apiservers.set(endpoint, 'refusing');
  await clock.advance(5000);
  expect(trackFile.values.at(-1)).toBe(0);
});

test('a rule that cannot be written is told once, and tried again', async () => {
  const { drain, clock, agent, logger } = await start();
  drain.problem = new VipnatError('TOOL_MISSING', 'nft is not on this host');
  await clock.advance(180_000);
  expect(linesOf({ logger }, 'warn').filter((line) => line.startsWith('nft'))).toHaveLength(1);
  expect(agent.checkDrain().problem).toBe('nft is not on this host');
  drain.problem = null;
  drain.since = since;
  await clock.advance(120_000);
  expect(agent.checkDrain()).toEqual({ since, vipStaysSince: null, isKept: true, problem: null });
});

test('another apiserver whose host is drained is told at info, also where it was dead, or was draining before', async () => {
  const { apiservers, clock, logger } = await start();
  const said = () =>
    linesOf({ logger }, 'info').filter((line) => line === `${second} is draining: its host is drained`);
  apiservers.set(second, 'refusing');
  apiservers.drain(second);
  await clock.advance(5000);
  expect(said()).toHaveLength(0);
  apiservers.set(second, 'healthy');
  await clock.advance(10_000);
  expect(said()).toHaveLength(1);
  apiservers.drain(second, false);
  apiservers.set(second, 'failing');
  await clock.advance(10_000);
  apiservers.drain(second);
  await clock.advance(60_000);
  expect(said()).toHaveLength(2);
});

describe('the VIP that a drained host has given up', () => {
  test('stays away while another host answers for it, asked for once in five seconds', async () => {
    const world = await start(true);
    giveUp(world, true);
    await world.clock.advance(10_000);
    const before = world.link.asked.length;
    await world.clock.advance(600_000);
    // Each answer is followed by a question for an address of this host: a router may answer for all.
    expect(world.link.asked.length - before).toBeLessThanOrEqual(2 * (600 / 5));
    expect(world.link.asked.length - before).toBeGreaterThan(200);
    expect({ value: world.trackFile.values.at(-1), warnings: warnings(world) }).toEqual({
      value: 1,
      warnings: [],
    });
  });

  test('may come back once nobody has answered for eight seconds, and stays until undrain', async () => {
    const world = await start(true);
    giveUp(world, false);
    await world.clock.advance(7000);
    expect(world.trackFile.values.at(-1)).toBe(1);
    await world.clock.advance(10_000);
    expect({ value: world.trackFile.values.at(-1), warnings: warnings(world).length }).toEqual({
      value: 0,
      warnings: 1,
    });
    expect(world.drain.vipStaysSince).toEqual(world.agent.checkDrain().vipStaysSince);
    expect(world.drain.ports).toEqual([6443]);
    // Another keepalived starts: nothing flaps, and nobody is asked.
    world.link.others.set(vip.address, mac);
    const { length } = world.link.asked;
    await world.clock.advance(600_000);
    expect(world.trackFile.values.slice(world.trackFile.values.indexOf(1))).toEqual([1, 0]);
    expect(world.link.asked).toHaveLength(length);
    // Drained anew it leaves.
    world.drain.since = new Date(since.getTime() + 60_000);
    world.drain.vipStaysSince = null;
    world.agent.checkDrain();
    await world.clock.advance(5000);
    expect(world.trackFile.values.at(-1)).toBe(1);
  });

  test('stays also for the next agent, and where that could not be written for this one', async () => {
    const world = await start(true);
    world.drain.readOnly = new VipnatError('STATE_NOT_WRITTEN', 'the folder is read-only');
    giveUp(world, false);
    await world.clock.advance(120_000);
    expect({ value: world.trackFile.values.at(-1), warnings: warnings(world).length }).toEqual({
      value: 0,
      warnings: 1,
    });
    expect(linesOf(world, 'warn')).toContain('the folder is read-only');
    const next = await start(true, since);
    expect(next.trackFile.values).toEqual([0]);
    expect(linesOf(next, 'warn').join()).toContain('the VIP may stay, because no other host took it');
  });

  test('is missed by the silences of this drain alone: those of one before count for nothing', async () => {
    const world = await start(true);
    giveUp(world, false);
    await world.clock.advance(7000);
    world.drain.since = null;
    world.agent.checkDrain();
    await world.clock.advance(60_000);
    world.drain.since = since;
    world.agent.checkDrain();
    await world.clock.advance(7000);
    expect(warnings(world)).toEqual([]);
    await world.clock.advance(10_000);
    expect(warnings(world)).toHaveLength(1);
  });

  test('is not missed for a silence that ends, nor where it has not left', async () => {
    const world = await start(true);
    await world.clock.advance(60_000);
    giveUp(world, true);
    for (let turn = 0; turn < 20; turn += 1) {
      world.link.others.delete(vip.address);
      await world.clock.advance(6000);
      world.link.others.set(vip.address, mac);
      await world.clock.advance(6000);
    }
    expect({ value: world.trackFile.values.at(-1), warnings: warnings(world) }).toEqual({
      value: 1,
      warnings: [],
    });
  });

  test('has no holder where a router answers for every address, or nobody can be asked', async () => {
    for (const isProxied of [true, false]) {
      const world = await start(true);
      giveUp(world, false);
      if (isProxied) world.link.proxy = mac;
      else world.link.problem = new Error('not permitted');
      await world.clock.advance(20_000);
      expect(warnings(world)).toHaveLength(1);
    }
  });
});
