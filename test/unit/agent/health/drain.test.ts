import { expect, test } from '@jest/globals';
import { local, Monitored, second, third } from './monitored.ts';

test('one that says it is not ready gets no new connections from that answer on', async () => {
  const world = await Monitored.start();
  world.apiservers.set(second, 'failing');
  // It is asked each second, and the others at once after that.
  expect(await world.waitFor(second, 'draining')).toBeLessThanOrEqual(1010);
  expect(world.changes).toMatchObject([
    { endpoint: second, urgency: 'urgent', reason: '/readyz answers 500: [-]shutdown failed' },
  ]);
  expect(world.monitor.view.get(second)).toMatchObject({ staleConnections: 'none' });
});

test('one that drains is told without a doubt that lasts a moment', async () => {
  const world = await Monitored.start();
  world.apiservers.set(second, 'failing');
  await world.waitFor(second, 'draining');
  expect(world.suspicions).toEqual([]);
});

test('one whose etcd alone is gone gets no new connections a few seconds later', async () => {
  const world = await Monitored.start();
  world.apiservers.set(second, 'ailing');
  const ms = await world.waitFor(second, 'draining');
  expect(ms).toBeGreaterThan(3000);
  expect(ms).toBeLessThanOrEqual(5010);
  expect(world.suspicions).toEqual([]);
});

test('when etcd goes, and apiservers fail one after the other, nothing changes', async () => {
  const world = await Monitored.start();
  for (const endpoint of [third, second, local]) {
    world.apiservers.set(endpoint, 'ailing');
    await world.clock.advance(1000);
  }
  await world.clock.advance(120_000);
  for (const endpoint of [local, third, second]) {
    world.apiservers.set(endpoint, 'healthy');
    await world.clock.advance(1000);
  }
  await world.clock.advance(60_000);
  expect(world.changes).toEqual([]);
});

test('one that goes on failing when a brown-out is over is draining a few seconds later', async () => {
  const world = await Monitored.start();
  for (const endpoint of [local, second, third]) world.apiservers.set(endpoint, 'failing');
  await world.clock.advance(20_000);
  for (const endpoint of [local, third]) world.apiservers.set(endpoint, 'healthy');
  expect(await world.waitFor(second, 'draining')).toBeLessThanOrEqual(5000);
});

test('one whose etcd does not come back with the others gets none some seconds later', async () => {
  const world = await Monitored.start();
  for (const endpoint of [local, second, third]) world.apiservers.set(endpoint, 'ailing');
  await world.clock.advance(20_000);
  for (const endpoint of [local, third]) world.apiservers.set(endpoint, 'healthy');
  const ms = await world.waitFor(second, 'draining');
  expect(ms).toBeGreaterThan(10_000);
  expect(ms).toBeLessThanOrEqual(20_000);
});

test('one that is ready again is used after three good answers', async () => {
  const world = await Monitored.start();
  world.apiservers.set(second, 'failing');
  await world.waitFor(second, 'draining');
  world.apiservers.set(second, 'healthy');
  const ms = await world.waitFor(second, 'ready');
  expect(ms).toBeGreaterThan(2000);
  expect(ms).toBeLessThanOrEqual(4000);
});

test('a frozen one, which accepts and never answers, is out within 10 s', async () => {
  const world = await Monitored.start();
  world.apiservers.set(third, 'frozen');
  expect(await world.waitFor(third, 'draining')).toBeLessThanOrEqual(10_000);
});

test('a slow one, which answers after 2 s, is never out', async () => {
  const world = await Monitored.start();
  world.apiservers.set(third, 'slow');
  await world.clock.advance(600_000);
  expect(world.changes).toEqual([]);
});

test.each(['ailing', 'slow', 'frozen'] as const)(
  'a brown-out, in which all are %s, changes nothing',
  async (behaviour) => {
    const world = await Monitored.start();
    for (const endpoint of [second, third, local]) {
      world.apiservers.set(endpoint, behaviour);
      await world.clock.advance(1);
    }
    await world.clock.advance(120_000);
    expect(world.changes).toEqual([]);
    expect(world.suspicions.length).toBe(behaviour === 'slow' ? 0 : 3);
    // They recover one after the other, and who is first does not make the others look bad.
    for (const endpoint of [third, local, second]) {
      world.apiservers.set(endpoint, 'healthy');
      await world.clock.advance(300);
    }
    await world.clock.advance(10_000);
    expect(world.changes).toEqual([]);
    expect(world.monitor.all.map(({ unconfirmedFailure }) => unconfirmedFailure)).toEqual([null, null, null]);
  },
);

test('a rolling restart with a delay drains, kills and warms one after the other, and never has fewer than two in use', async () => {
  const world = await Monitored.start();
  let fewest = 3;
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 10) {
      await world.clock.advance(10);
      fewest = Math.min(fewest, world.states.filter((state) => state === 'ready').length);
    }
  };
  for (const endpoint of [local, second, third]) {
    world.apiservers.set(endpoint, 'failing');
    await pass(20_000);
    expect(world.find(endpoint).state).toBe('draining');
    world.apiservers.set(endpoint, 'refusing');
    await pass(5000);
    expect(world.find(endpoint).state).toBe('dead');
    world.apiservers.set(endpoint, 'healthy');
    await pass(5000);
    expect(world.find(endpoint).state).toBe('ready');
  }
  expect(fewest).toBe(2);
});

test('a brown-out is one line on the way down and one on the way up', async () => {
  const world = await Monitored.start();
  for (const endpoint of [local, second, third]) world.apiservers.set(endpoint, 'ailing');
  await world.clock.advance(120_000);
  for (const endpoint of [local, second, third]) world.apiservers.set(endpoint, 'healthy');
  await world.clock.advance(60_000);
  const told = world.logger.lines.filter(({ level }) => level !== 'debug');
  expect(told.map(({ message }) => message)).toEqual([
    expect.stringMatching(/no other apiserver is ready\. The apiserver stays in use$/),
    expect.stringMatching(/is no longer suspected: it answers again$/),
  ]);
});

test('one that leaves while it looks bad is told, and so is the next time that one does', async () => {
  const told: string[][] = [];
  const world = await Monitored.start();
  for (let episode = 0; episode < 2; episode += 1) {
    const from = world.logger.lines.length;
    for (const endpoint of [local, second, third]) world.apiservers.set(endpoint, 'ailing');
    await world.clock.advance(20_000);
    world.watch([local, third]);
    for (const endpoint of [local, third]) world.apiservers.set(endpoint, 'healthy');
    await world.clock.advance(20_000);
    world.apiservers.set(second, 'healthy');
    world.watch([local, second, third]);
    await world.clock.advance(20_000);
    const lines = world.logger.lines.slice(from).filter(({ level }) => level !== 'debug');
    told.push(lines.map(({ message }) => message));
  }
  const lines = [
    expect.stringMatching(/no other apiserver is ready\. The apiserver stays in use$/),
    expect.stringMatching(/is no longer suspected: it answers again$/),
    expect.stringMatching(/^10\.0\.0\.12:6443 is ready \(3 good answers\)$/),
  ];
  expect(told).toEqual([lines, lines]);
});

test('when the only one that looks bad leaves, that is the end of it', async () => {
  const world = await Monitored.start([local, second]);
  world.apiservers.set(second, 'ailing');
  world.apiservers.set(local, 'ailing');
  await world.clock.advance(20_000);
  world.watch([local]);
  world.watch([third]);
  expect(world.logger.lines.at(-1)).toMatchObject({
    level: 'info',
    message: `${local} is no longer listed. No other apiserver is suspected`,
  });
});

test('one that died, left and came back is not told to have been down for all that time', async () => {
  const world = await Monitored.start();
  world.apiservers.set(second, 'refusing');
  await world.waitFor(second, 'dead');
  world.watch([local, third]);
  await world.clock.advance(3_600_000);
  world.apiservers.set(second, 'healthy');
  world.watch([local, second, third]);
  await world.waitFor(second, 'ready');
  expect(world.logger.lines.at(-1)?.message).toBe(`${second} is ready (3 good answers)`);
});

test('apiservers that answer nobody without credentials stay in use, and that is told once', async () => {
  const world = await Monitored.start();
  const countWarnings = () => world.logger.lines.filter(({ level }) => level === 'warn').length;
  // As after each start, until it has read its roles.
  world.apiservers.set(local, 'secretive');
  await world.clock.advance(5000);
  world.apiservers.set(local, 'healthy');
  await world.clock.advance(30_000);
  expect(countWarnings()).toBe(0);
  for (const endpoint of [local, second, third]) world.apiservers.set(endpoint, 'secretive');
  await world.clock.advance(60_000);
  expect(world.changes).toEqual([]);
  const told = world.logger.lines.filter(({ level }) => level === 'warn');
  expect(told.map(({ message }) => message)).toEqual([
    expect.stringMatching(/ \(--kubeconfig names credentials\)$/),
  ]);
  expect(world.monitor.view.get(third)?.livenessOnly).toBe('/readyz answers 401');
});
