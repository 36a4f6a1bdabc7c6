/** The driver for Alteon against a simulated pair: real HTTPS, whole calls, no time. */
import { afterEach, describe, expect, test } from '@jest/globals';
import { readTable } from '../support/devices/alteon-configuration.ts';
import { type AlteonSimulatorOptions } from '../support/devices/alteon-simulator.ts';
import {
  type AlteonWorld,
  done,
  failed,
  one,
  oneServed,
  shopId,
  signal,
  startWorld,
  stopWorlds,
  toAddress,
  toBalancer,
  toListener,
} from '../support/devices/alteon-world.ts';

afterEach(stopWorlds);

describe('what is ensured', () => {
  const devices: AlteonSimulatorOptions[] = [{ roleAs: 'text' }, { roleAs: 'number' }, { units: 1 }];
  test.each(devices)('is served, saved and synchronised; again, it costs nothing (%j)', async (options) => {
    const world = await startWorld(options);
    expect((await world.driver.plan(one, signal)).length).toBeGreaterThan(0);
    expect(world.device.writes).toEqual([]);
    expect(await world.ensure(one)).toEqual(done);
    expect(world.device.readServed()).toEqual(oneServed);
    world.device.settle();
    for (const unit of world.device.units) {
      unit.restart();
      expect(world.device.readServed(unit)).toEqual(oneServed);
    }
    expect(await world.driver.plan(one, signal)).toEqual([]);
    expect(await world.countWrites(() => world.ensure(one))).toEqual([]);
    expect(await world.driver.list(signal)).toMatchObject([{ balancer: one }]);
  });

  test('has both families, both protocols, several ports, weights beyond the unit’s, and affinity to the second', async () => {
    const world = await startWorld();
    const wanted = toBalancer([], {
      addresses: [toAddress('192.0.2.1'), toAddress('2001:db8::1')],
      listeners: [
        toListener('tcp 80', ['10.1.0.1:8080=256', '[fd00::2]:8081=2']),
        toListener('udp 53', ['10.1.0.1:5353', '10.1.0.1:5354']),
        toListener('tcp 9000', []),
      ],
      method: 'lc',
      affinityS: 90,
    });
    expect(await world.ensure(wanted)).toEqual(done);
    expect(await world.driver.plan(wanted, signal)).toEqual([]);
    expect(await world.driver.list(signal)).toMatchObject([{ balancer: wanted }]);
    expect(world.device.readServed()).toContainEqual({
      listener: 'tcp [2001:db8::1]:80',
      members: ['10.1.0.1:8080=48', '[fd00::2]:8081=1'],
    });
    const rows = readTable(world.device.activeUnit.running, 'EnhVirtServicesSeventhPartTable');
    const [service] = rows.values();
    expect(service).toMatchObject({ PersistentTimeOut: 2 });
  });

  test('has names of 255 characters at most, for the longest names that there are', async () => {
    const world = await startWorld();
    const [cluster, name] = ['c'.repeat(40), 's'.repeat(63)];
    const id = { cluster, namespace: 'n'.repeat(63), name, uid: 'u'.repeat(36) };
    const longest = 'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff';
    const wanted = toBalancer([], {
      id,
      addresses: [toAddress(longest)],
      listeners: [toListener('tcp 65534', [`[${longest}]:65534`])],
    });
    world.driver = world.makeDriver({ cluster: id.cluster });
    expect(await world.ensure(wanted)).toEqual(done);
    expect(await world.driver.list(signal)).toMatchObject([{ balancer: wanted }]);
    const names = [...readTable(world.device.activeUnit.running, 'EnhRealServerTable').keys()];
    expect(names.map(({ length }) => length)).toEqual([254]);
  });

  test.each([
    ['a port', toBalancer(['10.1.0.1:8080'], { listeners: [toListener('tcp 65535', [])] })],
    ['a member’s port', toBalancer(['10.1.0.1:4'])],
    ['an affinity', toBalancer([], { affinityS: 3_000_000 })],
  ])('and that no unit can have for %s is refused before anything is asked', async (_what, wanted) => {
    const world = await startWorld();
    expect(await world.ensure(wanted)).toMatchObject({ result: 'refused' });
    await expect(world.driver.plan(wanted, signal)).rejects.toMatchObject({ kind: 'refused' });
    expect(world.device.calls).toEqual([]);
  });

  test.each([
    ['a new member', ['10.1.0.1:8080', '10.1.0.2:8080=3', '10.1.0.3:8080'], 3],
    ['a member less', ['10.1.0.1:8080'], 2],
    ['another weight', ['10.1.0.1:8080', '10.1.0.2:8080=4'], 1],
    ['a member that drains', ['10.1.0.1:8080=0', '10.1.0.2:8080=3'], 2],
  ])('costs few writes for %s', async (_what, members, count) => {
    const world = await startWorld();
    await world.ensure(one);
    const writes = await world.countWrites(() => world.ensure(toBalancer(members)));
    expect(writes.filter((write) => !write.includes('action='))).toHaveLength(count);
    expect(writes.filter((write) => write.includes('action='))).toEqual(
      ['apply', 'save', 'sync'].map((action) => `POST /config?action=${action}`),
    );
    expect(await world.driver.list(signal)).toMatchObject([{ balancer: toBalancer(members) }]);
  });

  test('is read to its end where a unit answers with few rows at a time', async () => {
    const world = await startWorld();
    world.driver = world.makeDriver({ options: { listSize: '2' } });
    const wanted = toBalancer(['10.1.0.1:80', '10.1.0.2:80', '10.1.0.3:80', '10.1.0.4:80', '10.1.0.5:80']);
    await world.ensure(wanted);
    expect(await world.countWrites(() => world.ensure(wanted))).toEqual([]);
  });
});

describe('a member with weight 0', () => {
  const drained = toBalancer(['10.1.0.1:8080=0', '10.1.0.2:8080=3']);
  const isDrained = (world: AlteonWorld) => world.device.readServed()[0]?.members[0] === '10.1.0.1:8080=0';

  test('drains before anything is applied, and still does after a restart of the unit', async () => {
    const world = await startWorld();
    await world.ensure(one);
    let wasDrainedBefore: boolean | null = null;
    world.device.onCall = ({ path }) => {
      if (path === '/config?action=apply') wasDrainedBefore = isDrained(world);
    };
    expect(await world.ensure(drained)).toEqual(done);
    expect(wasDrainedBefore).toBe(true);
    world.device.activeUnit.restart();
    expect(isDrained(world)).toBe(true);
  });

  test('drains only when what is new beside it serves', async () => {
    const world = await startWorld();
    await world.ensure(one);
    const served: (readonly string[] | undefined)[] = [];
    world.device.onCall = ({ path, method }) => {
      if (method === 'PUT' && path.includes('SlbOper')) served.push(world.device.readServed()[0]?.members);
    };
    await world.ensure(toBalancer(['10.1.0.1:8080=0', '10.1.0.2:8080=3', '10.1.0.3:8080']));
    expect(served).toEqual([expect.arrayContaining(['10.1.0.3:8080=1'])]);
  });

  test('has its open connections counted, gets new ones when its weight is back, and goes when nobody wants it', async () => {
    const world = await startWorld();
    await world.ensure(one);
    world.device.activeUnit.sessions.set('vipnat_prod_shop_web_1f2e_tcp_443_10.1.0.1_8080', 7);
    await world.ensure(drained);
    const [owned] = await world.driver.list(signal);
    expect([...(owned?.memberToSessions?.values() ?? [])]).toEqual([7, 0]);
    expect(await world.ensure(one)).toEqual(done);
    expect(world.device.readServed()).toEqual(oneServed);
    await world.ensure(toBalancer(['10.1.0.2:8080=3']));
    expect(world.device.readServed()[0]?.members).toEqual(['10.1.0.2:8080=3']);
  });

  test('and one that somebody disabled by hand become what is wanted, also under a name that somebody gave', async () => {
    const world = await startWorld();
    const driver = world.makeDriver({ identity: '1a2b3c4d' });
    await driver.ensure(one, signal);
    const [group, { activeUnit }] = ['vipnat_prod_shop_web_1f2e_tcp_443', world.device];
    activeUnit.edit('PUT', ['EnhGroupTable', group], { Name: 'cluster edge' });
    activeUnit.applyNow();
    activeUnit.overrides.set(`${group}/${group}_10.1.0.1_8080`, 2);
    expect(await driver.plan(one, signal)).toHaveLength(2);
    expect(await driver.ensure(one, signal)).toEqual(done);
    expect(world.device.readServed()).toEqual(oneServed);
  });
});

describe('what is of others', () => {
  const editForeign = (world: AlteonWorld, name = 'intranet') => {
    world.device.activeUnit.edit('POST', ['EnhRealServerTable', name], { IpAddr: '10.9.9.9', State: 2 });
  };

  test('stays through everything, also of another cluster on the same device', async () => {
    const world = await startWorld();
    editForeign(world);
    world.device.activeUnit.applyNow();
    const other = world.makeDriver({ cluster: 'prod-2' });
    const others = toBalancer(['10.2.0.1:80'], {
      id: { ...shopId, cluster: 'prod-2' },
      addresses: [toAddress('192.0.2.2')],
    });
    expect(await other.ensure(others, signal)).toEqual(done);
    await world.ensure(one);
    expect(await world.driver.list(signal)).toHaveLength(1);
    expect(await world.driver.remove(shopId, signal)).toEqual(done);
    expect(await world.driver.list(signal)).toEqual([]);
    expect(await other.list(signal)).toMatchObject([{ balancer: others }]);
    expect(world.device.readServed()).toEqual([
      { listener: 'tcp 192.0.2.2:443', members: ['10.2.0.1:80=1'] },
    ]);
    expect(readTable(world.device.activeUnit.running, 'EnhRealServerTable').has('intranet')).toBe(true);
  });

  test('and waits to be applied stops each change before it writes, is shown, and never reverted', async () => {
    const world = await startWorld();
    await world.ensure(one);
    editForeign(world);
    const changed = toBalancer(['10.1.0.1:8080']);
    const writes = await world.countWrites(async () => {
      expect(await world.ensure(changed)).toMatchObject(failed('real intranet'));
      expect(await world.driver.remove(shopId, signal)).toMatchObject({ result: 'failed' });
    });
    expect(writes).toEqual([]);
    const { foreignChanges } = await world.driver.readState(signal);
    expect(foreignChanges[0]).toBe('/c/slb/real intranet');
    world.device.activeUnit.applyNow();
    expect(await world.ensure(changed)).toEqual(done);
    expect(readTable(world.device.activeUnit.running, 'EnhRealServerTable').has('intranet')).toBe(true);
  });

  test('and has the address and the port is named, until a person deletes it', async () => {
    const world = await startWorld();
    const { activeUnit } = world.device;
    const former = 'prod_shop_web_tcp_443';
    const address = { VirtServerIpAddress: '192.0.2.1', VirtServerState: 2 };
    activeUnit.edit('POST', ['EnhVirtServerTable', former], address);
    activeUnit.edit('POST', ['EnhGroupTable', former]);
    activeUnit.edit('POST', ['EnhVirtServicesTable', former, '1'], { VirtPort: 443 });
    activeUnit.edit('PUT', ['EnhVirtServicesSeventhPartTable', former, '1'], { RealGroup: former });
    activeUnit.applyNow();
    expect(await world.ensure(one)).toMatchObject(failed(`${former} and vipnat_prod_shop_web_1f2e`));
    expect(activeUnit.readText('getdiff')).toBe('');
    activeUnit.edit('DELETE', ['EnhVirtServerTable', former]);
    activeUnit.applyNow();
    expect(await world.ensure(one)).toEqual(done);
    expect(world.device.readServed()).toEqual(oneServed);
  });

  test('and begins in the middle of a change stays, waits alone again, and is applied by nobody', async () => {
    const world = await startWorld();
    await world.ensure(one);
    world.device.onCall = ({ path }) => {
      if (path.includes('AddServer') || path.endsWith('10.1.0.3_8080/1')) {
        world.device.onCall = () => undefined;
        editForeign(world);
      }
    };
    const wanted = toBalancer(['10.1.0.2:8080=3', '10.1.0.3:8080']);
    expect(await world.ensure(wanted)).toMatchObject(failed('intranet'));
    expect(world.device.readServed()).toEqual(oneServed);
    const waiting = world.device.activeUnit.readText('getdiff').split('\n');
    expect(waiting.filter((line) => line.startsWith('/c/'))).toEqual(['/c/slb/real intranet']);
  });
});
