import { jest, afterEach, describe, test, expect } from '@jest/globals';
import { EngineWorld } from '../../support/fakes/engine-world.ts';
import { makeReport } from '../../support/fakes/service-objects.ts';
import { advanceUntil } from '../advance-until.ts';

jest.setTimeout(120_000);

let world = new EngineWorld();
afterEach(async () => {
  await world.stop();
  world = new EngineWorld();
});

const newest = 1_000_000_000;
const second = 1000;
const minute = 60 * second;

const toReport = (node: string, seats: readonly string[], version = newest) =>
  makeReport(node, version, { seats });

/** So many Services with an address, and two nodes that hold nothing but the first seat. */
async function serve(services: number): Promise<void> {
  world.createNode('node-1', toReport('node-1', ['pool/0']));
  world.createNode('node-2', toReport('node-2', []));
  await world.begin(services);
  await advanceUntil(world.clock, 'all are served', () => world.listServed().length >= services, second);
  await world.clock.advance(minute);
}

/** Something that happens again and again, for a minute. */
async function repeat(ms: number, act: (time: number) => void): Promise<void> {
  for (let time = 0; time * ms < minute; time += 1) {
    act(time);
    await world.clock.advance(ms);
  }
}

/** Requests to the API in each of so many minutes. */
async function count(minutes: number, act = () => world.clock.advance(minute)): Promise<number[]> {
  const counts: number[] = [];
  for (let left = minutes; left > 0; left -= 1) {
    const from = world.sent.length;
    await act();
    counts.push(world.sent.length - from);
  }
  return counts;
}

/** What others undo or refuse is written ever less often, and a state that does not change is not written at all. */
describe('writes a minute, of all of the controller', () => {
  test('at rest, with 100 Services, and after a restart: none', async () => {
    await serve(100);
    expect(await count(5)).toEqual([0, 0, 0, 0, 0]);
    await world.restart();
    expect(await count(2)).toEqual([0, 0]);
  });

  test('an address that 60 nodes program one after the other: twelve, whatever the nodes report', async () => {
    const names = Array.from({ length: 60 }, (_, index) => `node-${index}`);
    for (const name of names) world.createNode(name, toReport(name, [], 1));
    await world.begin(1);
    await world.clock.advance(second);
    const pools = JSON.stringify([...world.api.list('AddressPool').values()]);
    const whileNodesReport = () =>
      repeat(second, (time) => {
        const isFirst = pools.includes(`"nodes":["node-${time}"`);
        world.hear(toReport(`node-${time}`, isFirst ? ['pool/0'] : []));
      });
    const [first = Infinity] = await count(1, whileNodesReport);
    expect(first).toBeLessThanOrEqual(12);
    expect(world.listServed()).toEqual(['apps/s0']);
  });

  test('a program that writes another status each 50 ms: twenty, then two; it is named, and keeps nobody waiting', async () => {
    await serve(1);
    const managedFields = [{ manager: 'servicelb', fieldsV1: { 'f:status': {} } }];
    world.api.patch('Service', 'apps/s0', { metadata: { managedFields } });
    const rewrite = () => {
      const ingress = [{ ip: '192.0.2.9' }];
      world.api.patch('Service', 'apps/s0', { status: { loadBalancer: { ingress } } }, true);
    };
    const [first = Infinity, ...others] = await count(4, () => repeat(50, rewrite));
    expect(first).toBeLessThanOrEqual(20);
    expect(Math.max(...others)).toBeLessThanOrEqual(2);
    expect(new Set(world.conflicts)).toEqual(new Set(['Service/apps/s0 servicelb']));
    world.createServices(5, 'other');
    await repeat(50, rewrite);
    expect(world.listServed().filter((key) => key.includes('other'))).toHaveLength(5);
  });

  test('a seat with 100 addresses that moves each second: four for each address', async () => {
    await serve(100);
    const move = (time: number) => {
      world.hear(toReport('node-1', time % 2 === 0 ? [] : ['pool/0']));
      world.hear(toReport('node-2', time % 2 === 0 ? ['pool/0'] : []));
    };
    expect(Math.max(...(await count(3, () => repeat(second, move))))).toBeLessThanOrEqual(400);
  });

  test.each([
    ['an API that has too many requests (429)', () => true],
    ['a webhook for Services that is down', (path: string) => path.includes('/services/')],
  ])('%s: each of 100 Services once, and then one a second; all are served soon after', async (_, fails) => {
    world.answer = (path) => (fails(path) ? 'unreachable' : null);
    world.createNode();
    await world.begin(100);
    const [first = Infinity, ...others] = await count(5);
    expect(first).toBeLessThanOrEqual(100 + 5 + 65);
    expect(Math.max(...others)).toBeLessThanOrEqual(60);
    world.answer = null;
    await world.clock.advance(2 * minute);
    expect(world.listServed()).toHaveLength(100);
  });

  test('that fail for 200 Services keep none of the same namespace waiting for longer than each once', async () => {
    world.answer = (path) => (path.includes('/services/bad') ? 'unreachable' : null);
    world.createNode();
    world.createServices(200, 'bad');
    await world.begin(1);
    await world.clock.advance(11 * second);
    expect(world.listServed()).toEqual(['apps/s0']);
    world.createServices(2);
    await world.clock.advance(second);
    expect(world.listServed()).toEqual(['apps/s0', 'apps/s1']);
  });

  test('300 Services at once: four each', async () => {
    world.createNode();
    await world.begin(300);
    const [first = Infinity, next] = await count(2);
    expect([first <= 4 * 300 + 2, next]).toEqual([true, 0]);
    expect(world.listServed()).toHaveLength(300);
  });
});
