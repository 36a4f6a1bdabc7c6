import { type RunningAgent, startAgent } from '../../support/agent/running-agent.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { describe, test, expect } from '@jest/globals';
import { advanceUntil } from '../advance-until.ts';
import { type Steps, testSteps, toChecks } from '../steps.ts';

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

const said = ({ logger }: RunningAgent) =>
  logger.lines
    .map(({ message }) => message)
    .filter((line) => / holds? 10\.0\.0\.50/.test(line) && !line.startsWith('this node'));

/** An agent that `start` starts; `start holder` where its node has the VIP. */
function createSteps(): Steps {
  let started: RunningAgent | null = null;
  let asked = 0;
  const world = (): RunningAgent => {
    if (started === null) throw new Error('it was not started');
    return started;
  };
  const isAskedAgain = () => world().link.asked.length > asked;
  return {
    start: async (who) => (started = await start(who === 'holder')),
    wait: (ms) => world().clock.advance(Number(ms)),
    contested: () => world().link.others.set(vip, mac),
    alone: () => {
      world().link.others.clear();
    },
    proxied: () => (world().link.proxy = mac),
    forbid: (problem) => (world().link.problem = problem === '' ? null : new Error(problem)),
    take: () => {
      world().kernel.addAddress(vipHere);
    },
    lose: () => {
      world().kernel.removeAddress(vip);
    },
    stop: () => world().agent.stop(),
    mark: () => (asked = world().link.asked.length),
    ask: () => advanceUntil(world().clock, 'it is asked for', isAskedAgain, 100),
    ...toChecks({
      says: (lines) => [
        said(world())
          .map((line) => line.slice(0, 10))
          .join(', '),
        lines,
      ],
      asked: (isAsked) => [String(isAskedAgain()), isAsked],
      asks: (address) => [world().link.asked, expect.arrayContaining([address])],
      owners: (mac) => [[...world().agent.state.duplicateOwners.values()].join(), mac],
      told: () => [
        [said(world()), world().events.recorded.slice(-2)],
        [
          [expect.stringContaining(twice), alone],
          [`VipConflict ${twice}`, `VipUncontested ${alone}`],
        ],
      ],
      debug: (level) => [
        world().logger.lines.filter(({ message }) => message.includes('cannot ask whether')),
        [expect.objectContaining({ level })],
      ],
    }),
  };
}

describe('a VIP that this node holds', () => {
  testSteps(createSteps, {
    'is told within 10 s, once, when another host answers for it too, and when that ends':
      `start holder; wait 20000; says ; contested; wait 10000; says two hosts ; wait 600000; says two hosts ; owners ${mac}; ` +
      'alone; wait 10000; told',
    'is not told for a single answer, nor while it comes here from another master':
      'start; contested; wait 10000; take; mark; wait 1000; alone; wait 20000; asked true; mark; contested; ask; ' +
      'alone; wait 60000; says ',
    'is not told when whoever answers does so for every address': `start holder; proxied; wait 60000; asks ${node}; says `,
    'takes its conflict along when it goes, and is asked for by its holder only':
      'start holder; contested; wait 20000; lose; wait 1000; owners ; mark; wait 120000; asked false',
    'that nobody may ask for is said once at debug, and asked for again':
      'start holder; forbid not permitted; wait 60000; debug debug; forbid; contested; wait 10000; says two hosts ',
    'is asked for no more when the agent has ended (I15)':
      'start holder; stop; mark; wait 60000; asked false',
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
});
