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

const listOf = (name: string) => world.sent.filter(({ what }) => what.includes(`/services/${name}`));

async function begin({ services }: { services: number }) {
  world.createNode();
  const spec = { addresses: ['10.0.0.0/18'], seats: 1, reuseAfter: '60s' };
  world.api.create('AddressPool', 'pool', { spec });
  world.createServices(services);
  await world.clock.advance(10);
  world.engine.begin();
}

describe('a Service whose status does not stay', () => {
  const rewrite = () => {
    const { status } = world.api.list('Service').get('apps/s0') ?? {};
    if (!JSON.stringify(status ?? {}).includes('192.0.2.9')) {
      const managedFields = [{ manager: 'servicelb', fieldsV1: { 'f:status': {} } }];
      world.api.patch('Service', 'apps/s0', { metadata: { managedFields } });
      const ingress = [{ ip: '192.0.2.9' }];
      world.api.patch('Service', 'apps/s0', { status: { loadBalancer: { ingress } } }, true);
    }
    return world.clock.schedule(50, rewrite);
  };

  test('as another program rewrites it, is written once a minute, says who does so, and keeps nobody waiting', async () => {
    await begin({ services: 1 });
    await world.clock.advance(10_000);
    rewrite();
    await world.clock.advance(60_000);
    const [inFirst] = [listOf('s0').length];
    world.createServices(5, 'other');
    await world.clock.advance(300_000);
    expect(world.listServed()).toHaveLength(6);
    // Two bodies, one to clear and one to publish: each eleven times in the first minute, and then once a minute.
    expect(inFirst).toBeLessThanOrEqual(4 + 2 * 11);
    expect(listOf('s0').length - inFirst).toBeLessThanOrEqual(2 * 11);
    expect(new Set(world.conflicts)).toEqual(new Set(['Service/apps/s0 servicelb']));
  });

  test('as the API drops what is written, is written once a minute', async () => {
    await begin({ services: 1 });
    world.drops = (path) => path.endsWith('/services/s0/status');
    await world.clock.advance(360_000);
    expect(listOf('s0').length).toBeLessThanOrEqual(3 + 2 * 11 + 5);
    expect(world.conflicts).toEqual(['Service/apps/s0 ']);
    world.drops = null;
    await world.clock.advance(200_000);
    const { status } = world.api.list('Service').get('apps/s0') ?? {};
    expect(JSON.stringify(status)).toContain('"reason":"Ready"');
  });
});
