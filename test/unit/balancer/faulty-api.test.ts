/** A balancer beside an API that is slow, behind, frozen, gone, or large. */
import { jest, test, expect } from '@jest/globals';
import { useBalancerWorld } from '../../support/api/balancer-world.ts';

jest.setTimeout(180_000);

const world = useBalancerWorld();

const start = async () => {
  world().startBalancer();
  await world().untilPrinted(/10\.77\.0\.60/);
};

/** Past the proof of each watch. */
const settle = () => world().pass(3);

test('a watch that repeats what is known, or is behind it, changes nothing', async () => {
  await start();
  await settle();
  const { store } = world().api;
  const former = store.events.filter(({ kind }) => kind === 'EndpointSlice').at(-1)?.object;
  world().list('other', '10.244.3.3');
  await world().untilPrinted(/10\.244\.3\.3/);
  const [scripts, table] = [world().kernel.scripts.length, await world().print()];
  for (const type of ['ADDED', 'MODIFIED', 'DELETED'])
    world().api.sendTo('EndpointSlice', `${JSON.stringify({ type, object: former })}\n`);
  await world().pass(5);
  expect(former?.metadata.name).toContain('other');
  expect(await world().print()).toBe(table);
  expect(world().listScripts(scripts, '10.244')).toEqual([]);
  world().list('other', '10.244.4.4');
  await world().untilPrinted(/10\.244\.4\.4/);
});

test('an API that is back after ten minutes with other objects is followed, and what went meanwhile goes', async () => {
  await start();
  const [table, scripts] = [await world().print(), world().kernel.scripts.length];
  await world().api.stop();
  await world().pass(600, 2000);
  expect([await world().print(), world().view?.mode]).toEqual([table, 'direct']);
  // It has the table count, each ten seconds.
  expect(world().kernel.scripts.length - scripts).toBeGreaterThanOrEqual(59);
  expect(world().readLog(undefined, 'keeps its tables')).toHaveLength(1);
  world().api.store.remove('VirtualIP', '10.77.0.60');
  world().addService('new', '10.77.0.62');
  world().list('other', '10.244.3.3');
  await world().bringApi();
  await world().untilPrinted(/10\.77\.0\.62/);
  await world().untilPrinted(/10\.244\.3\.3/);
  expect(await world().print()).not.toContain('10.77.0.60');
});

test.each([-86_400_000, 86_400_000])('a date that jumps by %d ms changes dates alone', async (jumpMs) => {
  await start();
  await settle();
  const [table, writes] = [await world().print(), world().api.leases.writes];
  world().clock.jump(jumpMs);
  await world().pass(60);
  expect(await world().print()).toBe(table);
  expect(world().view?.mode).toBe('direct');
  expect(world().api.leases.writes - writes).toBeGreaterThanOrEqual(5);
  expect(world().api.leases.writes - writes).toBeLessThanOrEqual(7);
  expect(world().readLog('warn')).toEqual([]);
  world().addService('new', '10.77.0.62');
  await world().untilPrinted(/10\.77\.0\.62/);
});

test('10,000 Services at once, and one that flaps 50 times a second: a change costs what it changes, and others go on', async () => {
  const count = 10_000;
  for (let at = 0; at < count; at += 1)
    world().addService(`s${at}`, `10.${80 + Math.floor(at / 250)}.1.${1 + (at % 250)}`);
  world().startBalancer();
  await world().untilPrinted(/10\.119\.1\.250/);
  const [scripts, lists] = [world().kernel.scripts.length, world().lists];
  expect(scripts).toBeLessThanOrEqual(10);
  for (let round = 0; round < 25; round += 1) {
    world().list('web', ...(round % 2 === 0 ? ['10.244.1.2'] : ['10.244.1.2', '10.244.2.2']));
    if (round === 10) world().list('s9999', '10.244.3.3');
    await world().pass(0.02, 20);
  }
  await world().untilPrinted(/10\.244\.3\.3/);
  const written = world().kernel.scripts.slice(scripts);
  expect(written.length).toBeLessThanOrEqual(60);
  expect(Math.max(...written.map(({ length }) => length))).toBeLessThan(2000);
  expect(world().lists).toBe(lists);
});
