import {
  whole,
  type DeviceInventory,
  makeDeviceService,
  makeDevice,
  makeDeviceWorld,
  makeDeviceCache,
  makeDeviceNode,
  makeSlice,
  publishOf,
  makeBalancer,
} from '../../../support/fakes/device-objects.ts';
import { type Wanted, toWanted } from '../../../../controller/devices/wanted.ts';
import type { FormerMembers } from '../../../../controller/devices/held.ts';
import { formatMember } from '../../../../devices/driver.ts';
import { describe, test, expect } from '@jest/globals';
import { makePod, makeService, publish, makeVirtualIp } from '../../../support/fakes/service-objects.ts';

interface Case {
  readonly spec?: object;
  readonly metadata?: object;
  readonly status?: object;
  readonly device?: object;
  readonly capabilities?: Partial<typeof whole>;
  readonly former?: FormerMembers;
  readonly present?: readonly string[];
  readonly inventory?: DeviceInventory;
}

function want({ device = {}, capabilities, former, present = [], inventory = {}, ...parts }: Case): Wanted {
  const service = makeDeviceService('apps/a', 'd', parts as never);
  const made = makeDevice('d', device as never);
  const { services = [], devices = [], ...others } = inventory;
  const world = makeDeviceWorld({ ...others, services: [service, ...services], devices: [made, ...devices] });
  const query = { service, device: made, capabilities: { ...whole, ...capabilities }, present };
  return toWanted({ ...query, former: former ?? new Map(), nowMs: 100_000 }, world);
}

/** `n1 2, pod3 0`: port 30080 of a node, or port 8080 of a pod, and its weight. */
const listMembers = ({ balancer }: Wanted): string =>
  (balancer?.listeners ?? [])
    .flatMap(({ members }) => members.map((member) => `${formatMember(member)} ${member.weight}`))
    .map((text) => text.replace(/^10\.0\.0\.(\d+):30080/, 'n$1').replace(/^10\.1\.0\.(\d+):8080/, 'pod$1'))
    .join(', ');

const nodes = [1, 2, 3].map((number) => makeDeviceNode(`n${number}`, `10.0.0.${number}`));
const away = {
  'is not ready': { conditions: [{ type: 'Ready', status: 'Unknown' }] },
  'is excluded': { metadata: { labels: { 'node.kubernetes.io/exclude-from-external-load-balancers': '' } } },
  'is about to be deleted': { spec: { taints: [{ key: 'ToBeDeletedByClusterAutoscaler' }] } },
  'shuts down': { conditions: [{ type: 'Ready', status: 'False', message: 'node is shutting down' }] },
};
const pods = ['10.1.0.1@n1', '10.1.0.2@n1', '10.1.0.3@n2'];
const local = { externalTrafficPolicy: 'Local' };
const onNodes = (endpoints: readonly string[], former: FormerMembers = new Map(), spec = {}): Case => ({
  ...{ former, spec },
  inventory: { deviceNodes: nodes, endpointSlices: [makeSlice('apps/a', endpoints)] },
});
const was = (since: number | null, ...members: readonly string[]): FormerMembers =>
  new Map(members.map((member) => [`tcp 80 ${member}`, since]));
const wereNodes = (since: number | null, ...numbers: readonly number[]) =>
  was(since, ...numbers.map((number) => `10.0.0.${number}:30080`));

const many = Array.from({ length: 512 }, (_, index) => `10.1.${index >> 8}.${index & 255}@n1`);

describe('node ports have the weights of the pods on each node, for both policies', () => {
  test.each<[string, Case, string]>([
    ['two pods and one', onNodes(pods), 'n1 2, n2 1'],
    ['policy Local', onNodes(pods, undefined, local), 'n1 2, n2 1'],
    ['no pod is ready', onNodes(['!10.1.0.1@n1']), ''],
    ['all end, and answer', onNodes(['-10.1.0.1@n1']), 'n1 1'],
    ['the pods are nowhere', onNodes(['10.1.0.1']), 'n1 1, n2 1, n3 1'],
    ['the pods are nowhere, policy Local', onNodes(['10.1.0.1'], undefined, local), ''],
    ['a node that has lost its pods drains', onNodes(pods, wereNodes(null, 3)), 'n1 2, n2 1, n3 0'],
    ['and has gone after a minute', onNodes(pods, wereNodes(40_000, 3)), 'n1 2, n2 1'],
    ['no pod is ready now', onNodes(['!10.1.0.1@n1', '!10.1.0.2@n2'], wereNodes(null, 1, 2)), 'n1 1, n2 1'],
    ['all pods are gone', onNodes([], wereNodes(null, 1, 2)), 'n1 0, n2 0'],
    ['more pods than a weight has numbers', onNodes([...many, '10.2.0.1@n2']), 'n1 256, n2 1'],
    ['a node that is deleted drains, too', onNodes(pods, wereNodes(40_001, 9)), 'n1 2, n2 1, n9 0'],
  ])('%s', (_, given, expected) => {
    expect(listMembers(want(given))).toBe(expected);
  });

  test.each(Object.entries(away))('a node that %s gets no new connections', (_, more) => {
    const deviceNodes = [makeDeviceNode('n1', '10.0.0.1', more), makeDeviceNode('n2', '10.0.0.2')];
    const inventory = { deviceNodes, endpointSlices: [makeSlice('apps/a', ['10.1.0.1@n1'])] };
    const former = wereNodes(null, 1);
    expect(listMembers(want({ inventory, former }))).toBe('n1 0, n2 1');
    // No other node has a pod.
    expect(listMembers(want({ inventory, former, spec: local }))).toBe('n1 1');
  });

  test.each(Object.entries(away))('a node that %s keeps its connections if all nodes do', (_, more) => {
    const deviceNodes = ['1', '2', '3'].map((each) => makeDeviceNode(`n${each}`, `10.0.0.${each}`, more));
    const inventory = { deviceNodes, endpointSlices: [makeSlice('apps/a', pods)] };
    const former = new Map([...wereNodes(null, 1), ...wereNodes(90_000, 2)]);
    expect(listMembers(want({ inventory, former }))).toBe('n1 2, n2 1');
    expect(listMembers(want({ inventory, former, spec: local }))).toBe('n1 2, n2 1');
  });

  const unresponsive = away['is not ready'];
  test.each<[string, readonly number[], string, string]>([
    ['half of them are out', [1, 2], 'n3 1', 'pod1 0, pod2 0, pod3 1'],
    ['of more, nobody is', [1, 2, 3], 'n1 1, n2 1, n3 1', 'pod1 1, pod2 1, pod3 1'],
    ['of all, nobody is', [1, 2, 3, 4], 'n1 1, n2 1, n3 1', 'pod1 1, pod2 1, pod3 1'],
  ])('nodes that stopped to report one after the other, each when the last had drained: %s', (...given) => {
    const [, numbers, onPorts, onPods] = given;
    const deviceNodes = [1, 2, 3, 4].map((each) =>
      makeDeviceNode(`n${each}`, `10.0.0.${each}`, numbers.includes(each) ? unresponsive : {}),
    );
    const texts = [1, 2, 3].map((each) => `${numbers.includes(each) ? '!' : ''}10.1.0.${each}@n${each}`);
    const inventory = { deviceNodes, endpointSlices: [makeSlice('apps/a', texts)] };
    for (const spec of [local, {}]) expect(listMembers(want({ inventory, spec }))).toBe(onPorts);
    const former = was(null, ...[1, 2, 3].map((each) => `10.1.0.${each}:8080`));
    expect(listMembers(want({ inventory, former, device: { targets: 'pods' } }))).toBe(onPods);
    // One that was never there does not come.
    const drained = { inventory, device: { targets: 'pods' } };
    expect(listMembers(want(drained))).toBe(numbers.length === 2 ? 'pod3 1' : '');
  });

  test('two nodes with one address are one member', () => {
    const deviceNodes = [...nodes, makeDeviceNode('n4', '10.0.0.2')];
    const inventory = { deviceNodes, endpointSlices: [makeSlice('apps/a', [...pods, '10.1.0.4@n4'])] };
    expect(listMembers(want({ inventory }))).toBe('n1 2, n2 2');
  });
});

describe('pods', () => {
  const toPods = (endpoints: readonly string[], former: FormerMembers = new Map()): Case => ({
    ...{ former, device: { targets: 'pods' } },
    inventory: { endpointSlices: [makeSlice('apps/a', endpoints)] },
  });
  const werePods = (...numbers: readonly number[]) =>
    was(null, ...numbers.map((number) => `10.1.0.${number}:8080`));
  const unready = ['!10.1.0.1', '!10.1.0.2', '!10.1.0.3'];
  const ending = ['10.1.0.1', '-10.1.0.2'];
  test.each<[string, Case, string]>([
    ['have their own ports', toPods(pods), 'pod1 1, pod2 1, pod3 1'],
    ['that end keep their connections until they are gone', toPods(ending, werePods(2, 3)), 'pod1 1, pod2 0'],
    ['that end and were never there do not come', toPods([...ending, '!10.1.0.3']), 'pod1 1'],
    // Kubernetes may not reach their nodes.
    ['that are all not ready keep what was there', toPods(unready, werePods(1, 2)), 'pod1 1, pod2 1'],
    ['that all end serve as long as they answer', toPods(['-10.1.0.2']), 'pod2 1'],
  ])('%s', (_, given, expected) => {
    expect(listMembers(want(given))).toBe(expected);
  });

  test('have the weights of their annotations; one with 0 gets nothing', () => {
    const weigh = (name: string, weight: string, ip: string) =>
      makePod(`apps/${name}`, {
        metadata: { annotations: { 'vipnat.io/weight': weight } },
        status: { podIPs: [{ ip }] },
      });
    const { inventory, ...given } = toPods(['10.1.0.1', '10.1.0.2', '10.1.0.3'], werePods(2));
    const annotated = { ...inventory, pods: [weigh('x', '5', '10.1.0.1'), weigh('y', '0', '10.1.0.2')] };
    const wanted = want({ ...given, inventory: annotated, spec: { selector: { app: 'web' } } });
    expect(listMembers(wanted)).toBe('pod1 5, pod2 0, pod3 1');
  });
});

describe('what a device cannot do is left out, and named', () => {
  const annotate = (method: string) => ({ annotations: { 'vipnat.io/method': method } });
  const onlyRr = { capabilities: { methods: ['rr' as const] } };
  const noAffinity = { capabilities: { affinity: false } };
  const bothFamilies = { ipFamilies: ['IPv4', 'IPv6'], ipFamilyPolicy: 'PreferDualStack' };
  const sticky = { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } } };
  const dns = { port: 53, protocol: 'UDP', nodePort: 30_053 };
  const udp = { ports: [dns, { port: 80, nodePort: 30_080 }] };
  test.each<[string, Case, object, RegExp | null]>([
    ['lc', { metadata: annotate('lc') }, { method: 'lc', affinityS: null }, null],
    ['random is in turn', { metadata: annotate('random') }, { method: 'rr' }, null],
    ['no lc', { metadata: annotate('lc'), ...onlyRr }, { method: 'rr' }, /the method lc/],
    ['an unknown method', { metadata: annotate('fast') }, { method: 'rr' }, /the method fast/],
    ['affinity', { spec: sticky }, { affinityS: 60 }, null],
    ['no affinity', { spec: sticky, ...noAffinity }, { affinityS: null }, /session affinity/],
    ['udp', { spec: udp }, { listeners: [{ protocol: 'udp', port: 53 }, { port: 80 }] }, null],
    ['no udp', { spec: udp, capabilities: { udp: false } }, { listeners: [{ port: 80 }] }, /the port UDP 53/],
    ['one family', { spec: bothFamilies }, { addresses: [{ text: '10.9.0.1' }] }, /family ipv6/],
    ['sources that are blank', { spec: { loadBalancerSourceRanges: [' '] } }, {}, null],
    ['all sources', { spec: { loadBalancerSourceRanges: ['10.0.0.0/8', '0.0.0.0/0'] } }, {}, null],
    ['weights', { ...onNodes(pods), capabilities: { weights: false } }, {}, /weights/],
  ])('%s', (_, given, expected, remark) => {
    const wanted = want(given);
    expect(wanted.balancer).toMatchObject(expected);
    expect(wanted.problem).toBeNull();
    if (remark === null) expect(wanted.remark).toBeNull();
    else expect(wanted.remark).toMatch(remark);
  });

  const addresses = ['10.9.0.1', '10.9.0.2', '10.9.0.3', '10.9.0.4'];
  const full = { deviceBalancers: [makeBalancer('d', 'apps/b', { addresses })] };
  const annotateSources = (text: string) => ({
    annotations: { 'service.beta.kubernetes.io/load-balancer-source-ranges': text },
  });
  const ofFront = { matchLabels: { tier: 'front' } };
  const front = { metadata: { name: 'apps', labels: { tier: 'front' } } };
  test.each<[string, Case]>([
    ['two families', { spec: { ipFamilyPolicy: 'RequireDualStack' } }],
    ['other labels', { device: { serviceSelector: ofFront } }],
    ['a family that the device lost', { device: { addresses: ['fd00::1'] } }],
  ])('%s: who is served already is followed', (_, given) => {
    const wanted = want({ ...onNodes(pods), ...given, present: ['10.9.0.1'] });
    expect(listMembers(wanted)).toBe('n1 2, n2 1');
  });

  test('a device serves the namespaces and Services that it selects', () => {
    const device = { namespaceSelector: ofFront, serviceSelector: ofFront };
    const inventory = { namespaces: [front] } as never;
    expect(want({ device, inventory, metadata: { labels: { tier: 'front' } } }).problem).toBeNull();
  });

  test.each<[string, string]>([
    ['its own', '10.9.0.1'],
    ['another one of a device', '10.9.0.4'],
    ['that of a unit', '10.0.0.11'],
    ["another Service's", '10.7.0.1'],
  ])('an endpoint with an address of a Service is no member, and named: %s', (_, address) => {
    const given = onNodes(['10.1.0.1', address]);
    const services = [makeService('apps/b', { status: publish('10.7.0.1') })];
    const device = { targets: 'pods', units: ['https://10.0.0.11:9443'] };
    const wanted = want({ ...given, device, inventory: { ...given.inventory, services } });
    expect(listMembers(wanted)).toBe('pod1 1');
    const named = `EndpointSlice apps/a names ${address}, which is the address of a Service`;
    expect(wanted.remark).toContain(named);
  });

  test.each<[string, Case, string]>([
    ['sources', { spec: { loadBalancerSourceRanges: ['10.0.0.0/8'] } }, 'NotSupported'],
    ['sources of a family', { spec: { loadBalancerSourceRanges: ['10.0.0.0/8', '::/0'] } }, 'NotSupported'],
    ['sources of the other family', { spec: { loadBalancerSourceRanges: ['::/0'] } }, 'NotSupported'],
    ['annotated sources', { metadata: annotateSources('10.0.0.0/8, ::/0') }, 'NotSupported'],
    ['other labels', { device: { serviceSelector: { matchLabels: { tier: 'front' } } } }, 'NotSupported'],
    ['other namespaces', { device: { namespaceSelector: ofFront } }, 'NotSupported'],
    ['two families', { spec: { ipFamilyPolicy: 'RequireDualStack' } }, 'NotSupported'],
    ['no node ports', { spec: { ports: [{ port: 80 }] } }, 'NotSupported'],
    ['SCTP alone', { spec: { ports: [{ port: 80, protocol: 'SCTP', nodePort: 30_080 }] } }, 'NotSupported'],
    ['IPv6 alone', { spec: { ipFamilies: ['IPv6'] } }, 'NotSupported'],
    ['no address', { spec: { loadBalancerIP: 'no' } }, 'AddressesMalformed'],
    ['no free address', { inventory: full }, 'NoFreeAddress'],
    ['an address of others', { spec: { loadBalancerIP: '10.9.1.1' } }, 'OutsideDevice'],
  ])('%s: nothing of it is there', (_, given, reason) => {
    expect(want(given)).toMatchObject({ balancer: null, problem: { reason } });
  });
});

describe('an address', () => {
  const other = (parts: object, key = 'apps/b', device = 'd') => makeDeviceService(key, device, parts);
  const late = { creationTimestamp: '9' };
  const taken: Readonly<Record<string, DeviceInventory>> = {
    'is published for another Service': { services: [other({ status: publishOf('10.9.0.1') })] },
    'is published by others': { services: [makeService('apps/b', { status: publish('10.9.0.1') })] },
    'is on this device for another Service': { deviceBalancers: [makeBalancer('d', 'apps/b')] },
    'is on another device': { deviceBalancers: [makeBalancer('e', 'apps/b', { deviceStatus: 'unknown' })] },
    'is one that another Service asks for': { services: [other({ spec: { loadBalancerIP: '10.9.0.1' } })] },
    'is a virtual IP of nodes': { virtualIps: [makeVirtualIp('10.9.0.1', ['apps/b'])] },
  };
  test.each(Object.entries(taken))('that %s goes to nobody else', (_, inventory) => {
    expect(want({ inventory }).balancer?.addresses).toMatchObject([{ text: '10.9.0.2' }]);
    const asked = want({ inventory, spec: { loadBalancerIP: '10.9.0.1' }, metadata: late });
    expect(asked).toMatchObject({ balancer: null, problem: { reason: 'AddressTaken' } });
  });

  test('that a device may have which has not been read since this process leads goes to nobody', () => {
    const devices = [makeDevice('e', { addresses: ['10.9.0.0/31'] })];
    const spec = { loadBalancerIP: '10.9.0.1' };
    const nothing = { units: [], foreignChanges: [], draining: [], balancers: 0 };
    const read = { ...nothing, generation: 1, isReady: true, reason: '', message: '' };
    const choose = (inventory: DeviceInventory, given: Case = {}) => {
      const { balancer, problem } = want({ ...given, inventory: { devices, ...inventory } });
      return [balancer?.addresses[0]?.text, problem?.reason];
    };
    expect(choose({})).toEqual(['10.9.0.2', undefined]);
    expect(choose({}, { spec })).toEqual([undefined, 'WaitingForDevice']);
    expect(choose({ devices: [makeDevice('e', { addresses: ['10.9.0.0/24'] })] })).toEqual([
      undefined,
      'WaitingForDevice',
    ]);
    expect(choose({}, { spec, present: ['10.9.0.1'] })).toEqual(['10.9.0.1', undefined]);
    const deviceReports = [{ metadata: { name: 'e' }, ...read }];
    expect(choose({ deviceReports }, { spec })).toEqual(['10.9.0.1', undefined]);
  });

  const asked = { loadBalancerIP: '10.9.0.4' };
  const absent = { deviceBalancers: [makeBalancer('d', 'apps/b', { deviceStatus: 'absent' })] };
  test.each<[string, Case, string]>([
    ['is the first that is free', {}, '10.9.0.1'],
    ['stays, as the status has it', { status: publishOf('10.9.0.3') }, '10.9.0.3'],
    ['stays, as the device has it, whatever its ranges are', { present: ['10.8.0.1'] }, '10.8.0.1'],
    ['of nodes does not stay', { status: publish('10.9.0.3') }, '10.9.0.1'],
    ['that is asked for comes, also later', { present: ['10.9.0.1'], spec: asked }, '10.9.0.4'],
    ['of nothing any more is free', { inventory: absent }, '10.9.0.1'],
  ])('%s', (_, given, expected) => {
    expect(want(given)).toMatchObject({ balancer: { addresses: [{ text: expected }] }, problem: null });
  });

  test('that two ask for goes to the older one', () => {
    const ask = (day: number) => {
      const metadata = { creationTimestamp: `2026-01-0${day}T00:00:00Z` };
      return { spec: { loadBalancerIP: '10.9.0.1' }, metadata };
    };
    const choose = (day: number) => want({ ...ask(day), inventory: { services: [other(ask(2))] } }).problem;
    expect([choose(1), choose(3)]).toMatchObject([null, { reason: 'AddressTaken' }]);
  });

  test('that cannot be had leaves what is there as it is, with its endpoints', () => {
    const wanted = want({ ...onNodes(pods), present: ['10.9.0.1'], spec: { loadBalancerIP: '10.8.0.9' } });
    const balancer = { addresses: [{ text: '10.9.0.1' }] };
    expect(wanted).toMatchObject({ balancer, problem: { reason: 'OutsideDevice' } });
    expect(listMembers(wanted)).toBe('n1 2, n2 1');
  });

  test('that was given back is kept for its namespace for a minute: others get it where no other is free', () => {
    const cache = makeDeviceCache({ devices: [makeDevice('d')] });
    const bank = makeDeviceService('bank/pay', 'd', { status: publishOf('10.9.0.1') });
    cache.take('services', { key: 'bank/pay', after: bank });
    cache.take('services', { key: 'bank/pay', after: null });
    cache.view(0);
    const choose = (key: string, nowMs: number, spec: object = {}) => {
      const service = makeDeviceService(key, 'd', { spec } as never);
      const query = { service, device: makeDevice('d'), capabilities: whole, present: [], former: new Map() };
      const { balancer, problem } = toWanted({ ...query, nowMs }, cache.view(nowMs));
      return balancer?.addresses[0]?.text ?? problem?.reason;
    };
    const asked = { loadBalancerIP: '10.9.0.1' };
    expect(choose('bank/b', 0)).toBe('10.9.0.1');
    expect([choose('evil/a', 59_999), choose('evil/a', 60_000)]).toEqual(['10.9.0.2', '10.9.0.1']);
    expect(choose('evil/a', 59_999, asked)).toBe('AddressTaken');
    expect(choose('evil/a', 60_000, asked)).toBe('10.9.0.1');
    const others = ['10.9.0.2', '10.9.0.3', '10.9.0.4'];
    const taken = makeDeviceService('apps/c', 'd', { status: publishOf(...others) });
    cache.take('services', { key: 'apps/c', after: taken });
    expect(choose('evil/a', 1000)).toBe('10.9.0.1');
  });
});
