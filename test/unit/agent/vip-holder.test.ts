import { type RunningAgent, startAgent } from '../../support/agent/running-agent.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { describe, test, expect } from '@jest/globals';
import { advanceUntil } from '../advance-until.ts';

const vip = '10.0.0.50';
const node = '10.0.0.11';
const mac = '02:00:00:00:00:99';
const twice = `two hosts hold ${vip}: this node, and the host with MAC ${mac}, which answers ARP for it`;
const alone = `only this node holds ${vip} again: no other host answers ARP for it`;

/** Three in seven seconds, and what begins in the last ones. */
const mostInTenMinutes = 3 * Math.ceil(600 / 7);

const vipHere = { family: 'ipv4', address: vip, device: 'eth0' } as const;

async function start(isHolder: boolean): Promise<RunningAgent> {
  const clock = new FakeClock();
  const kernel = new FakeKernel(clock);
  kernel.addAddress({ family: 'ipv4', address: node, device: 'eth0' });
  if (isHolder) kernel.addAddress(vipHere);
  const world = startAgent({ clock, kernel });
  await clock.advance(1000);
  return world;
}

/** What was said of who holds it. */
const said = ({ logger }: RunningAgent) =>
  logger.lines
    .map(({ message }) => message)
    .filter((line) => / holds? 10\.0\.0\.50/.test(line) && !line.startsWith('this node'));

describe('a VIP that this node holds', () => {
  test('is told within 10 s, once, when another host answers for it too, and when that ends', async () => {
    const world = await start(true);
    await world.clock.advance(20_000);
    expect(said(world)).toEqual([]);
    world.link.others.set(vip, mac);
    await world.clock.advance(10_000);
    expect(said(world)).toEqual([expect.stringContaining(twice)]);
    await world.clock.advance(600_000);
    expect(said(world)).toHaveLength(1);
    expect(world.agent.state.duplicateOwners).toEqual(new Map([[vip, mac]]));
    world.link.others.clear();
    await world.clock.advance(10_000);
    expect(said(world).slice(1)).toEqual([alone]);
    expect(world.events.recorded.slice(-2)).toEqual([`VipConflict ${twice}`, `VipUncontested ${alone}`]);
  });

  test('is not told for a single answer, nor while it comes here from another master', async () => {
    const world = await start(false);
    world.link.others.set(vip, mac);
    await world.clock.advance(10_000);
    world.kernel.addAddress(vipHere);
    await world.clock.advance(1000);
    world.link.others.clear();
    await world.clock.advance(20_000);
    expect(world.link.asked.length).toBeGreaterThan(2);
    world.link.others.set(vip, mac);
    const before = world.link.asked.length;
    await advanceUntil(world.clock, 'it is asked for', () => world.link.asked.length > before, 100);
    world.link.others.clear();
    await world.clock.advance(60_000);
    expect(said(world)).toEqual([]);
  });

  test('is not told when whoever answers does so for every address', async () => {
    const world = await start(true);
    world.link.proxy = mac;
    await world.clock.advance(60_000);
    expect(world.link.asked).toContain(node);
    expect(said(world)).toEqual([]);
  });

  test('takes its conflict along when it goes, and is asked for by its holder only', async () => {
    const world = await start(true);
    world.link.others.set(vip, mac);
    await world.clock.advance(20_000);
    world.kernel.removeAddress(vip);
    await world.clock.advance(1000);
    expect(world.agent.state.duplicateOwners).toEqual(new Map());
    const before = world.link.asked.length;
    await world.clock.advance(120_000);
    expect(world.link.asked).toHaveLength(before);
  });

  test('that nobody may ask for is said once at debug, and asked for again', async () => {
    const world = await start(true);
    world.link.problem = new Error('not permitted');
    await world.clock.advance(60_000);
    const lines = world.logger.lines.filter(({ message }) => message.includes('cannot ask whether'));
    expect(lines).toMatchObject([{ level: 'debug' }]);
    world.link.problem = null;
    world.link.others.set(vip, mac);
    await world.clock.advance(10_000);
    expect(said(world)).toHaveLength(1);
  });
});

describe('the questions (I15)', () => {
  test.each([
    ['silence', () => null],
    ['an answer now and then', (index: number) => (index % 2 === 0 ? mac : null)],
    ['an answer each time', () => mac],
    ['an answer for every address', (_: number, world: RunningAgent) => (world.link.proxy = mac)],
  ])('are three in seven seconds at most: %s', async (_, answer) => {
    const world = await start(true);
    for (let second = 0; second < 600; second += 1) {
      const before = world.link.asked.length;
      const next = answer(before, world);
      if (next === null) world.link.others.delete(vip);
      else world.link.others.set(vip, next);
      await world.clock.advance(1000);
    }
    expect(world.link.asked.length).toBeGreaterThan(100);
    expect(world.link.asked.length).toBeLessThanOrEqual(mostInTenMinutes);
  });

  test('are no more when the VIP comes and goes all the time', async () => {
    const world = await start(true);
    for (let turn = 0; turn < 240; turn += 1) {
      world.kernel.removeAddress(vip);
      await world.clock.advance(200);
      world.kernel.addAddress(vipHere);
      await world.clock.advance(2300);
    }
    expect(world.link.asked.length).toBeGreaterThan(100);
    expect(world.link.asked.length).toBeLessThanOrEqual(mostInTenMinutes);
  });

  test('end with the agent', async () => {
    const world = await start(true);
    await world.agent.stop();
    const before = world.link.asked.length;
    await world.clock.advance(60_000);
    expect(world.link.asked).toHaveLength(before);
  });
});
