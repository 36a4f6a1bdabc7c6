import {
  readDrained,
  formatDrained,
  dropDrained,
  followedNodes,
  toLeaseName,
  type Lease,
  parseNodeLease,
  toAnnotations,
  listServices,
  isProgrammed,
} from '../../../../lib/api/node.ts';
import { describe, test, expect } from '@jest/globals';

const read = (text: string) =>
  readDrained({
    metadata: {
      ...{ name: 'default', uid: 'u', resourceVersion: '1', generation: 1 },
      annotations: { 'vipnat.io/drained': text },
    },
  });

describe('the nodes that a pool’s annotation drains', () => {
  test('are read as they are written, each once, in order', () => {
    const drained = read(' w2/0 ,w1,w2/0');
    expect(drained).toEqual([
      { node: 'w2', seat: 0 },
      { node: 'w1', seat: null },
      { node: 'w2', seat: 0 },
    ]);
    expect([formatDrained(drained), formatDrained([])]).toEqual(['w1,w2/0', null]);
  });

  test.each(['', ',', 'W1', 'w1/x', 'w1/', '/0', 'w1 w2'])('are none in %j', (text) => {
    expect(read(text)).toEqual([]);
  });

  const nodes = ['w1', 'w2', 'w3'];
  const isAble = () => true;

  test('hold no seat, or not the one that is named', () => {
    const drained = read('w1,w2/0');
    expect(dropDrained(nodes, { drained, seat: null, isAble })).toEqual(['w2', 'w3']);
    expect(dropDrained(nodes, { drained, seat: 0, isAble })).toEqual(['w3']);
    expect(dropDrained(nodes, { drained, seat: 1, isAble })).toEqual(['w2', 'w3']);
  });

  test.each([
    ['is left', 'w1,w2,w3', isAble],
    ['that is left lives', 'w1,w2', (node: string) => node !== 'w3'],
  ])('hold it all the same where nobody %s', (_, text, isLiving) => {
    expect(dropDrained(nodes, { drained: read(text), seat: 0, isAble: isLiving })).toEqual(nodes);
  });
});

const parse = (conditions: unknown, labels?: object) =>
  followedNodes.schema.parse({
    metadata: { name: 'w1', resourceVersion: '1', labels },
    status: { conditions },
  });
const say = (type: string, status: string, message?: string) => [
  { type: 'MemoryPressure', status: 'False', message: 'kubelet has sufficient memory available' },
  { type, status, ...(message === undefined ? {} : { message }) },
];

test.each([
  // As kubelets of 1.36 write it, alone and with another reason.
  [say('Ready', 'False', 'node is shutting down'), 'shuts down'],
  [say('Ready', 'False', '[container runtime is down, node is shutting down]'), 'shuts down'],
  [say('GracefulNodeShutdownInProgress', 'True'), 'shuts down'],
  [say('DrainInProgress', 'True', 'by an administrator'), 'is being drained'],
  [say('MaintenanceInProgress', 'True'), 'is in maintenance'],
])('pods of a node get no new connection: %j', (conditions, ending) => {
  expect(parse(conditions).ending).toBe(ending);
});

test.each([
  // A kubelet that starts again, and one that is silent.
  [say('Ready', 'False', 'container runtime status check may not have completed yet')],
  [say('Ready', 'Unknown', 'Kubelet stopped posting node status.')],
  [say('Ready', 'True', 'kubelet is posting ready status')],
  [say('Ready', 'False')],
  [say('DrainInProgress', 'Unknown')],
  [say('GracefulNodeShutdownInProgress', 'False', 'node is shutting down')],
  [say('MaintenancePlanned', 'True')],
  [say('Drained', 'True')],
  [say('constructor', 'True')],
  [[]],
  [undefined],
])('a node stays: %j', (conditions) => {
  expect(parse(conditions).ending).toBeNull();
});

test('it is silent when its kubelet stopped posting; its zone is that of its label', () => {
  expect(parse([], { 'topology.kubernetes.io/zone': 'a', other: 'b' }).zone).toBe('a');
  expect(parse([]).zone).toBeNull();
  expect(parse(say('Ready', 'Unknown', 'Kubelet stopped posting node status.')).isUnresponsive).toBe(true);
  expect(parse(say('Ready', 'False', 'node is shutting down')).isUnresponsive).toBe(false);
  expect(parse(undefined).isUnresponsive).toBe(false);
});

const report = {
  node: 'worker-1.example',
  programmed: { virtualips: '120', services: '99' },
  seats: [],
  mode: 'direct',
  inUse: [],
} as const;

const toLease = (annotations: Record<string, string>, name = toLeaseName(report.node)): Lease => ({
  metadata: { name, uid: 'u', resourceVersion: '7', generation: 0, annotations },
  spec: { leaseDurationSeconds: 40, renewTime: '2026-11-23T09:00:00.000000Z' },
});

describe('the report of a node in its Lease', () => {
  test('says of 16 Services at most that they are left to kube-proxy, or lose clients, with a clause that is not long', () => {
    const all = new Map(Array.from({ length: 40 }, (_, at) => [`default/s${40 - at}`, 'x'.repeat(9000)]));
    const read = parseNodeLease(
      toLease(toAnnotations({ ...report, ...listServices({ left: all, dropping: all }) })),
    );
    const { left = {}, dropping = {} } = read?.report ?? {};
    const [leaving, losing] = [Object.entries(left), Object.entries(dropping)];
    expect([leaving.length, leaving[0]]).toEqual([16, ['default/s1', 'x'.repeat(120)]]);
    expect([losing.length, losing[0]]).toEqual([16, ['default/s1', 'x'.repeat(240)]]);
    expect(listServices({ left: new Map(), dropping: new Map() })).toEqual({});
  });

  test('is of balancers alone', () => {
    expect(parseNodeLease(toLease({}, 'vipnat-controller'))).toBeNull();
  });

  test.each([
    ['nothing is there', {}],
    [
      'nothing can be read',
      {
        'vipnat.io/programmed': '{"services": 7}',
        'vipnat.io/seats': '["a", 1]',
        'vipnat.io/mode': 'relay',
        'vipnat.io/addresses-in-use': '[',
        'vipnat.io/cannot-hold': '["default/1"]',
      },
    ],
  ])('says nothing where %s', (_, annotations) => {
    expect(parseNodeLease(toLease(annotations as Record<string, string>))?.report).toEqual({
      node: report.node,
      programmed: {},
      seats: [],
      mode: 'none',
      inUse: [],
    });
  });

  test('has the versions up to the one that it says, and none where it says none, or no number', () => {
    const has = (version: string) => isProgrammed(report, 'virtualips', version);
    expect(['120', '99', '121', '1000'].map(has)).toEqual([true, true, false, false]);
    expect(isProgrammed({ programmed: {} }, 'services', '1')).toBe(false);
    expect(isProgrammed({ programmed: { services: 'x' } }, 'services', '1')).toBe(false);
  });
});
