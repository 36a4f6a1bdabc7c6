/** The driver for HAProxy against real units of it: what clients get, and what a restart leaves. */
import { jest, afterEach, describe, test, expect } from '@jest/globals';
import { stopHaproxyWorlds, HaproxyWorld, makeCertificate } from '../support/devices/haproxy-world.ts';
import type { Balancer } from '../../devices/driver.ts';
import { done, signal, shopId } from '../support/devices/alteon-world.ts';
import { promisify } from 'node:util';
import { execFile } from 'node:child_process';
import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { readSettings } from '../../devices/haproxy/settings.ts';
import { once } from 'node:events';
import { Namespaces } from '../support/network/namespaces.ts';
import { HaproxyUnit } from '../support/devices/haproxy-unit.ts';
import { waitUntil } from '../support/jest/waiting.ts';

jest.setTimeout(120_000);

afterEach(stopHaproxyWorlds);

function count(answers: readonly string[]): Record<string, number> {
  return Object.fromEntries(
    [...new Set(answers)].map((member) => [member, answers.filter((answer) => answer === member).length]),
  );
}

async function start(units: 1 | 2 = 1) {
  const world = await HaproxyWorld.start(units);
  const [one = '', two = '', three = ''] = await world.startMembers(3);
  const [unit, other] = world.units;
  if (unit === undefined) throw new TypeError('there is no unit');
  // Nothing was there, and nothing was to be.
  expect(await world.makeDriver().confirm?.([], signal)).toEqual(done);
  const ensure = (members: readonly string[], changes: Partial<Balancer> = {}) =>
    world.makeDriver().ensure(world.toBalancer(members, changes), signal);
  return { world, unit, other, one, two, three, ensure };
}

/** Another cluster's driver, and its Service at an address of its own. */
function toOther(world: HaproxyWorld, member: string) {
  const [id, addresses] = [{ ...shopId, cluster: 'other' }, world.sites.ipv4.slice(1, 2)];
  return {
    other: world.makeDriver({ cluster: 'other' }),
    theirs: world.toBalancer([member], { id, addresses }),
  };
}

describe('clients', () => {
  test('get members by their weights, none that drains, and nothing where there is none', async () => {
    const { world, one, two, three, ensure } = await start();
    expect(await world.connectTimes(1)).toEqual(['none']);
    expect(await ensure([`${one}=3`, two, `${three}=0`])).toEqual(done);
    expect(count(await world.connectTimes(40))).toEqual({ [one]: 30, [two]: 10 });
    expect(await ensure([])).toEqual(done);
    expect(await world.connectTimes(1)).toEqual(['none']);
    expect(await ensure([two])).toEqual(done);
    expect(await world.makeDriver().remove(shopId, signal)).toEqual(done);
    expect(await world.connectTimes(1)).toEqual(['none']);
  });

  test('get the member with the fewest connections, and the same one by their address', async () => {
    const { world, one, two, ensure } = await start();
    expect(await ensure([one, two], { method: 'lc' })).toEqual(done);
    const session = await world.openSession(world.toBalancer([one, two], { method: 'lc' }));
    const { address, port } = session.member;
    const others = await world.connectTimes(5);
    expect(others).toContain(`${address.text}:${port}` === one ? two : one);
    expect(await ensure([one, two], { method: 'hash' })).toEqual(done);
    expect(await session.isOpen()).toBe(true);
    expect(new Set(await world.connectTimes(10)).size).toBe(1);
  });

  test('stay with their member for their affinity, but not with one that drains', async () => {
    const { world, one, two, ensure } = await start();
    expect(await ensure([one, two], { affinityS: 600 })).toEqual(done);
    const [mine = '', ...more] = await world.connectTimes(6);
    expect(new Set(more)).toEqual(new Set([mine]));
    const other = mine === one ? two : one;
    expect(await ensure([`${mine}=0`, other], { affinityS: 600 })).toEqual(done);
    expect(await world.connectTimes(2)).toEqual([other, other]);
    expect(await ensure([mine, other])).toEqual(done);
    expect(count(await world.connectTimes(4))).toEqual({ [mine]: 2, [other]: 2 });
  });

  test('are known to members by the option proxyProtocol, and checks are, too', async () => {
    const world = await HaproxyWorld.start(1, { proxyProtocol: 'v2' });
    const [member = ''] = await world.startMembers(1);
    expect(await world.makeDriver().ensure(world.toBalancer([member]), signal)).toEqual(done);
    const client = member.replace(/\d+:\d+$/, '77');
    expect(await world.connectTimes(1, client)).toEqual([client]);
    await waitUntil(() => world.clients.has('check'), 'no check has come');
    expect([...world.clients].toSorted()).toEqual([client, 'check']);
  });

  test('get another member where one is dead before anybody has said so', async () => {
    const { world, one, two, ensure } = await start();
    await ensure([one, two]);
    await world.endMember(one);
    expect(await world.connectTimes(4)).toEqual([two, two, two, two]);
  });
});

describe('a change', () => {
  test('of two clusters at one moment gives each a slot of its own', async () => {
    const { world, one, two, ensure } = await start();
    const { other, theirs } = toOther(world, two);
    world.beforeCall = async (call) => {
      if (!call.startsWith('write')) return;
      world.beforeCall = () => undefined;
      expect(await other.ensure(theirs, signal)).toEqual(done);
    };
    expect(await ensure([one])).toEqual(done);
    expect(await other.plan(theirs, signal)).toEqual([]);
    expect(await world.connectTimes(2)).toEqual([one, one]);
  });

  test('repairs what somebody changed by hand', async () => {
    const { world, unit, one, two, ensure } = await start();
    await ensure([one, two]);
    const before = await unit.listObjects();
    await unit.ask(
      'set server vipnat_rr_1/s1 state maint',
      'add map vipnat-frontends.map 127.0.0.1:8080 vipnat_rr_1',
    );
    await unit.ask(`add map vipnat-owners.map vipnat_rr_1 vipnat_prod_shop_web_1f2e_8080_0`);
    expect((await world.makeDriver().plan(world.toBalancer([one, two]), signal)).length).toBe(3);
    expect(await ensure([one, two])).toEqual(done);
    expect(await unit.listObjects()).toEqual(before);
  });
});

describe('a unit', () => {
  test('that reloads or restarts goes on with what it had, and forgets what it saved then', async () => {
    const { world, unit, one, two, ensure } = await start();
    await ensure([one, `${two}=0`], { affinityS: 60 });
    const before = await unit.listObjects();
    await unit.reload();
    expect(await unit.listObjects()).toEqual(before);
    await unit.stop();
    await unit.start();
    expect(await unit.listObjects()).toEqual(before);
    expect(await world.connectTimes(2)).toEqual([one, one]);
    // Nobody serves what was there before the last change.
    const restarts = [
      async () => {
        await unit.crash();
        // systemd saves after an end that looks like one in order: there is nobody to be asked.
        await expect(unit.script('save')).rejects.toThrow();
        await unit.start();
      },
      () => unit.restartHost(),
    ];
    for (const restart of restarts) {
      expect(await ensure([two])).toEqual(done);
      expect(await world.connectTimes(2)).toEqual([two, two]);
      await restart();
      expect(await unit.listObjects()).toEqual([]);
      expect(await world.connectTimes(1)).toEqual(['none']);
      expect((await world.makeDriver().readState(signal)).units).toMatchObject([{ isInSync: null }]);
    }
    expect(await ensure([two])).toEqual(done);
  });

  test('that cannot save goes on as it was, and takes changes', async () => {
    const { unit, one, two, ensure } = await start();
    await ensure([one]);
    await unit.blockSaving();
    await expect(unit.reload()).rejects.toThrow();
    expect(await ensure([two])).toEqual(done);
  });

  test('that saves what it has takes nothing meanwhile, and a change that it gets then is not done', async () => {
    const { world, unit, one, two, ensure } = await start();
    await ensure([one]);
    world.beforeCall = async (call) => {
      if (call.startsWith('write')) await unit.script('save');
    };
    expect(await ensure([two])).toMatchObject({ result: 'running' });
    world.beforeCall = () => undefined;
    const before = await unit.listObjects();
    expect(await ensure([one, two])).toMatchObject({ result: 'running' });
    expect(await unit.listObjects()).toEqual(before);
    await unit.stop();
    await unit.start();
    expect(await ensure([one, two])).toEqual(done);
  });

  test('takes no commands without the password, and none from whom it cannot trust', async () => {
    const { world, ensure, one } = await start();
    await ensure([one]);
    const list = (changes: Parameters<HaproxyWorld['makeDriver']>[0]) =>
      world.makeDriver(changes).list(signal);
    const credentials = { username: 'vipnat', password: 'another' };
    await expect(list({ credentials })).rejects.toMatchObject({ kind: 'unauthorized' });
    const message: unknown = expect.stringContaining('ca.crt');
    await expect(list({ ca: null })).rejects.toMatchObject({ kind: 'unreachable', message });
    expect(await list({})).toHaveLength(1);
  });

  test('takes changes beside connections that say nothing, and ends these soon', async () => {
    const { world, ensure, one } = await start();
    const [host = '', port] = (world.settings.units[0] ?? '').split(':');
    // This one has said the password, and may be silent for longer.
    const known = connectTls({ host, port: Number(port), rejectUnauthorized: false });
    known.write(`${readSettings(world.settings).login}\n`);
    await once(known, 'data');
    const ends = Array.from({ length: 100 }, () => once(connect(Number(port), host).resume(), 'close'));
    expect(await ensure([one])).toEqual(done);
    await Promise.all(ends);
    expect(known.closed).toBe(false);
    known.destroy();
  });

  test('takes commands only from where the option management says', async () => {
    const world = await HaproxyWorld.start(1, { management: '192.0.2.0/24,2001:db8::/32' });
    await expect(world.makeDriver().list(signal)).rejects.toThrow('option management');
  });

  test('gets no password before it is trusted, whatever Node is told', async () => {
    const { world } = await start();
    const [host, port] = (world.settings.units[0] ?? '').split(':');
    const script = `
      import { exchangeText } from './lib/http/client.ts';
      const clock = { now: () => 0, schedule: () => () => undefined };
      const [text, signal] = ['prompt x', new AbortController().signal];
      const exchange = { host: '${host}', port: ${port}, ca: null, text, limitMs: 1, maxBytes: 1, clock, signal };
      await exchangeText(exchange).then(() => console.log('sent'), ({ code }) => console.log(code));`;
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], {
      env: { ...process.env, NODE_TLS_REJECT_UNAUTHORIZED: '0' },
    });
    expect(stdout).toBe('DEPTH_ZERO_SELF_SIGNED_CERT\n');
  });
});

describe('a pair', () => {
  test('a unit gives the addresses away when HAProxy ends, even if nobody takes them, and has them again when it runs', async () => {
    const namespaces = new Namespaces();
    const units: HaproxyUnit[] = [];
    try {
      const host = await namespaces.create('unit');
      const cable = 'ip link add eth0 type veth peer name other\nip link set other up\nip link set eth0 up';
      await namespaces.shell(host, `${cable}\nip addr add 10.0.0.11/24 dev eth0`);
      const { ca, tls } = await makeCertificate(['10.0.0.11']);
      const credentials = { username: 'vipnat', password: 'a word' };
      const pair = { name: 'edge', cluster: 'prod', units: ['10.0.0.11:9443', '10.0.0.12:9443'] };
      const unit = await HaproxyUnit.make({
        settings: { ...pair, credentials, ca, options: {} },
        ...{ addresses: ['10.0.0.200'], at: 0, tls, enter: ['ip', 'netns', 'exec', host] },
      });
      units.push(unit);
      const waitForAddress = (isWanted: boolean) =>
        waitUntil(
          async () => (await namespaces.shell(host, 'ip addr')).includes('10.0.0.200/32') === isWanted,
          () => `the unit ${isWanted ? 'does not get' : 'keeps'} the address`,
        );
      await unit.start();
      const words = ['--dont-fork', '--log-console', '--use-file', unit.keepalived];
      namespaces.start(host, ['keepalived', ...words]);
      await waitForAddress(true);
      await unit.crash();
      await waitForAddress(false);
      await unit.start();
      await waitForAddress(true);
    } finally {
      for (const unit of units) await unit.remove();
      await namespaces.close();
    }
  });

  test('an active unit that began empty is filled from the other one, and cannot serve until all clusters did so', async () => {
    const { world, unit, other: standby, one, two, ensure } = await start(2);
    const { other, theirs } = toOther(world, two);
    await ensure([one]);
    await other.ensure(theirs, signal);
    await other.confirm?.([theirs.id], signal);
    const before = await unit.listObjects();
    await unit.script('check');
    await unit.crash();
    await unit.start();
    await unit.setRole('active');
    await expect(unit.script('check')).rejects.toThrow();
    expect(await ensure([one])).toEqual(done);
    await expect(unit.script('check')).rejects.toThrow();
    expect(await other.ensure(theirs, signal)).toEqual(done);
    await unit.script('check');
    for (const each of [unit, standby]) expect(new Set(await each?.listObjects())).toEqual(new Set(before));
  });
});
