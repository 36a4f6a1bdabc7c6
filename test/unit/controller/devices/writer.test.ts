import { DeviceWorld } from '../../../support/fakes/device-world.ts';
import {
  makeDevice,
  makeDeviceService,
  makeSlice,
  makeDeviceNode,
  type DeviceInventory,
} from '../../../support/fakes/device-objects.ts';
import { afterEach, expect, describe, test } from '@jest/globals';
import { type Steps, testSteps, toChecks } from '../../steps.ts';
import { namespaces } from '../../../../lib/api/node.ts';
import { DeviceError } from '../../../../devices/driver.ts';
import type { CallEnd } from '../../../support/fakes/plain-device.ts';

const going = '{"metadata":{"deletionTimestamp":"2027-01-01T00:00:00Z"}}';
const moved =
  '{"metadata":{"finalizers":["device.vipnat.io/d","device.vipnat.io/e"]},' +
  '"status":{"loadBalancer":{"ingress":[{"ip":"10.9.0.2","ipMode":"Proxy"}]}}}';
const toPods = { targets: 'pods' };
const mark = 'vipnat_c_apps_a_uid of apps/a';
let world: DeviceWorld;
const others: DeviceWorld[] = [];

/** Of a cluster of this identity. */
function toInventory(spec: object, keys: readonly string[], identity = 'aaaaaaaa'): DeviceInventory {
  const uid = `${identity}-0000-4000-8000-000000000000`;
  return {
    devices: [makeDevice('d', { ...toPods, ...spec })],
    services: keys.map((key) => makeDeviceService(key, 'd')),
    endpointSlices: keys.map((key) => makeSlice(key, ['10.1.0.1', '10.1.0.2'])),
    namespaces: [namespaces.schema.parse({ metadata: { name: 'kube-system', uid, resourceVersion: '1' } })],
  };
}

function start(spec: object = {}, keys: readonly string[] = ['apps/a']): DeviceWorld {
  return (world = new DeviceWorld(toInventory(spec, keys)));
}

afterEach(async () => {
  for (const other of others.splice(0)) await other.devices.stop();
  expect(await world.stop()).toEqual({ errors: [], pending: 0 });
});

const find = () => world.find('apps/a');
const listKeys = (length: number) => Array.from({ length }, (_, index) => `apps/s${index}`);
const listNames = () => world.device.list('c').map(({ id }) => id.name);
const split = (text: string): string[] => text.split(' ').filter(Boolean);

const deeds: Steps = {
  wait: (ms) => world.clock.advance(Number(ms)),
  /** `endpoints apps/a 10.1.0.1 -10.1.0.2 | 10.1.0.1`: of the Service, one after the other in a moment. */
  endpoints: (text) => {
    const [key = '', ...addresses] = split(text);
    for (const list of addresses.join(' ').split(' | '))
      world.put('endpointSlices', makeSlice(key, split(list)));
  },
  /** `service apps/b@e {"spec":{…}}`: of a device, `d` where none is named, and with such parts. */
  service: (text) => {
    const [key = '', parts = '{}'] = split(text);
    const [service = '', device = 'd'] = key.split('@');
    world.put('services', makeDeviceService(service, device, JSON.parse(parts) as object));
  },
  remove: (key) => {
    world.remove('services', key);
  },
  /** `node n2 10.0.0.1 Unknown`: its condition Ready. */
  node: (text) => {
    const [name = '', address = '', status] = split(text);
    world.put('deviceNodes', makeDeviceNode(name, address, { conditions: [{ type: 'Ready', status }] }));
  },
  device: (spec) => {
    const parts = { ...toPods, ...(JSON.parse(spec) as object) };
    world.put('devices', makeDevice('d', parts, { generation: 2 }));
  },
  /** `another e {…}`: a second device, on the same unit unless the spec says otherwise. */
  another: (text) => {
    const [name = '', spec = '{}'] = split(text);
    const parts = { ...toPods, addresses: ['10.8.0.0/30'], ...(JSON.parse(spec) as object) };
    world.put('devices', makeDevice(name, parts));
  },
  password: (password) => (world.device.password = password),
  calls: (end) => (world.device.chooseEnd = () => end as CallEnd),
  refuse: (refused) => (world.device.refuses = ({ name }) => (name === refused ? 'the table is full' : null)),
  /** `cluster bbbbbbbb apps/z`: another one of the same name, with this device and Service. */
  cluster: (text) => {
    const [identity = '', key = ''] = split(text);
    const inventory = toInventory({}, [key], identity);
    others.push(new DeviceWorld(inventory, { clock: world.clock, createDriver: world.device.createDriver }));
  },
  /** `set {"runs":70}`: what the device is like from now on. */
  set: (parts) => Object.assign(world.device, JSON.parse(parts) as object),
  /** `stale vipnat_c_apps_b_u {"addresses":[]}`: an object that is there. */
  stale: (text) => {
    const at = text.lastIndexOf(' ');
    world.device.objects.set(text.slice(0, at), text.slice(at + 1));
  },
  clear: () => {
    world.device.objects.clear();
  },
  lead: (text) => (world.isLeading = text === 'true'),
  restart: () => world.restart(),
  forget: () => world.takeCalls(),
};

const checks = toChecks({
  /** Since the last time, but for looks. */
  called: (calls) => [world.takeCalls().join(', ').replaceAll(mark, 'a'), calls],
  calledLessThan: (count) => [world.takeCalls().length < Number(count), true],
  members: (members) => [world.device.listMembers().join(', '), members],
  balancers: (names) => [listNames().join(' '), names],
  objects: (count) => [world.device.objects.size, Number(count)],
  /** `is apps/a serves - 10.9.0.1`: the status, the reason of a problem, and addresses; or `none`. */
  is: (text) => {
    const [key = '', ...state] = split(text);
    const found = world.find(...(key.split('@') as [string, string?]));
    const words = found && [found.deviceStatus, found.problem?.reason ?? '-', ...found.addresses];
    return [words?.join(' ') ?? 'none', state.join(' ')];
  },
  says: (words) => [find()?.problem?.message, expect.stringMatching(words)],
  /** `reports d false SettingsInvalid`: of a device, whether it is ready, and the reason. */
  reports: (text) => {
    const [name = '', ...words] = split(text);
    const report = world.cache.view(0).deviceReports.get(name);
    return [`${String(report?.isReady)} ${report?.reason ?? ''}`, words.join(' ')];
  },
  /** How often a word was called since the last time. */
  calledTimes: (text) => {
    const [word = '', count] = split(text);
    const calls = world.device.calls.splice(0).filter((call) => call.startsWith(word));
    return [calls.length, Number(count)];
  },
  told: (words) => [world.report?.message, expect.stringMatching(words)],
  /** `has 2 u2 1`: the generation that is followed, its units and balancers. */
  has: (text) => {
    const { generation, units = [], balancers } = world.report ?? {};
    return [[generation, ...units.map(({ unit }) => unit), balancers].join(' '), text];
  },
});

const begin = (...options: Parameters<typeof start>) => {
  start(...options);
  return { ...deeds, ...checks };
};

describe('what it costs', () => {
  testSteps(begin, {
    'a Service is listed for once, read and written; then nothing, until all is compared again':
      'wait 1000; called list, read, put a, put a_tcp_80; is apps/a serves - 10.9.0.1; ' +
      'wait 200000; called ; wait 200000; called list, read',
  });

  testSteps(() => begin({}, ['apps/a', 'apps/b']), {
    'many changes of its endpoints in a moment cost one more write, and other Services nothing':
      'wait 1000; forget; endpoints apps/a 10.1.0.1 10.1.0.3 | 10.1.0.1 10.1.0.4 | 10.1.0.1 10.1.0.6; ' +
      'wait 1000; called read, put a_tcp_80; ' +
      'members 10.1.0.1 1, 10.1.0.6 1, 10.1.0.1 1, 10.1.0.2 1',
  });

  testSteps(() => begin({ targets: 'nodePorts' }), {
    'a node that goes drains on the device, by one more write':
      'endpoints apps/a 10.1.0.1@n1 10.1.0.2@n2; node n1 10.0.0.0 True; node n2 10.0.0.1 True; wait 1000; ' +
      'members 10.0.0.0 1, 10.0.0.1 1; forget; node n2 10.0.0.1 Unknown; wait 1000; ' +
      'members 10.0.0.0 1, 10.0.0.1 0; called read, put a_tcp_80',
  });

  test('requests are paced, whatever is to be done', async () => {
    start({ callsPerSecond: 10, addresses: ['10.9.0.0/24'] }, listKeys(40));
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
  testSteps(begin, {
    'is told at the third failure in a row, is tried ever later, and what it is to do is never dropped':
      'calls never sent; wait 90; is apps/a none; wait 10000; reports d false Unreachable; wait 3600000; ' +
      'is apps/a unknown DeviceFailed; forget; wait 3600000; calledLessThan 150; calls done; wait 301000; ' +
      'is apps/a serves - 10.9.0.1; reports d true Ready; has 1 u1 1',
    'and forgets what it had, has it again after the next look':
      'set {"isInSync":true}; wait 100000; clear; set {"isInSync":null}; wait 40000; balancers a; forget; ' +
      'wait 100000; called ',
    'and comes back, and cannot tell what it has, is compared after the next look':
      'wait 1000; calls never sent; wait 40000; clear; calls done; wait 34000; balancers a',
    'and forgets again before it has all, is compared until it has, and is told so':
      'set {"isInSync":true,"confirms":true}; wait 100000; clear; set {"isInSync":null}; wait 34000; balancers a; ' +
      'clear; forget; wait 34000; called confirm, read, put a, put a_tcp_80; wait 34000; called confirm; wait 34000; called ',
    'and loses the answers to its writes, has each balancer once':
      'calls answer lost; wait 10000; calls done; wait 301000; balancers a; is apps/a serves - 10.9.0.1',
    'takes long: the Service is served when it says done, and 30 s are told':
      'set {"runs":70}; wait 29000; is apps/a unknown - 10.9.0.1; wait 3000; ' +
      'is apps/a unknown WaitingForDevice 10.9.0.1; wait 10000; is apps/a serves - 10.9.0.1',
    'says what another user has changed there and not applied':
      'set {"foreignChanges":["+ /c/slb/virt 7"]}; wait 40000; reports d false ForeignChanges; told /c/slb/virt 7',
    'forgets: what is gone is there again when all is compared, or after the next look where a unit is behind':
      'wait 1000; clear; wait 340000; members 10.1.0.1 1, 10.1.0.2 1; clear; set {"isInSync":false}; wait 34000; ' +
      'members 10.1.0.1 1, 10.1.0.2 1',
  });

  testSteps(() => begin({}, ['apps/a', 'apps/b']), {
    'comes back empty, and says so at each look, is filled':
      'set {"isInSync":true}; wait 100000; clear; set {"isInSync":false}; wait 34000; balancers a b; clear; wait 34000; ' +
      'balancers a b',
    'refuses one Service, and serves the other':
      'refuse a; wait 60000; is apps/a unknown DeviceRefused 10.9.0.1; ' +
      'says ^The device d refuses: the table is full\\. vipnat tries again within 5 minutes\\.$; is apps/b serves - 10.9.0.2; refuse -; wait 31000; is apps/a serves - 10.9.0.1',
  });

  testSteps(() => begin({ units: ['u1', 'u2'] }, ['apps/a', 'apps/b']), {
    'whose other unit becomes active has everything compared after the next change of any Service':
      'set {"isInSync":true}; wait 100000; clear; set {"active":1}; endpoints apps/a 10.1.0.9; wait 1000; balancers a b; ' +
      'service apps/c; wait 1000; clear; set {"active":0}; service apps/c ' +
      going +
      '; wait 1000; balancers a b; ' +
      'forget; wait 100000; called ',
  });

  testSteps(() => begin({ units: ['u1', 'u2'] }), {
    'whose other unit becomes active has all listed and compared after the next look, whatever that unit says':
      'set {"isInSync":true}; wait 100000; clear; stale vipnat_c_apps_gone_u {"addresses":[]}; set {"active":1}; ' +
      'wait 34000; balancers gone a; wait 61000; balancers a; forget; wait 100000; called ',
  });

  testSteps(() => begin({ addresses: ['10.9.0.0/23'] }, listKeys(300)), {
    'and everything is compared: what has news comes first':
      'set {"isInSync":true}; wait 100000; set {"isInSync":null}; wait 22000; forget; endpoints apps/s299 10.1.0.1; ' +
      'wait 1000; calledTimes put 1; wait 30000; forget; wait 100000; called ',
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
});

describe('who writes', () => {
  testSteps(begin, {
    'a process that leads no more sends nothing, and the next one goes on':
      'wait 1000; lead false; forget; endpoints apps/a 10.1.0.9; wait 600000; called ; lead true; restart; ' +
      'wait 1000; members 10.1.0.9 1',
    'nothing comes without the finalizer of the device':
      'service apps/b {"metadata":{"finalizers":[]}}; endpoints apps/b 10.1.0.9; wait 400000; balancers a; service apps/b; ' +
      'wait 1000; balancers a b',
    'a Service that the device can serve no longer goes from there, keeps its address, and comes back':
      'wait 1000; service apps/a {"spec":{"loadBalancerSourceRanges":["10.0.0.0/8"]}}; wait 1000; objects 0; ' +
      'is apps/a absent NotSupported; wait 60000; service apps/a; wait 11000; is apps/a serves - 10.9.0.1',
    'a Service that is refused later is followed':
      'wait 1000; service apps/a {"spec":{"ipFamilyPolicy":"RequireDualStack"}}; endpoints apps/a 10.1.0.9; wait 1000; ' +
      'is apps/a serves NotSupported 10.9.0.1; members 10.1.0.9 1',
    'a Service that ends is cleared, and forgotten with its finalizer':
      'wait 1000; service apps/a ' +
      going +
      '; wait 1000; is apps/a absent -; ' +
      'objects 0; remove apps/a; wait 1000; is apps/a none',
    'what no Service has goes after a minute, also what a leader before has left':
      'wait 1000; remove apps/a; restart; wait 59000; balancers a; is apps/a unknown - 10.9.0.1; wait 3000; ' +
      'objects 0; is apps/a none',
    'of two devices with a unit and the cluster in common the second is not used, until one of both is otherwise':
      'wait 1000; another e; service apps/b; wait 1000; forget; wait 1200000; calledTimes delete 0; balancers a b; ' +
      'reports e false SettingsInvalid; another e {"units":["u2"]}; wait 1000; reports e true Ready; ' +
      'another e {"units":["https://U1:443/"]}; wait 1000; reports e false SettingsInvalid; ' +
      'another e {"units":["u1:9443"]}; wait 1000; reports e false SettingsInvalid; ' +
      'another e {"units":["u1:8443"]}; wait 1000; reports e true Ready; ' +
      'another e {"cluster":"other"}; wait 1000; reports e true Ready',
    'and a Service of the second may go when the first has none of it, or has it for itself':
      `another e; service apps/b@e; wait 1000; is apps/b@e unknown DeviceFailed; service apps/b@e ${going}; wait 9000; ` +
      `is apps/b@e absent -; remove apps/b; device {"units":["u2"]}; service apps/b@e; wait 3000; device {}; ` +
      `set {"runs":70}; service apps/b@e ${going}; wait 9000; is apps/b@e unknown DeviceFailed; reports d true Ready; ` +
      `set {"runs":0}; wait 90000; is apps/b@e absent -; balancers a; service apps/c ${moved}; wait 9000; is apps/c@e absent -; balancers a c`,
    'two clusters of one name keep what each has, and are told of each other':
      'wait 1000; cluster bbbbbbbb apps/z; wait 1200000; forget; calledTimes delete 0; balancers a z; ' +
      'reports d true ClusterNameTaken; told bbbbbbbb.*1 Services there, such as apps/z.*spec.cluster of its own.*If that cluster is gone; ' +
      'remove apps/a; wait 400000; balancers z',
    'what an earlier version has written is taken over, and what no Service has of it goes':
      `stale ${mark} {"addresses":[]}; stale vipnat_c_apps_b_u {"addresses":[]}; wait 1000; called list, read, put a, put a_tcp_80; ` +
      'wait 90000; balancers a; calledTimes delete 1; reports d true Ready',
    'another spec, and a change at the same time: nothing is asked before the call under way has ended':
      'wait 1000; forget; set {"latencyMs":5000}; endpoints apps/a 10.1.0.9; wait 100; device {"units":["u2"]}; ' +
      'endpoints apps/a 10.1.0.8; wait 4000; called read; set {"latencyMs":5}; wait 3000; members 10.1.0.8 1; has 2 u2 1; ' +
      'is apps/a serves - 10.9.0.1',
  });
});

describe('credentials', () => {
  const path = '/api/v1/namespaces/vipnat-system/secrets/vipnat-devices';
  const encode = (text: string) => Buffer.from(text).toString('base64');
  const secret = (password: string) => ({
    data: { username: encode('vipnat'), password: encode(`${password}\n`) },
  });
  const faults = new Map([
    ['unreadable', null],
    ['half', { data: { username: encode('vipnat') } }],
  ]);
  /** `secret first`: its password; or gone, unreadable, or half there. */
  const keep = (what: string) => {
    const object = faults.get(what);
    if (what === 'gone') world.objects.delete(path);
    else world.objects.set(path, object === undefined ? secret(what) : object);
  };
  const withSecret = (...keys: readonly string[]) => {
    const spec = { credentialsSecret: { name: 'vipnat-devices' }, addresses: ['10.9.0.1-10.9.0.99'] };
    const steps = begin(spec, ['apps/a', ...keys]);
    world.device.password = 'first';
    return { ...steps, secret: keep };
  };

  testSteps(() => withSecret(), {
    ...Object.fromEntries(
      // The second as where its certificate comes from another CA.
      ['Unauthorized', 'Unreachable'].map((reason) => [
        `are read by name, and again when a unit is ${reason}: the next ones serve`,
        `secret first; set {"refusal":"${reason.toLowerCase()}"}; wait 1000; is apps/a serves - 10.9.0.1; ` +
          `set {"password":"second"}; wait 40000; reports d false ${reason}; secret second; wait 70000; reports d true Ready`,
      ]),
    ),
    'that are gone while the device works are told, and until they are there again':
      'secret first; wait 1000; secret gone; wait 360000; reports d true CredentialsUnread; ' +
      'told read before\\. .* there is no Secret vipnat-system/vipnat-devices; is apps/a serves - 10.9.0.1; ' +
      'secret first; wait 40000; reports d true Ready',
  });

  testSteps(() => withSecret(...listKeys(50)), {
    'that are refused are tried by the looks alone, however many Services there are':
      'secret first; password other; wait 600000; calledLessThan 25; is apps/a unknown DeviceFailed; ' +
      'password first; wait 45000; is apps/s49 serves - 10.9.0.51; password other; forget; endpoints apps/a 10.1.0.9; ' +
      'endpoints apps/s1 10.1.0.9; endpoints apps/s2 10.1.0.9; wait 240000; called read; ' +
      'secret other; wait 32000; is apps/s2 serves - 10.9.0.4',
  });

  test.each([
    ['gone', 'SecretMissing', /there is no Secret vipnat-system\/vipnat-devices/],
    [
      'unreadable',
      'CredentialsUnread',
      /kubectl create role vipnat-devices .* && kubectl create rolebinding vipnat-devices .*:vipnat-controller/,
    ],
    ['half', 'SettingsInvalid', /username and password/],
  ])('that are %s are named, and no unit is asked', async (what, reason, message) => {
    withSecret().secret(what);
    await world.clock.advance(60_000);
    expect(world.report).toMatchObject({ isReady: false, reason });
    expect(world.report?.message).toMatch(message);
    expect(find()?.problem?.message).toMatch(message);
    expect(world.device.calls).toEqual([]);
  });

  test('of a name that a shell would run are named in words for it', async () => {
    start({ credentialsSecret: { name: '../x;id' } });
    world.objects.set(path.replace('vipnat-devices', '..%2Fx%3Bid'), null);
    await world.clock.advance(1000);
    expect(world.report?.message).toMatch(/create role '\.\.\/x;id' .* create rolebinding '\.\.\/x;id' /);
  });

  test('are in nothing that is told', async () => {
    withSecret().secret('first');
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
    const finalizers = ['x', 'lb.zcloud.cn/protect'];
    world.objects.set(path, { metadata: { resourceVersion: '4', finalizers } });
    world.device.runs = 4;
    world.put('services', makeDeviceService('apps/a', 'd', { metadata }));
    await world.clock.advance(1000);
    expect(world.writes).toEqual([]);
    await world.clock.advance(2000);
    const body = { metadata: { finalizers: ['x'], resourceVersion: '4' } };
    expect(world.writes).toMatchObject([{ method: 'PATCH', path, body }]);
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
