import { EngineWorld } from '../../support/fakes/engine-world.ts';
import { beforeEach, afterEach, describe, test, expect } from '@jest/globals';

let world: EngineWorld;
beforeEach(() => {
  world = new EngineWorld();
});
afterEach(async () => {
  const stopped = world.engine.stop();
  await world.clock.advance(10_000);
  await stopped;
});

describe('a pool that is deleted right after an address of it was given', () => {
  const start = async () => {
    world.unresponsive.add('VirtualIP');
    world.createNode();
    const spec = { addresses: ['10.0.0.1'], seats: 1 };
    world.api.create('AddressPool', 'pool', { spec });
    world.createServices(1);
    await world.clock.advance(10);
    world.engine.begin();
    await world.clock.advance(10_000);
    world.api.remove('AddressPool', 'pool');
    await world.clock.advance(60_000);
  };

  test.each([
    ['was lost', true],
    ['came', false],
  ])('where the answer %s stays until the address is shown and given back', async (_, losesAnswer) => {
    if (losesAnswer) world.losesAnswer = (what) => what.startsWith('POST');
    await start();
    expect([...world.api.list('VirtualIP').keys()]).toEqual(['10.0.0.1']);
    expect([...world.api.list('AddressPool').keys()]).toEqual(['pool']);
  });

  test('where it was not given after all goes', async () => {
    world.answer = (asked) => (asked.endsWith('/virtualips') ? 'refused' : null);
    await start();
    expect(world.api.list('AddressPool').size).toBe(0);
  });
});
