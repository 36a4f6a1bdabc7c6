import {
  makeService,
  publish,
  makeVirtualIp,
  nowMs,
  makePool,
  makePod,
} from '../../../support/fakes/service-objects.ts';
import {
  ago,
  makeSlice,
  makeNodeLease,
  makeObjects,
  makeServed,
  makeElection,
  makeEarly,
} from '../../../support/fakes/service-view.ts';
import { makeDeviceService, makeDevice, publishOf } from '../../../support/fakes/device-objects.ts';
import type { ServiceObjects } from '../../../../cli/services/view.ts';
import { viewServices, isInTrouble } from '../../../../cli/services/read-view.ts';
import { describe, test, expect } from '@jest/globals';
import { readTable } from '../../../support/doctor/well-host.ts';
import { listGateWaits } from '../../../../cli/doctor/services-facts.ts';
import { makeCluster, tellServices, wellBut } from '../../../support/doctor/services-host.ts';

const key = 'shop/web';
const published = makeService(key, { status: publish('10.0.9.10') });
const waiting = makeService(key, { metadata: { creationTimestamp: ago(60), finalizers: [] } });
const virtualIps = [makeVirtualIp('10.0.9.10', [key])];
const slices = [makeSlice(key, [['ready', 'w1']])];
const works = { services: [published], virtualIps, slices };
const onDevice = { services: [makeDeviceService(key, 'edge')] };
const edge = makeDevice('edge', {}, {}, {});
const w1 = (parts = {}) => makeNodeLease('w1', 2, { seats: ['pool/0'], ...parts });

function withCondition(condition: object, status: object = {}) {
  const ready = { type: 'vipnat.io/AddressReady', lastTransitionTime: ago(120), ...condition };
  return makeService(key, { status: { ...status, conditions: [ready] } });
}

const refuse = (reason: string, message: string, status = {}) => ({
  services: [withCondition({ status: 'False', reason, message }, status)],
});
const sliceOf = (...endpoints: Parameters<typeof makeSlice>[1]) => ({ slices: [makeSlice(key, endpoints)] });
const seats = { seats: ['pool/0'] };
const local = makeService(key, { spec: { externalTrafficPolicy: 'Local' }, status: publish('10.0.9.10') });

/** Pods are on w2 and w3, and these nodes do not answer the holder. */
const behind = (...nodes: readonly string[]) => ({
  ...sliceOf(['ready', 'w2'], ['ready', 'w3']),
  leases: [makeElection(), w1({ unresponsive: nodes.map((node) => ({ node, since: ago(30) })) })],
});

/** By the reason that is found: what the API has of a Service that does not work. */
const causes: Readonly<Record<string, Partial<ServiceObjects>>> = {
  PoolExhausted: refuse('PoolExhausted', 'No address is free.'),
  AddressInUse: { ...works, ...refuse('AddressInUse', 'Another host answers.', publish('10.0.9.10')) },
  NoClass: {
    services: [makeService(key, { metadata: { finalizers: [] }, spec: { loadBalancerClass: null } })],
  },
  NoController: { services: [waiting], leases: [makeElection(60)] },
  'NoController, as it has ended': { services: [waiting], leases: [makeElection(0, '')] },
  NoPool: { services: [waiting], pools: [] },
  NotSeen: { services: [waiting] },
  WaitingForNodes: { services: [waiting], virtualIps: [makeVirtualIp('10.0.9.10', [key], { status: {} })] },
  NotAnnounced: { services: [waiting], virtualIps },
  NoSeatHolder: { services: [waiting], virtualIps, leases: [makeElection(), w1({ seats: [] })] },
  NoLivingNode: {
    services: [waiting],
    virtualIps,
    leases: [makeElection(), makeNodeLease('w1', 41), makeNodeLease('w9')],
  },
  NoVirtualIP: { ...works, virtualIps: [] },
  'NoSeatHolder, once it had one': { ...works, leases: [makeElection(), w1({ seats: ['pool/1'] })] },
  'NoLivingNode, once it had one': { ...works, leases: [makeElection(), makeNodeLease('w1', 41, seats)] },
  TwoSeatHolders: { ...works, leases: [makeElection(), w1(), makeNodeLease('w2', 1, seats)] },
  NodesUnresponsive: { ...works, ...behind('w2', 'w3') },
  NoDevice: { ...onDevice, devices: [makeDevice('other')] },
  DeviceNotReady: {
    ...onDevice,
    devices: [makeDevice('edge', {}, {}, { status: 'False', message: 'No route.' })],
  },
  'NoEndpoints, of a device': {
    services: [makeDeviceService(key, 'edge', { status: publishOf('10.9.0.1') })],
    devices: [edge],
  },
  NoEndpoints: { ...works, slices: [] },
  NoReadyPod: { ...works, ...sliceOf(['not ready', 'w1'], ['ending', 'w2']) },
};

function judge(parts: Partial<ServiceObjects>) {
  const view = viewServices(makeObjects(parts), nowMs);
  return { ...view.services[0], isTrouble: isInTrouble(view) };
}

describe('a Service', () => {
  test('works where its status has the address, one node holds it, and a pod is ready', () => {
    const message = '10.0.9.10: all nodes of the pool serve it.';
    const condition = { status: 'True', reason: 'Ready', message };
    const services = [withCondition(condition, publish('10.0.9.10'))];
    expect(judge({ ...works, services })).toMatchObject({
      ...{ state: 'ready', reason: 'Ready', why: null, since: ago(120), isTrouble: false },
    });
  });

  const outside = { status: 'True', reason: 'OutsidePool', message: 'The Service keeps it.' };
  const said = [withCondition(outside, publish('10.0.9.10'))];
  test.each<[string, Partial<ServiceObjects>, object]>([
    ['and says what its condition has to say', { services: said }, { why: 'The Service keeps it' }],
    ['while one node with its pods answers', behind('w2'), { why: null }],
    [
      'of policy Local, with pods of other nodes only',
      { services: [local], ...sliceOf(['ready', 'w2']) },
      {},
    ],
    ['while its last pod still answers, which ends', sliceOf(['serving', 'w1']), { why: null }],
    ['while no controller leads, a trouble', { leases: [makeElection(16), w1()] }, { isTrouble: true }],
  ])('works %s', (_, parts, found) => {
    expect(judge({ ...works, ...parts })).toMatchObject({ state: 'ready', ...found });
  });

  test.each(
    readTable(`
      PoolExhausted   | pending    | No address is free
      AddressInUse    | not served | Another host answers
      NoClass         | pending    | loadBalancerClass: vipnat.io/lb
      NoController    | pending    | no controller leads
      NoController, as it has ended | pending | no controller leads
      NoPool          | pending    | no AddressPool
      NotSeen         | pending    | not given it an address yet
      WaitingForNodes | pending    | 10.0.9.10: nodes have not
      NotAnnounced    | pending    | 10.0.9.10: no interface of w1 has it yet
      NoSeatHolder    | pending    | no node holds 10.0.9.10 (seat pool/0)
      NoLivingNode    | pending    | no balancer lives on a node that may hold it: w1, w2
      NoVirtualIP     | not served | 10.0.9.10 has no VirtualIP
      NoSeatHolder, once it had one | not served | no node holds 10.0.9.10 (seat pool/0)
      NoLivingNode, once it had one | not served | 10.0.9.10: no balancer lives
      TwoSeatHolders  | not served | w1 and w2 both hold 10.0.9.10
      NodesUnresponsive | not served | 10.0.9.10: no node with its pods answers w1, so all stay in use: w2, w3
      NoDevice        | pending    | there is no LoadBalancerDevice edge
      DeviceNotReady  | pending    | the device edge is not ready: No route
      NoEndpoints, of a device | no pods | it has no selector
      NoEndpoints     | no pods    | it has no selector
      NoReadyPod      | no pods    | none of its 2 pods is ready`),
  )('does not work: %s', (cause, state, why) => {
    expect(judge(causes[cause] ?? {})).toMatchObject({
      ...{ state, reason: cause.split(',')[0], why: expect.stringContaining(why), isTrouble: true },
    });
  });

  test('that a device gives up is leaving, and says why that cannot end', () => {
    const metadata = { deletionTimestamp: ago(5) };
    const ending = makeDeviceService(key, 'edge', { metadata });
    expect(judge({ services: [ending], devices: [edge] })).toMatchObject({
      ...{ state: 'leaving', why: 'the device edge gives it up', isTrouble: false },
    });
    const said = { status: 'False', reason: 'NoDevice', message: 'No edge.' };
    const conditions = [{ type: 'vipnat.io/AddressReady', ...said }];
    const stuck = makeDeviceService(key, 'edge', { metadata, status: { conditions } });
    expect(judge({ services: [stuck] })).toMatchObject({ state: 'leaving', why: 'No edge' });
  });

  test.each([
    { metadata: { deletionTimestamp: ago(5) } },
    { spec: { type: 'ClusterIP', loadBalancerClass: null } },
    { spec: { loadBalancerClass: 'example.com/other' } },
  ])('is leaving, which is no trouble: %j', (parts) => {
    expect(judge({ services: [makeService(key, parts)], virtualIps })).toMatchObject({
      ...{ state: 'leaving', why: 'nodes withdraw its address', isTrouble: false },
    });
    const old = { programmed: { virtualips: '19', services: '10' } };
    const services = [makeService(key, parts)];
    const behind = { services, virtualIps, leases: [makeElection(), w1(), makeNodeLease('w2', 2, old)] };
    expect(judge(behind)).toMatchObject({ why: 'nodes withdraw its address: w2' });
    expect(judge({ ...behind, leases: [w1()] })).toMatchObject({
      why: 'no controller leads, so its finalizer stays',
    });
  });

  test.each([
    ['of another class', { spec: { loadBalancerClass: 'example.com/other' } }],
    ['of another one without a class', { spec: { loadBalancerClass: null }, status: publish('1.2.3.4') }],
    ['of another type', { spec: { type: 'NodePort', loadBalancerClass: null } }],
  ])('%s is not listed', (_, parts) => {
    const services = [makeService(key, { metadata: { finalizers: [] }, ...parts })];
    expect(viewServices(makeObjects({ services }), nowMs).services).toEqual([]);
  });

  test('of two families has the pods of one, each once for all its slices', () => {
    const { slices: both } = sliceOf(['ready', 'w1'], ['ready', 'w2']);
    const all = [...both, makeSlice(key, [['ready', 'w1']], { family: 'IPv6' })];
    expect(judge({ ...works, slices: [...all, ...all] }).pods).toHaveLength(2);
  });

  test('is judged by its own VirtualIP, not by that of a former Service of its name', () => {
    const former = makeVirtualIp('10.0.9.10', [], {
      spec: { services: [{ namespace: 'shop', name: 'web', uid: 'x' }] },
    });
    expect(judge({ ...works, virtualIps: [former] })).toMatchObject({ reason: 'NoVirtualIP' });
  });
});

test('a pool that is gone has no seat for the address', () => {
  expect(judge({ ...works, pools: [makePool('other', { addresses: [] })] })).toMatchObject({
    ...{ state: 'ready', addresses: [{ seat: 'pool/0', nodes: [], seatHolders: [{ node: 'w1' }] }] },
  });
});

const ready = (seconds: number) => ({
  ...{ type: 'ContainersReady', status: 'True', lastTransitionTime: ago(seconds) },
});

/** A pod whose containers have been ready for so long; the second of its Service unless it has none. */
function makeWaiting(name: string, seconds: number, address = '10.244.0.2') {
  return makePod(`default/${name}`, {
    metadata: { creationTimestamp: ago(seconds + 5) },
    status: { podIP: address, podIPs: [{ ip: address }], conditions: [ready(seconds)] },
  });
}

async function tellOf(pods: ServiceObjects['pods'], parts: Partial<ServiceObjects> = {}) {
  const given = makeServed(
    [
      ['ready', 'w1'],
      ['not ready', 'w2'],
    ],
    {
      earlySlices: [makeEarly('default/x', [2], '30')],
      leases: [makeElection(), w1({ programmed: { earlyslices: '29' } })],
      ...parts,
    },
  );
  const gateWaits = { value: listGateWaits(given, pods, nowMs) };
  const cluster = { value: makeCluster(given) };
  const all = await tellServices(wellBut({ cluster, poolUsers: { value: new Map() }, gateWaits }));
  return all.filter(({ code, level }) => code === 'pod-waits-for-gate' && level !== 'ok');
}

describe('pod-waits-for-gate', () => {
  test('names pods that have waited for more than a minute, and the nodes that have not reported them', async () => {
    const [told, ...others] = await tellOf([makeWaiting('pod-2', 130), makeWaiting('late', 61, '10.9.9.9')]);
    expect(others).toEqual([]);
    expect(told).toMatchObject({
      ...{ code: 'pod-waits-for-gate', level: 'warn' },
      title: '2 pods wait for a readiness gate: default/pod-2 (2m10s), default/late (1m01s)',
      why: expect.stringContaining('have not reported that they send connections to the pod: w1.'),
    });
  });

  test('without a controller says that no gate opens, and only has what prints', async () => {
    const leases = [makeElection(100), makeNodeLease('w1')];
    const told = await tellOf([makeWaiting('pod-2', 3600)], { leases, earlySlices: [] });
    expect(told).toMatchObject([
      {
        ...{ code: 'pod-waits-for-gate', why: expect.stringContaining('No controller leads') },
        remedy: [
          expect.stringMatching(/^# /),
          expect.stringMatching(/^# .*docs\/services-operate\.md says how kubectl opens the gates$/),
        ],
      },
    ]);
  });

  test('says nothing of pods that wait for less, end, are open, or wait for others', async () => {
    const open = { ...ready(100), type: 'vipnat.io/load-balancer-ready' };
    const foreign = [
      { conditionType: 'example.com/gate' },
      { conditionType: 'vipnat.io/load-balancer-ready' },
    ];
    const pods = [
      makeWaiting('short', 59),
      makePod('default/ends', { metadata: { creationTimestamp: ago(99), deletionTimestamp: ago(80) } }),
      makePod('default/open', { status: { conditions: [ready(100), open] } }),
      makePod('default/foreign', { spec: { readinessGates: foreign }, status: { conditions: [ready(100)] } }),
      makePod('default/starts', { status: { conditions: [{ ...ready(100), status: 'False' }] } }),
    ];
    expect(await tellOf(pods)).toEqual([]);
  });
});
