import { DeviceWorld } from '../../../support/fakes/device-world.ts';
import {
  makeDevice,
  makeDeviceService,
  makeSlice,
  makeDeviceNode,
} from '../../../support/fakes/device-objects.ts';
import { afterEach, expect, describe, test } from '@jest/globals';
import { DeviceError } from '../../../../devices/driver.ts';

const toPods = { targets: 'pods' };
const mark = 'vipnat_c_apps_a_uid of apps/a';
let world: DeviceWorld;

function start(spec: object = {}, keys: readonly string[] = ['apps/a']): DeviceWorld {
  const devices = [makeDevice('d', { ...toPods, ...spec })];
  const services = keys.map((key) => makeDeviceService(key, 'd'));
  const endpointSlices = keys.map((key) => makeSlice(key, ['10.1.0.1', '10.1.0.2']));
  return (world = new DeviceWorld({ devices, services, endpointSlices }));
}

afterEach(async () => {
  const stopped = world.devices.stop();
  await world.clock.advance(10_000);
  await stopped;
  expect({ errors: world.errors, pending: world.clock.pending }).toEqual({ errors: [], pending: 0 });
});

const find = () => world.find('apps/a');
const readMembers = () =>
  world.device
    .list('c')
    .flatMap(({ listeners }) => listeners.flatMap(({ members }) => members))
    .map(({ address, weight }) => `${address.text} ${weight}`);

describe('what it costs', () => {
  test('a Service is listed for once, read and written; then nothing, until all is compared again', async () => {
    start();
    await world.clock.advance(1000);
    expect(world.takeCalls()).toEqual(['list', 'read', `put ${mark}`, `put ${mark}_tcp_80`]);
    expect(find()).toMatchObject({ deviceStatus: 'serves', addresses: ['10.9.0.1'], problem: null });
    await world.clock.advance(200_000);
    expect(world.takeCalls()).toEqual([]);
    await world.clock.advance(200_000);
    expect(world.takeCalls().sort()).toEqual(['list', 'read']);
  });

  test('many changes of its endpoints in a moment cost one more write, and other Services nothing', async () => {
    start({}, ['apps/a', 'apps/b']);
    await world.clock.advance(1000);
    world.takeCalls();
    for (const last of [3, 4, 5, 6])
      world.put('endpointSlices', makeSlice('apps/a', ['10.1.0.1', `10.1.0.${last}`]));
    await world.clock.advance(1000);
    expect(world.takeCalls()).toEqual(['read', `put ${mark}_tcp_80`]);
    expect(readMembers().slice(0, 3)).toEqual(['10.1.0.1 1', '10.1.0.6 1', '10.1.0.1 1']);
  });

  test('a node that goes drains on the device, by one more write', async () => {
    start({ targets: 'nodePorts' });
    world.put('endpointSlices', makeSlice('apps/a', ['10.1.0.1@n1', '10.1.0.2@n2']));
    for (const [index, name] of ['n1', 'n2'].entries())
      world.put('deviceNodes', makeDeviceNode(name, `10.0.0.${index}`));
    await world.clock.advance(1000);
    expect(readMembers()).toEqual(['10.0.0.0 1', '10.0.0.1 1']);
    world.takeCalls();
    const conditions = [{ type: 'Ready', status: 'Unknown' }];
    world.put('deviceNodes', makeDeviceNode('n2', '10.0.0.1', { conditions }));
    await world.clock.advance(1000);
    expect(readMembers()).toEqual(['10.0.0.0 1', '10.0.0.1 0']);
    expect(world.takeCalls()).toEqual(['read', `put ${mark}_tcp_80`]);
  });

  test('requests are paced, whatever is to be done', async () => {
    start(
      { callsPerSecond: 10, addresses: ['10.9.0.0/24'] },
      Array.from({ length: 40 }, (_, index) => `apps/s${index}`),
    );
    const counts: number[] = [];
    for (let second = 0; second < 8; second += 1) {
      await world.clock.advance(1000);
      counts.push(world.device.calls.splice(0).length);
    }
    expect(Math.max(...counts.slice(1))).toBeLessThanOrEqual(11);
    expect(Math.min(...counts)).toBeGreaterThanOrEqual(9);
  });
});

describe('a device that fails', () => {
  test('is told at the third failure in a row, is tried ever later, and what it is to do is never dropped', async () => {
    start();
    world.device.chooseEnd = () => 'never sent';
    await world.clock.advance(90);
    expect(find()?.problem ?? null).toBeNull();
    await world.clock.advance(10_000);
    expect(world.report).toMatchObject({ isReady: false, reason: 'Unreachable' });
    await world.clock.advance(3_600_000);
    expect(find() ?? null).toMatchObject({ problem: { reason: 'DeviceFailed' } });
    world.takeCalls();
    await world.clock.advance(3_600_000);
    expect(world.takeCalls().length).toBeLessThan(150);
    world.device.chooseEnd = () => 'done';
    await world.clock.advance(301_000);
    expect(find()).toMatchObject({ deviceStatus: 'serves', problem: null });
    expect(world.report).toMatchObject({ isReady: true, reason: 'Ready', balancers: 1 });
  });

  test('and forgets what it had, has it again after the next look', async () => {
    start();
    world.device.isInSync = true;
    await world.clock.advance(100_000);
    world.device.objects.clear();
    world.device.isInSync = null;
    await world.clock.advance(40_000);
    expect(world.device.list('c')).toHaveLength(1);
    world.takeCalls();
    await world.clock.advance(100_000);
    expect(world.takeCalls()).toEqual([]);
  });

  test('and loses the answers to its writes, has each balancer once', async () => {
    start();
    world.device.chooseEnd = () => 'answer lost';
    await world.clock.advance(10_000);
    world.device.chooseEnd = () => 'done';
    await world.clock.advance(301_000);
    expect(world.device.list('c')).toHaveLength(1);
    expect(find()).toMatchObject({ deviceStatus: 'serves' });
  });

  test('refuses one Service, and serves the other', async () => {
    start({}, ['apps/a', 'apps/b']);
    world.device.refuses = ({ name }) => (name === 'a' ? 'the table is full' : null);
    await world.clock.advance(60_000);
    expect(find()?.problem).toEqual({
      reason: 'DeviceRefused',
      message: 'The device d refuses: the table is full.',
    });
    expect(world.find('apps/b')).toMatchObject({ deviceStatus: 'serves' });
  });

  test('takes long: the Service is served when it says done, and 30 s are told', async () => {
    start();
    world.device.runs = 70;
    await world.clock.advance(29_000);
    expect(find()).toMatchObject({ deviceStatus: 'unknown', problem: null, addresses: ['10.9.0.1'] });
    await world.clock.advance(3000);
    expect(find()?.problem).toMatchObject({ reason: 'WaitingForDevice' });
    await world.clock.advance(10_000);
    expect(find()).toMatchObject({ deviceStatus: 'serves', problem: null });
  });

  test('says what another user has changed there and not applied', async () => {
    start();
    world.device.foreignChanges = ['+ /c/slb/virt 7'];
    await world.clock.advance(40_000);
    expect(world.report).toMatchObject({ isReady: false, reason: 'ForeignChanges' });
    expect(world.report?.message).toContain('/c/slb/virt 7');
  });

  test('says which members drain there, since when, and how many sessions are left', async () => {
    start();
    await world.clock.advance(40_000);
    world.put('endpointSlices', makeSlice('apps/a', ['10.1.0.1', '-10.1.0.2']));
    world.device.sessions = new Map([['10.1.0.2:8080', 7]]);
    await world.clock.advance(12_000);
    const since = world.report?.draining[0]?.since;
    const drain = { service: 'apps/a', member: '10.1.0.2:8080', since, sessions: null };
    expect(world.report?.draining).toEqual([drain]);
    await world.clock.advance(34_000);
    expect(world.report?.draining).toEqual([{ ...drain, sessions: 7 }]);
    world.put('endpointSlices', makeSlice('apps/a', ['10.1.0.1']));
    await world.clock.advance(34_000);
    expect(world.report?.draining).toEqual([]);
  });

  test('forgets: what is gone is there again when all is compared, or after the next look where a unit is behind', async () => {
    start();
    await world.clock.advance(1000);
    world.device.objects.clear();
    await world.clock.advance(340_000);
    expect(readMembers()).toEqual(['10.1.0.1 1', '10.1.0.2 1']);
    world.device.objects.clear();
    world.device.isInSync = false;
    await world.clock.advance(34_000);
    expect(readMembers()).toEqual(['10.1.0.1 1', '10.1.0.2 1']);
  });
});

describe('who writes', () => {
  test('a process that leads no more sends nothing, and the next one goes on', async () => {
    start();
    await world.clock.advance(1000);
    world.isLeading = false;
    world.takeCalls();
    world.put('endpointSlices', makeSlice('apps/a', ['10.1.0.9']));
    await world.clock.advance(600_000);
    expect(world.device.calls).toEqual([]);
    world.isLeading = true;
    await world.restart();
    await world.clock.advance(1000);
    expect(readMembers()).toEqual(['10.1.0.9 1']);
  });

  test('nothing comes without the finalizer of the device', async () => {
    start();
    world.put('services', makeDeviceService('apps/b', 'd', { metadata: { finalizers: [] } }));
    world.put('endpointSlices', makeSlice('apps/b', ['10.1.0.9']));
    await world.clock.advance(400_000);
    expect(world.device.list('c').map(({ id }) => id.name)).toEqual(['a']);
    world.put('services', makeDeviceService('apps/b', 'd'));
    await world.clock.advance(1000);
    expect(world.device.list('c').map(({ id }) => id.name)).toEqual(['a', 'b']);
  });

  test('a Service that ends is cleared, and forgotten with its finalizer', async () => {
    start();
    await world.clock.advance(1000);
    const metadata = { deletionTimestamp: '2027-01-01T00:00:00Z' };
    world.put('services', makeDeviceService('apps/a', 'd', { metadata }));
    await world.clock.advance(1000);
    expect(find()).toMatchObject({ deviceStatus: 'absent', addresses: [] });
    expect(world.device.objects.size).toBe(0);
    world.remove('services', 'apps/a');
    await world.clock.advance(1000);
    expect(find()).toBeUndefined();
  });

  test('what no Service has goes after a minute, also what a leader before has left', async () => {
    start();
    await world.clock.advance(1000);
    world.remove('services', 'apps/a');
    await world.restart();
    await world.clock.advance(59_000);
    expect(world.device.list('c')).toHaveLength(1);
    expect(find()).toMatchObject({ deviceStatus: 'unknown', addresses: ['10.9.0.1'] });
    await world.clock.advance(3000);
    expect(world.device.objects.size).toBe(0);
    expect(find()).toBeUndefined();
  });

  test('another spec takes another writer, which begins when the call under way has ended', async () => {
    start();
    await world.clock.advance(1000);
    world.put('devices', makeDevice('d', { ...toPods, units: ['u2'] }, { generation: 2 }));
    await world.clock.advance(1000);
    expect(world.report).toMatchObject({ generation: 2, units: [{ unit: 'u2' }] });
    expect(find()).toMatchObject({ deviceStatus: 'serves' });
  });
});

describe('credentials', () => {
  const path = '/api/v1/namespaces/vipnat-system/secrets/vipnat-devices';
  const encode = (text: string) => Buffer.from(text).toString('base64');
  const secret = (password: string) => ({
    data: { username: encode('vipnat'), password: encode(`${password}\n`) },
  });
  const begin = (object: object | null | undefined): void => {
    start({ credentialsSecret: { name: 'vipnat-devices' } });
    if (object !== undefined) world.objects.set(path, object);
    world.device.password = 'first';
  };

  test.each([
    ['unauthorized', 'Unauthorized'],
    // As where its certificate comes from another CA.
    ['unreachable', 'Unreachable'],
  ] as const)('are read by name, and again when a unit is %s: the next ones serve', async (kind, reason) => {
    begin(secret('first'));
    world.device.refusal = kind;
    await world.clock.advance(1000);
    expect(find()).toMatchObject({ deviceStatus: 'serves' });
    world.device.password = 'second';
    await world.clock.advance(40_000);
    expect(world.report).toMatchObject({ isReady: false, reason });
    world.objects.set(path, secret('second'));
    await world.clock.advance(70_000);
    expect(world.report).toMatchObject({ isReady: true });
  });

  test.each<[string, object | null | undefined, string, RegExp]>([
    ['are missing', undefined, 'SecretMissing', /there is no Secret vipnat-system\/vipnat-devices/],
    [
      'may not be read',
      null,
      'CredentialsUnread',
      /kubectl create role vipnat-devices .* && kubectl create rolebinding vipnat-devices .*:vipnat-controller/,
    ],
    ['are half there', { data: { username: encode('vipnat') } }, 'SettingsInvalid', /username and password/],
  ])('that %s are named, and no unit is asked', async (_, object, reason, message) => {
    begin(object);
    await world.clock.advance(60_000);
    expect(world.report).toMatchObject({ isReady: false, reason });
    expect(world.report?.message).toMatch(message);
    expect(find()?.problem?.message).toMatch(message);
    expect(world.device.calls).toEqual([]);
  });

  test('that are gone while the device works are told, and until they are there again', async () => {
    begin(secret('first'));
    await world.clock.advance(1000);
    world.objects.delete(path);
    await world.clock.advance(6 * 60_000);
    expect(world.report).toMatchObject({ isReady: true, reason: 'CredentialsUnread' });
    expect(world.report?.message).toMatch(
      /read before\. .* there is no Secret vipnat-system\/vipnat-devices/,
    );
    expect(find()).toMatchObject({ deviceStatus: 'serves', problem: null });
    world.objects.set(path, secret('first'));
    await world.clock.advance(40_000);
    expect(world.report).toMatchObject({ isReady: true, reason: 'Ready' });
  });

  test('of a name that a shell would run are named in words for it', async () => {
    start({ credentialsSecret: { name: '../x;id' } });
    world.objects.set(path.replace('vipnat-devices', '..%2Fx%3Bid'), null);
    await world.clock.advance(1000);
    expect(world.report?.message).toMatch(/create role '\.\.\/x;id' .* create rolebinding '\.\.\/x;id' /);
  });

  test('are in nothing that is told', async () => {
    begin(secret('first'));
    world.device.password = 'other';
    await world.clock.advance(60_000);
    const told = JSON.stringify([world.report, find(), new DeviceError('unauthorized', 'x')]);
    expect(told).not.toContain('first');
  });
});

describe("another controller's finalizer", () => {
  const path = '/api/v1/namespaces/apps/endpoints/a';
  const metadata = { finalizers: ['lb.zcloud.cn/protect', 'device.vipnat.io/d'] };

  test('goes off the Endpoints once the device serves the Service', async () => {
    start({}, []);
    world.objects.set(path, {
      metadata: { resourceVersion: '4', finalizers: ['x', 'lb.zcloud.cn/protect'] },
    });
    world.device.runs = 4;
    world.put('services', makeDeviceService('apps/a', 'd', { metadata }));
    await world.clock.advance(1000);
    expect(world.writes).toEqual([]);
    await world.clock.advance(2000);
    expect(world.writes).toMatchObject([
      { method: 'PATCH', path, body: { metadata: { finalizers: ['x'], resourceVersion: '4' } } },
    ]);
    expect(find()).toMatchObject({ isTakenOver: true });
  });

  test('stays where vipnat may not take it off, and the Service says how to allow it', async () => {
    start({}, []);
    world.objects.set(path, null);
    world.put('services', makeDeviceService('apps/a', 'd', { metadata }));
    await world.clock.advance(10_000);
    expect(find()).toMatchObject({ deviceStatus: 'serves', isTakenOver: false });
    expect(find()?.problem?.message).toContain('kubectl create clusterrole');
  });
});
