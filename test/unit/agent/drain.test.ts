import { testHealth, play } from './health/timeline.ts';
import { forEach, play as playAgent } from './timeline.ts';
import { test, expect, describe } from '@jest/globals';
import { Monitored, local, second, third } from './health/monitored.ts';
import { linesOf } from '../../support/agent/running-agent.ts';
import { FakeDrain } from '../../support/fakes/drain.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { VipnatError } from '../../../lib/errors.ts';

const saysFailOpen = /no other apiserver is ready\. The apiserver stays in use$/;
const saysEnd = /is no longer suspected: it answers again$/;

testHealth({
  // It is asked each second, and the others at once after that.
  'one that says it is not ready gets no new connections from that answer on, and no doubt is told before':
    'm2 failing; m2 draining within 1010; changes m2 draining at once; m2 stale none; suspected nobody;' +
    'm2 says ^/readyz answers 500: \\[-\\]shutdown failed$',
  'one whose etcd alone is gone gets no new connections a few seconds later':
    'm2 ailing; m2 draining after 3001 within 5010; suspected nobody',
  'when etcd goes, and apiservers fail one after the other, nothing changes':
    'm3 ailing; wait 1000; m2 ailing; wait 1000; m1 ailing; wait 121000; m1 healthy; wait 1000; m3 healthy; wait 1000;' +
    'm2 healthy; wait 61000; no change',
  'one that goes on failing when a brown-out is over is draining a few seconds later':
    'all failing; wait 20000; m1 m3 healthy; m2 draining within 5000',
  'one whose etcd does not come back with the others gets none some seconds later':
    'all ailing; wait 20000; m1 m3 healthy; m2 draining after 10001 within 20000',
  'one that is ready again is used after three good answers':
    'm2 failing; m2 draining; m2 healthy; m2 ready after 2001 within 4000',
  'a slow one, which answers after 2 s, is never out': 'm3 slow; wait 600000; no change',
  // They recover one after the other, and who is first does not make the others look bad.
  ...forEach(['ailing', 'slow', 'frozen'], (behaviour) => [
    `a brown-out, in which all are ${behaviour}, changes nothing`,
    `m2 ${behaviour}; wait 1; m3 ${behaviour}; wait 1; m1 ${behaviour}; wait 120000; no change;` +
      (behaviour === 'slow' ? 'suspected nobody;' : 'all doubted;') +
      'm3 healthy; wait 300; m1 healthy; wait 300; m2 healthy; wait 10300; no change; nobody doubted',
  ]),
});

test('a rolling restart with a delay drains, kills and warms one after the other, and never has fewer than two in use', async () => {
  const world = await Monitored.start();
  let fewest = 3;
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 10) {
      await world.clock.advance(10);
      fewest = Math.min(fewest, world.states.filter((state) => state === 'ready').length);
    }
  };
  const steps = [
    ['failing', 20_000, 'draining'],
    ['refusing', 5000, 'dead'],
    ['healthy', 5000, 'ready'],
  ] as const;
  for (const endpoint of [local, second, third]) {
    for (const [behaviour, ms, state] of steps) {
      world.apiservers.set(endpoint, behaviour);
      await pass(ms);
      expect(world.find(endpoint).state).toBe(state);
    }
  }
  expect(fewest).toBe(2);
});

/** What was told above debug. */
function listTold({ logger }: Monitored): string[] {
  return logger.lines.filter(({ level }) => level !== 'debug').map(({ message }) => message);
}

test('a brown-out is one line on the way down and one on the way up', async () => {
  const told = listTold(await play('all ailing; wait 120000; all healthy; wait 60000'));
  expect(told).toEqual([expect.stringMatching(saysFailOpen), expect.stringMatching(saysEnd)]);
});

test('one that leaves while it looks bad is told, and so is the next time that one does', async () => {
  const episode =
    'all ailing; wait 20000; list m1 m3; m1 m3 healthy; wait 20000; m2 healthy; list m1 m2 m3; wait 20000;';
  const lines = [saysFailOpen, saysEnd, /^10\.0\.0\.12:6443 is ready \(3 good answers\)$/];
  const expected = lines.map((line) => expect.stringMatching(line));
  expect(listTold(await play(episode.repeat(2)))).toEqual([...expected, ...expected]);
});

test('when the only one that looks bad leaves, that is the end of it', async () => {
  const { logger } = await play('from m1 m2; m1 m2 ailing; wait 20000; list m1; list m3');
  expect(logger.lines.at(-1)).toMatchObject({
    level: 'info',
    message: `${local} is no longer listed. No other apiserver is suspected`,
  });
});

test('one that died, left and came back is not told to have been down for all that time', async () => {
  const { logger } = await play(
    'm2 refusing; m2 dead; list m1 m3; wait 3600000; m2 healthy; list m1 m2 m3; m2 ready',
  );
  expect(logger.lines.at(-1)?.message).toBe(`${second} is ready (3 good answers)`);
});

test('apiservers that answer nobody without credentials stay in use, and that is told once', async () => {
  // As after each start, until it has read its roles.
  const atStart = 'm1 secretive; wait 5000; m1 healthy; wait 30000';
  const listWarnings = ({ logger }: Monitored) => logger.lines.filter(({ level }) => level === 'warn');
  expect(listWarnings(await play(atStart))).toEqual([]);
  const world = await play(`${atStart}; all secretive; wait 60000; no change`);
  expect(listWarnings(world).map(({ message }) => message)).toEqual([
    expect.stringMatching(/ \(--kubeconfig names credentials\)$/),
  ]);
  expect(world.monitor.view.get(third)?.livenessOnly).toBe('/readyz answers 401');
});

/** A drain check each two seconds, with the connect that is due then. */
const noticed = 'm2 draining within 2300';

testHealth({
  'one whose host is drained gets no new connections, and keeps those that are open':
    `drain m2; ${noticed}; changes m2 draining at once; m2 says ^its host is drained$; m2 is drained; m2 stale none;` +
    'wait 600000; changes m2 draining at once; m2 stale none',
  'one whose host is no longer drained warms up, and then is ready': `drain m2; ${noticed}; wait 60000; undrain m2; m2 warming within 2300; m2 ready after 1900 within 3100; m2 is undrained`,
  'one that comes back while its host is drained is draining, and never ready':
    `drain m2; ${noticed}; m2 refusing; m2 dead; m2 is undrained; wait 60000; m2 healthy; wait 30000;` +
    'states ready draining ready; changes m2 draining at once, m2 dead, m2 draining',
  'a drain that leaves no other apiserver still takes none away that lives: all of them drain':
    'm3 refusing; drain m1 m2; wait 10000; states draining draining dead',
  'one that is shut down while its host is drained, and back after that, becomes ready':
    `drain m2; ${noticed}; m2 failing; wait 5000; undrain m2; wait 5000; states ready draining ready;` +
    'm2 is undrained; m2 says shutdown; m2 healthy; m2 ready',
});

test('one drain check is made in two seconds, and none of an apiserver that accepts nothing', async () => {
  const world = await Monitored.start();
  world.apiservers.set(third, 'refusing');
  await world.clock.advance(1000);
  world.sent.clear();
  await world.clock.advance(60_000);
  expect(world.sent.to(second).drainChecks.length).toBeGreaterThan(25);
  expect(world.sent.to(second).drainChecks.length).toBeLessThanOrEqual(31);
  expect(world.sent.to(third).drainChecks).toEqual([]);
});

const [ownText, secondText, thirdText] = ['10.77.0.11:6443', '10.77.0.12:6443', '10.77.0.13:6443'] as const;
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
  const { running, kernel } = await playAgent('before; start; wait 5000', {
    config: { endpoints: [ownText, secondText, thirdText].map(toEndpoint) },
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
  for (const endpoint of [secondText, thirdText]) apiservers.set(endpoint, 'refusing');
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
    linesOf({ logger }, 'info').filter((line) => line === `${secondText} is draining: its host is drained`);
  apiservers.set(secondText, 'refusing');
  apiservers.drain(secondText);
  await clock.advance(5000);
  expect(said()).toHaveLength(0);
  apiservers.set(secondText, 'healthy');
  await clock.advance(10_000);
  expect(said()).toHaveLength(1);
  apiservers.drain(secondText, false);
  apiservers.set(secondText, 'failing');
  await clock.advance(10_000);
  apiservers.drain(secondText);
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
