/** What goes wrong with an Alteon or its pair, one fault at a time. */
import { afterEach, describe, expect, test } from '@jest/globals';
import {
  done,
  failed,
  one,
  oneServed,
  signal,
  startWorld,
  stopWorlds,
  toBalancer,
} from '../support/devices/alteon-world.ts';

afterEach(stopWorlds);

describe('a fault', () => {
  test.each([
    ['one answer 401', { unauthorized: 1 }, done],
    ['two answers 401 of each unit', { unauthorized: 4 }, failed('credentials')],
    ['four answers 406', { notAcceptable: 4 }, done],
    ['nothing but 406', { notAcceptable: 1000 }, failed('406')],
    ['200 with an error', { refusedWrites: 1 }, failed('the unit is busy')],
    ['an answer without its body', { bodiless: 1 }, done],
    ['an answer that gets lost', { lostAnswers: 1 }, failed('broke')],
    ['a configuration not applied', { applyProblem: 'no room' }, failed('does not apply it: no room')],
    [
      'a configuration not saved',
      { saveProblem: 'flash is full' },
      failed('does not save it: flash is full'),
    ],
    ['a standby that takes nothing', { syncProblem: 'passphrases differ' }, done],
  ])('(%s) ends as it should, and the next call without it is done', async (_what, faults, expected) => {
    const world = await startWorld();
    Object.assign(world.device.faults, faults);
    expect(await world.ensure(one)).toMatchObject(expected);
    const none = { unauthorized: 0, notAcceptable: 0, applyProblem: null, saveProblem: null };
    Object.assign(world.device.faults, none);
    expect(await world.ensure(one)).toEqual(done);
    expect(world.device.readServed()).toEqual(oneServed);
    expect(world.device.activeUnit.readProperties()).toMatchObject({ agApplyPending: 3, agSavePending: 2 });
  });

  test('(a table that is empty although it is not) doubles nothing and loses nothing', async () => {
    const world = await startWorld();
    await world.ensure(one);
    for (let skipped = 0; skipped < 9; skipped += 1) {
      let tables = 0;
      world.device.onCall = ({ path }) => {
        if (path.includes('count=') && (tables += 1) === skipped) world.device.faults.emptyTables = 1;
      };
      await world.ensure(one);
      world.device.onCall = () => undefined;
      world.device.faults.emptyTables = 0;
      expect(await world.ensure(one)).toEqual(done);
      expect(world.device.readServed()).toEqual(oneServed);
    }
  });

  test('(a configuration that is not applied) leaves nothing behind that waits', async () => {
    const world = await startWorld();
    await world.ensure(one);
    world.device.faults.applyProblem = 'no';
    await world.ensure(toBalancer(['10.1.0.9:8080'], { method: 'hash' }));
    expect(world.device.activeUnit.readText('getdiff')).toBe('');
    expect(world.device.readServed()).toEqual(oneServed);
  });

  test('(a unit that applies for minutes) is running, and done when it has', async () => {
    const world = await startWorld();
    world.device.pace.applyRequests = 500;
    const running = { result: 'running', why: expect.stringContaining('still applies') };
    expect(await world.ensure(one)).toMatchObject(running);
    expect(await world.ensure(one)).toMatchObject({ result: 'running' });
    world.device.settle();
    for (let turn = 0; turn < 60; turn += 1) world.device.settle();
    expect(await world.ensure(one)).toEqual(done);
    expect(world.device.readServed()).toEqual(oneServed);
    expect(world.device.activeUnit.readProperties()).toMatchObject({ agSavePending: 2 });
  });

  test('(a call without an answer) ends at its limit', async () => {
    const world = await startWorld();
    world.device.onHeld = () => {
      world.clock.expire();
    };
    world.device.held = 1000;
    expect(await world.ensure(one)).toMatchObject(failed('within 20 s'));
    world.device.held = 0;
    expect(await world.ensure(one)).toEqual(done);
  });

  test('(a unit that forgets what was not saved) is mended by the next call', async () => {
    const world = await startWorld();
    world.device.faults.saveProblem = 'no';
    await world.ensure(one);
    world.device.faults.saveProblem = null;
    world.device.activeUnit.restart();
    expect(world.device.readServed()).toEqual([]);
    expect(await world.ensure(one)).toEqual(done);
    expect(world.device.readServed()).toEqual(oneServed);
  });

  test('(a certificate of somebody else) sends no credentials', async () => {
    const [world, other] = [await startWorld(), await startWorld()];
    world.driver = world.makeDriver({ ca: null });
    expect(await world.ensure(one)).toMatchObject(failed('certificate'));
    expect(world.device.calls).toEqual([]);
    expect(other.device.calls).toEqual([]);
  });
});

describe('of a pair', () => {
  test('with a silent standby everything goes on, the state says so, and it gets all when it is back', async () => {
    const world = await startWorld();
    world.device.unresponsive.add(1);
    expect(await world.ensure(one)).toEqual(done);
    const [, url] = world.device.urls;
    const silent = { unit: url, role: 'unresponsive', why: expect.stringContaining('connection') };
    expect((await world.driver.readState(signal)).units[1]).toMatchObject(silent);
    world.device.settle();
    world.device.unresponsive.clear();
    const behind = { role: 'standby', isInSync: false };
    expect((await world.driver.readState(signal)).units[1]).toMatchObject(behind);
    expect(await world.ensure(one)).toEqual(done);
    world.device.settle();
    expect((await world.driver.readState(signal)).units).toMatchObject([
      { role: 'active', isInSync: true },
      { role: 'standby', isInSync: true },
    ]);
    world.device.switchRoles();
    expect(world.device.readServed()).toEqual(oneServed);
  });

  test.each([
    ['both are active', [0, 1]],
    ['none is active', []],
  ])('of which %s, nothing is written, and the state shows them', async (_what, active) => {
    const world = await startWorld();
    world.device.active = new Set(active);
    expect(await world.countWrites(() => world.ensure(one))).toEqual([]);
    await expect(world.driver.list(signal)).rejects.toMatchObject({ kind: 'no-active-unit' });
    expect((await world.driver.readState(signal)).units).toHaveLength(2);
  });

  test('whose standby is behind, it is known why', async () => {
    const world = await startWorld();
    const why = (world.device.faults.syncProblem = 'passphrases differ');
    await world.ensure(one);
    world.device.settle();
    expect((await world.driver.readState(signal)).units[1]).toMatchObject({ isInSync: false, why });
  });
});

test('whoever ends the signal ends the call, and others wait for it in turn', async () => {
  const world = await startWorld();
  const abort = new AbortController();
  world.device.onCall = (_call, count) => {
    if (count === 5) abort.abort(new Error('enough'));
  };
  const first = world.driver.ensure(one, abort.signal);
  const second = world.ensure(one);
  await expect(first).rejects.toThrow('enough');
  expect(await second).toEqual(done);
  expect(world.device.readServed()).toEqual(oneServed);
});

test('nothing has the credentials in it but the header of each question', async () => {
  const world = await startWorld();
  const called: string[] = [];
  world.beforeCall = (call) => called.push(call);
  world.driver = world.makeDriver({ credentials: { username: 'vipnat', password: 'wrong secret' } });
  const progress = await world.ensure(one);
  expect(progress).toMatchObject({ result: 'failed' });
  const said = JSON.stringify([progress, called, await world.driver.readState(signal)]);
  expect(said).not.toMatch(/secret|wrong/);
});
