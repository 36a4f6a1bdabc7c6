/** The driver for HAProxy, on units in memory that restart, hang and change their roles. */
import { describe, test, expect } from '@jest/globals';
import type { ConformanceTarget } from '../../../../devices/conformance/bench.ts';
import { documentationSites } from '../../../../devices/conformance/shapes.ts';
import { listChecks } from '../../../../devices/conformance/steady-checks.ts';
import { runConformance } from '../../../../devices/conformance/run.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { FakeHaproxy, toExchange } from '../../../support/devices/fake-haproxy.ts';
import { createHaproxyBy } from '../../../../devices/haproxy/driver.ts';
import {
  done,
  failed,
  shopId,
  signal,
  toAddress,
  toBalancer,
  toListener,
} from '../../../support/devices/alteon-world.ts';

const hosts = ['10.0.0.11', '10.0.0.12'];

/** A Service of a cluster, by its number. `prod_1a2b3c4e` is the cluster prod that knows its identity. */
function toId(number: number, who: string) {
  const [cluster = '', identity = ''] = who.split('_');
  return { ...shopId, cluster, name: `s${number}`, uid: `u${number}${identity}` };
}

function start(count: 1 | 2) {
  const clock = new FakeClock();
  const units = hosts.slice(0, count).map(() => new FakeHaproxy(16, 4));
  units[1]?.crash('standby');
  const [unit, other = unit] = units;
  if (unit === undefined || other === undefined) throw new TypeError('there is no unit');
  const hostToUnit = new Map<string, FakeHaproxy | null>(units.map((one, at) => [hosts[at] ?? '', one]));
  const calls: string[] = [];
  const pauses = { ms: 0 };
  const beforeCall = (call: string) => {
    calls.push(call);
    clock.stall(pauses.ms);
  };
  const create = createHaproxyBy(toExchange(hostToUnit, clock));
  const credentials = { username: 'vipnat', password: 'a word' };
  const settings = { name: 'edge', units: hosts.slice(0, count), credentials, ca: null, options: {} };
  const makeDriver = (who = 'prod') => {
    const [cluster = '', identity] = who.split('_');
    return create({ ...settings, cluster, identity }, { clock, beforeCall });
  };
  const driver = makeDriver();
  const ensure = (number: number, members: readonly string[] = ['10.1.0.1:80'], who = 'prod') =>
    (who === 'prod' ? driver : makeDriver(who)).ensure(
      toBalancer([], {
        id: toId(number, who),
        addresses: [toAddress(`10.9.${who.charCodeAt(who.length - 1)}.${number}`)],
        listeners: [toListener('tcp 80', members)],
      }),
      signal,
    );
  const confirm = (numbers: readonly number[], who = 'prod') => {
    const ids = numbers.map((number) => toId(number, who));
    return makeDriver(who).confirm?.(ids, signal);
  };
  const state = async (who = 'prod') =>
    (await makeDriver(who).readState(signal)).units.map(({ role, isInSync }) => `${role} ${isInSync}`);
  return { clock, unit, other, hostToUnit, calls, pauses, makeDriver, driver, ensure, confirm, state };
}

const listServices = (unit: FakeHaproxy) =>
  unit
    .list('owners')
    .map((text) => text.replace(/^\S+ vipnat_([^_]*)_.*_(s\d+)_.*$/, '$1 $2'))
    .toSorted();

test('clusters of one name each have their own, as the suite asks, and who knows no identity has all', async () => {
  const { clock, unit, other, makeDriver } = start(2);
  const ipv4 = Array.from({ length: 5 }, (_, at) => toAddress(`10.9.0.${at + 1}`));
  const target: ConformanceTarget = {
    ...{ clock, sites: { ...documentationSites, ipv4 } },
    open: (cluster, _context, identity) =>
      makeDriver(`${cluster}${identity === undefined ? '' : `_${identity}`}`),
  };
  const checks = listChecks().filter(({ name }) => name === 'same-cluster-name');
  const usual = { signal, lastSignal: signal, takesLeftovers: false, onResult: () => undefined };
  expect(await runConformance(target, { ...usual, checks })).toMatchObject({
    results: [{ outcome: 'passed' }],
  });
  expect([unit, other].map(listServices)).toEqual([[], []]);
});

describe('what a unit has', () => {
  test.each([1, 2] as const)(
    'is said to be all after all was compared, and not after one change (%j)',
    async (count) => {
      const { unit, other, ensure, confirm, state } = start(count);
      await ensure(1);
      await ensure(2);
      expect(await state()).toContain('active null');
      expect(await confirm([1, 2])).toEqual(done);
      expect(await state()).toEqual(['active true', 'standby true'].slice(0, count));
      unit.crash();
      if (other !== unit) other.crash('standby');
      expect(await ensure(1)).toEqual(done);
      expect(await state()).toEqual(['active null', 'standby null'].slice(0, count));
      expect(await confirm([1, 2])).toMatchObject(failed('has lost shop/s2'));
      expect(unit.list('role')).toContain('content empty');
      await ensure(2);
      expect(await confirm([1, 2])).toEqual(done);
      expect(await state()).toEqual(['active true', 'standby true'].slice(0, count));
      expect(unit.list('role')).toContain('content kept');
      const { writes } = unit;
      expect(await confirm([1, 2])).toEqual(done);
      expect(unit.writes).toBe(writes);
    },
  );

  test('comes from the other unit where that has all, and what nobody has confirmed deletes nothing', async () => {
    const { unit, other, ensure, confirm, state } = start(2);
    await ensure(1);
    unit.crash();
    // Nobody has said that the standby has all. It stays what it was.
    await ensure(2);
    const both = ['prod s1', 'prod s2'];
    expect([unit, other].map(listServices)).toEqual([both, both]);
    await confirm([1, 2]);
    unit.crash();
    await ensure(1);
    expect(listServices(unit)).toEqual(both);
    expect(await state()).toEqual(['active true', 'standby true']);
  });

  test.each([
    ['prod', 'other'],
    ['prod_1a2b3c4e', 'prod_99999999'],
  ])('of one cluster, %s, says nothing of another one, %s', async (own, theirs) => {
    const { unit, other, ensure, confirm, state } = start(2);
    for (const number of [1, 2, 3, 4]) await ensure(number, [], theirs);
    await ensure(1, [], own);
    await confirm([1, 2, 3, 4], theirs);
    await confirm([1], own);
    const all = listServices(unit);
    expect(all).toHaveLength(5);
    unit.crash();
    await ensure(1, [], own);
    expect(unit.list('role')).toEqual(
      expect.arrayContaining([`content_${own} kept`, `content_${theirs} lacking`]),
    );
    expect(await state(own)).toEqual(['active true', 'standby true']);
    expect(await state(theirs)).toEqual(['active null', 'standby false']);
    expect(await ensure(3, ['10.1.0.3:80'], theirs)).toEqual(done);
    expect([unit, other].map(listServices)).toEqual([all, all]);
    expect(unit.list('role')).toContain(`content_${theirs} kept`);
    // If the other cluster is gone, a unit cannot serve until no unit had all of it.
    const told = () => unit.list('role').filter((line) => line.startsWith('content'));
    unit.crash();
    await ensure(1, [], own);
    expect(told()).toEqual(['content kept', `content_${theirs} lacking`, `content_${own} kept`]);
    other.crash('standby');
    await ensure(1, [], own);
    expect(told()).toEqual(['content kept', `content_${own} kept`]);
  });

  test('is compared once where an earlier version has spoken of the name, also as that leads once more', async () => {
    const { unit, other, ensure, confirm, state } = start(2);
    const who = 'prod_1a2b3c4e';
    await ensure(1, [], who);
    for (const word of ['kept', 'lacking']) {
      for (const each of [unit, other]) each.run(`add map vipnat-role.map content_prod ${word}`);
      expect(await state(who)).toEqual(['active null', 'standby null']);
      expect(await confirm([1], who)).toEqual(done);
      expect(await state(who)).toEqual(['active true', 'standby true']);
      for (const each of [unit, other])
        expect(each.list('role').slice(2).toSorted()).toEqual(['content kept', `content_${who} kept`]);
    }
    // Who knows no identity means all clusters of the name.
    expect(await state()).toEqual(['active true', 'standby true']);
    other.run('add map vipnat-role.map content_prod_99999999 lacking');
    expect(await state()).toEqual(['active true', 'standby null']);
    expect(await state(who)).toEqual(['active true', 'standby true']);
  });

  test('is compared without members that drain', async () => {
    const { unit, ensure, confirm, state } = start(2);
    await confirm([]);
    await ensure(1, ['10.1.0.1:80', '10.1.0.2:80=0']);
    unit.run('set server vipnat_rr_1/s2 addr 192.0.2.1 port 1');
    expect(await state()).toEqual(['active true', 'standby true']);
    unit.run('set server vipnat_rr_1/s1 state maint');
    expect(await state()).toEqual(['active true', 'standby false']);
  });
});

describe('a change', () => {
  test.each([1, 2] as const)('costs two calls at each of %j units, and none twice', async (count) => {
    const { calls, ensure, confirm } = start(count);
    await confirm([]);
    calls.splice(0);
    await ensure(1);
    await ensure(1, ['10.1.0.2:80']);
    await ensure(1, ['10.1.0.2:80']);
    const [read, write] = ['read', 'write'].map((word) => Array<string>(count).fill(word));
    // Of a new listener each unit's slot is claimed first.
    const expected = [read, write, write, read, write, read].flat();
    expect(calls.map((call) => call.split(' ')[0])).toEqual(expected);
  });

  test.each([
    ['UDP', { listeners: [toListener('udp 80', [])] }],
    ['a port that no unit has', { listeners: [toListener('tcp 0', [])] }],
    ['an address that no unit has', { addresses: [toAddress('10.8.0.1')] }],
    ['an affinity of years', { affinityS: 100_000_000 }],
  ])('to %s is refused, and changes nothing', async (_what, parts) => {
    const { unit, driver } = start(1);
    const wanted = toBalancer([], { addresses: [toAddress('10.9.0.1')], ...parts });
    expect(await driver.ensure(wanted, signal)).toMatchObject({ result: 'refused' });
    await expect(driver.plan(wanted, signal)).rejects.toMatchObject({ kind: 'refused' });
    expect(unit.writes).toBe(0);
  });
});

describe('a pair', () => {
  test('whose standby was silent is changed without it, and its next change fills it', async () => {
    const { unit, other, hostToUnit, ensure, confirm, state } = start(2);
    await confirm([]);
    await ensure(1);
    expect(other.listServers()).toEqual(unit.listServers());
    hostToUnit.delete('10.0.0.12');
    expect(await ensure(1, ['10.1.0.2:80'])).toEqual(done);
    expect(await state()).toEqual(['active true', 'unresponsive null']);
    hostToUnit.set('10.0.0.12', other);
    expect(await state()).toEqual(['active true', 'standby false']);
    expect(await ensure(1, ['10.1.0.2:80'])).toEqual(done);
    expect(other.listServers()).toEqual(['10.1.0.2:80=1']);
    expect(await state()).toEqual(['active true', 'standby true']);
  });

  test('whose flag two clusters wrote at once has it once, and the first one counts', async () => {
    const { other, ensure } = start(2);
    await ensure(1);
    for (const flag of ['kept', 'lacking']) other.run(`add map vipnat-role.map content_gone ${flag}`);
    await ensure(1, ['10.1.0.2:80']);
    const flags = other.list('role').filter((line) => line.startsWith('content_gone'));
    expect(flags).toEqual(['content_gone kept']);
  });

  test('of which both units are active is followed on both, each as it is', async () => {
    const { unit, other, driver, ensure, confirm, state } = start(2);
    await ensure(1);
    await confirm([1]);
    other.run('set map vipnat-role.map role active');
    other.run('add map vipnat-owners.map vipnat_rr_9 vipnat_prod_shop_s9_u9_80_0');
    expect(await ensure(1, ['10.1.0.2:80'])).toEqual(done);
    for (const each of [unit, other]) expect(each.listServers()).toEqual(['10.1.0.2:80=1']);
    expect(listServices(other)).toEqual(['prod s1', 'prod s9']);
    expect(await state()).toEqual(['active true', 'active false']);
    expect(await driver.list(signal)).toHaveLength(1);
    for (const each of [unit, other]) each.run('set map vipnat-role.map role standby');
    expect(await ensure(1)).toMatchObject(failed('no unit is active'));
  });

  test('whose standby hangs is changed within 2 s, and without it for 10 s then', async () => {
    const { clock, unit, hostToUnit, driver, ensure } = start(2);
    await ensure(1);
    hostToUnit.set('10.0.0.12', null);
    const change = async (port: number) => {
      const before = clock.now();
      expect(await ensure(1, [`10.1.0.1:${port}`])).toEqual(done);
      expect(unit.listServers()).toEqual([`10.1.0.1:${port}=1`]);
      return clock.now() - before;
    };
    expect(await change(81)).toBe(2000);
    expect(await change(82)).toBe(0);
    const before = clock.now();
    await driver.readState(signal);
    expect(clock.now() - before).toBe(2000);
    clock.stall(9999);
    expect(await change(83)).toBe(0);
    clock.stall(1);
    expect(await change(84)).toBe(2000);
  });

  test('whose other unit becomes active while the first one hangs is changed there', async () => {
    const { other, hostToUnit, ensure } = start(2);
    await ensure(1);
    hostToUnit.set('10.0.0.11', null);
    other.run('set map vipnat-role.map role active');
    expect(await ensure(1, ['10.1.0.2:80'])).toEqual(done);
    expect(other.listServers()).toEqual(['10.1.0.2:80=1']);
  });

  test.each([
    ['a unit that refuses', 1000, 1],
    ['a unit that hangs', 0, 0],
  ])(
    '%s, with a budget that pauses for %j ms before each call, is asked by the next change %j times',
    async (_what, pauseMs, times) => {
      const { other, hostToUnit, calls, pauses, ensure } = start(2);
      await ensure(1);
      pauses.ms = pauseMs;
      if (pauseMs > 0) hostToUnit.delete('10.0.0.12');
      else hostToUnit.set('10.0.0.12', null);
      await ensure(1, ['10.1.0.2:80']);
      hostToUnit.set('10.0.0.12', other);
      calls.splice(0);
      await ensure(1, ['10.1.0.3:80']);
      expect(calls.filter((call) => call === 'read 10.0.0.12')).toHaveLength(times);
    },
  );
});
