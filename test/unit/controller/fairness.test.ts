import { jest, afterEach, test, expect } from '@jest/globals';
import { EngineWorld } from '../../support/fakes/engine-world.ts';
import { advanceUntil } from '../advance-until.ts';

jest.setTimeout(120_000);

const world = new EngineWorld();
afterEach(async () => {
  const stopped = world.engine.stop();
  await world.clock.advance(10_000);
  await stopped;
});

test('S8: writes are shared out by namespaces: a Service does not wait for the hundreds of another tenant', async () => {
  world.createNode();
  world.api.create('AddressPool', 'pool', { spec: { addresses: ['10.0.0.0/18'], seats: 1 } });
  world.createServices(400);
  const [first = ''] = [...world.api.list('Service')].map(([, { spec }]) => JSON.stringify(spec));
  world.api.create('Service', 'shop/web', { spec: JSON.parse(first) as object });
  await world.clock.advance(10);
  world.engine.begin();
  await advanceUntil(world.clock, 'shop/web is served', () => world.listServed().includes('shop/web'), 50);
  // Five writes of its own, and as many of the other namespace and of the pool beside each of them.
  expect(world.sent.length).toBeLessThan(80);
  expect(world.listServed().length).toBeLessThan(20);
});
