import { testHealth, play } from './health/timeline.ts';
import { forEach } from './timeline.ts';
import { test, expect } from '@jest/globals';
import { Monitored, third } from './health/monitored.ts';

/** Two connects without an answer: a probe begun just before the fault, and two more of 250 ms. */
const silentDeath = 'm3 dead within 750';

testHealth({
  'a process that dies is dead within milliseconds: its connections close, and a connect is refused':
    'm2 refusing; m2 dead within 10; changes m2 draining at once, m2 dead; m2 stale none;' +
    "m2 says ^connection refused \\d ms after the probe's connection closed$",
  ...forEach([0, 60, 120, 180, 249], (ms) => [
    `a host that is gone is dead after two connects without an answer, ${ms} ms into a probe interval`,
    `wait ${ms}; m3 silent; ${silentDeath}; m3 stale half-open`,
  ]),
  'after five seconds without an answer its connections are lost':
    'm3 silent; wait 5000; m3 stale half-open; wait 510; m3 stale all',
  // Each ends before TCP gives up.
  ...forEach([1500, 2000, 3000], (ms) => [
    `a full queue, a stunned guest, a bond that fails over: ${ms} ms cost no open connection, and others get the new ones`,
    `m3 silent; m3 keeps its connections for ${ms}; m3 is dead; m3 healthy; m3 ready; wait 60000;`.repeat(3),
  ]),
  'time in which the agent itself did not run is no silence of an apiserver':
    'm3 silent; wait 1000; stall 60000; wait 2000; m3 is dead; m3 stale half-open; wait 2000; m3 stale all',
  'of several that go silent half lose their open connections within a minute, more of them only after half a minute':
    'from m1 m2 m3 m4 m5; m3 m4 m5 silent; wait 20000; m3 stale all; m4 stale all; m5 stale half-open;' +
    'wait 12000; m5 stale all',
  'who lost its connections and left the list, as it expires there, counts as one of that half':
    'from m2 m3 m4; m2 silent; wait 15000; m2 stale all; list m3 m4; m3 silent; wait 20000; m3 is dead;' +
    'm3 stale half-open; wait 12000; m3 stale all',
  'a lost packet is nothing': 'm3 silent; wait 251; m3 healthy; wait 5000; no change',
  'one that was dead for under a second is back at once':
    'm3 silent; m3 dead; m3 healthy; m3 ready within 501',
  'one that was dead for a second or longer is used after three good answers':
    'm3 refusing; wait 10000; m3 healthy; m3 warming; m3 ready after 1900 within 2500; wait 120000;' +
    'm3 silent; m3 dead; wait 1000; m3 healthy; m3 warming; m3 ready',
  // By 2 s the kernel has no neighbour any more.
  'an agent whose own node is cut off changes nothing, says so, and finds all well when it is back':
    'm2 m3 silent; wait 2000; m2 m3 unreachable; wait 30000; m2 is ready; m2 is unheard;' +
    'm2 doubted \\. No apiserver on another host answers: this node may be cut off$;' +
    'm2 m3 healthy; wait 100; no change; suspected m2 m3; wait 5000; m2 is heard; all are ready; nobody doubted',
  'probes that a firewall refuses while the held connections live are the firewall’s doing':
    'block m2 m3; wait 30000; no change; suspected m2 m3',
  'a host that refuses although an older connection lives is dead when another apiserver is reached':
    'block m2; m2 dead within 500',
  // They serve what is open, so the virtual IP need not leave.
  'where no new connection comes through at all, nobody is dead whose open connection answers':
    'all clogged; wait 30000; no change; suspected m1 m2 m3; m1 is heard; m2 is heard; m3 is heard',
  'one that new connections do not reach gets none, and open ones live on until its host goes too': `m3 clogged; ${silentDeath}; wait 30000; m3 is dead; m3 stale half-open; m3 silent; wait 4000; m3 stale all`,
  'a router that knows no way to a host is believed when another host is reached':
    'm3 unreachable; m3 dead within 501',
  'of two apiservers, the other one may die: there is nobody to ask': `from m1 m3; m3 silent; ${silentDeath}`,
  'when the second of three hosts goes after the first is dead, it is dead too': `m2 silent; wait 5000; m3 silent; ${silentDeath}`,
  'the apiserver on this host needs no network to be dead': 'all refusing; wait 20; all are dead',
  'who is new has to warm up': 'from m1 m2; list m1 m2 m3; m3 is warming; m3 ready after 1900 within 2500',
});

test('who is gone is not probed any more', async () => {
  const { apiservers } = await play('list m1; states ready');
  expect(apiservers.open).toBe(1);
});

test('a flapping apiserver falls four times a minute at first, then once in half a minute at most', async () => {
  const world = await Monitored.start();
  for (let flap = 0; flap < 300; flap += 1) {
    world.apiservers.set(third, 'silent');
    await world.clock.advance(800);
    world.apiservers.set(third, 'healthy');
    await world.clock.advance(1200);
  }
  const ejections = world.changes.filter(({ isUrgent }) => isUrgent);
  // Ten minutes of it.
  expect(ejections.length).toBeLessThanOrEqual(4 + 20);
  expect(ejections.length).toBeGreaterThanOrEqual(4);
  expect(world.find(third).state).not.toBe('ready');
  expect(world.changes.some(({ reason }) => reason.includes('failed 4 times within 60 s'))).toBe(true);
  await world.clock.advance(45_000);
  expect(world.find(third).state).toBe('ready');
});
