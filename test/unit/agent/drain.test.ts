import { testHealth, play } from './health/timeline.ts';
import { forEach } from './timeline.ts';
import { test, expect } from '@jest/globals';
import { Monitored, local, second, third } from './health/monitored.ts';

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
