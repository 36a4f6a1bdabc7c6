import { testHealth } from './health/timeline.ts';
import { test, expect } from '@jest/globals';
import { Monitored, third, second } from './health/monitored.ts';

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
