import { expect, test } from '@jest/globals';
import { nextEarlySlicesStep } from '../../../../controller/gates/early-slices-step.ts';
import { type EarlySlice } from '../../../../lib/services/early-slices.ts';
import { type Pod } from '../../../../lib/services/pods.ts';
import {
  makeEarlySlice,
  makeNode,
  makePod,
  makeService,
  makeStore,
  makeVirtualIp,
  nowMs,
} from '../../../support/fakes/service-objects.ts';

const service = makeService('apps/web', { spec: { selector: { app: 'web' } } });
const pods = ['10.1.0.1', '10.1.0.2'].map((ip, index) =>
  makePod(`apps/p${index}`, { status: { podIP: ip, podIPs: [{ ip }] } }),
);

function makeSlice(some: readonly Pod[], version: string, generation: number): EarlySlice {
  const world = makeStore({ services: [service], pods: some }).view(nowMs);
  const slice = makeEarlySlice(nextEarlySlicesStep('apps/web', world), version);
  return { ...slice, metadata: { ...slice.metadata, generation } };
}

const key = 'apps/web-vipnat-6d1f82980b-0';
const first = makeSlice(pods.slice(0, 1), '50', 1);
const both = makeSlice(pods, '51', 2);

test('an endpoint keeps the version that it came with, while the slice changes for others', () => {
  const { gates } = makeStore({ services: [service], pods, earlySlices: [first] });
  const affected = gates.changeSlice({ key, before: first, after: both });
  expect([...(gates.view.sliceToSince.get(key)?.values() ?? [])]).toEqual(['50', '51']);
  expect(affected.keys).toEqual([
    { kind: 'EarlySlices', namespace: 'apps', name: 'web' },
    { kind: 'Pod', namespace: 'apps', name: 'p1' },
  ]);
});

test('after a gap between two versions of a slice all its endpoints have the later one', () => {
  const { gates } = makeStore({ services: [service], pods, earlySlices: [first] });
  const later = { ...both, metadata: { ...both.metadata, generation: 3 } };
  gates.changeSlice({ key, before: first, after: later });
  expect([...(gates.view.sliceToSince.get(key)?.values() ?? [])]).toEqual(['51', '51']);
});

test('a pod is looked at when a Service that selects it comes, gets an address, changes its selector or goes', () => {
  const store = makeStore({ pods });
  const keys = [...pods.keys()].map((index) => ({ kind: 'Pod', namespace: 'apps', name: `p${index}` }));
  const isTold = (found: readonly object[]) =>
    keys.every((wanted) => found.some((one) => JSON.stringify(one) === JSON.stringify(wanted)));
  expect(isTold(store.changeService({ key: 'apps/web', before: null, after: service }).keys)).toBe(true);
  const virtualIp = makeVirtualIp('10.0.9.10', ['apps/web']);
  expect(isTold(store.changeVirtualIp({ key: '10.0.9.10', before: null, after: virtualIp }).keys)).toBe(true);
  const status = { ...virtualIp, status: {} };
  expect(isTold(store.changeVirtualIp({ key: '10.0.9.10', before: virtualIp, after: status }).keys)).toBe(
    false,
  );
  const other = makeService('apps/web', { spec: { selector: { app: 'x' } } });
  expect(isTold(store.changeService({ key: 'apps/web', before: service, after: other }).keys)).toBe(true);
  expect(store.view(nowMs).gates.podToServices.size).toBe(0);
  store.changeService({ key: 'apps/web', before: other, after: service });
  expect(isTold(store.changeService({ key: 'apps/web', before: service, after: null }).keys)).toBe(true);
  expect(store.view(nowMs).gates.serviceToPods.size).toBe(0);
});

test('what is gone leaves nothing behind', () => {
  const { gates } = makeStore({ services: [service], pods, earlySlices: [both] });
  for (const pod of pods) gates.changePod({ key: `apps/${pod.metadata.name}`, before: pod, after: null });
  gates.changeSlice({ key, before: both, after: null });
  const { slices, serviceToPods, podToServices, serviceToSlices, sliceToSince } = gates.view;
  const maps = [gates.view.pods, slices, serviceToPods, podToServices, serviceToSlices, sliceToSince];
  expect(maps.map(({ size }) => size)).toEqual([0, 0, 0, 0, 0, 0]);
});

test('a pod is of the Services whose whole selector it has', () => {
  const services = [
    makeService('apps/a', { spec: { selector: { app: 'web', tier: 'front' } } }),
    makeService('apps/b', { spec: { selector: { tier: 'front' } } }),
    makeService('apps/c', { spec: { selector: {} } }),
    makeService('infra/d', { spec: { selector: { app: 'web' } } }),
    makeService('apps/e', { spec: { selector: { app: 'web' }, type: 'ClusterIP' } }),
  ];
  const pod = makePod('apps/p', { metadata: { labels: { tier: 'front' } } });
  const { gates } = makeStore({ services, pods: [pod] });
  expect([...(gates.view.podToServices.get('apps/p') ?? [])]).toEqual(['apps/b']);
  const after = makePod('apps/p', { metadata: { labels: { tier: 'front', app: 'web' } } });
  gates.changePod({ key: 'apps/p', before: pod, after });
  expect([...(gates.view.podToServices.get('apps/p') ?? [])]).toEqual(['apps/b', 'apps/a']);
});

test('early EndpointSlices are looked at when a node of their pods gets another zone', () => {
  const node = makeNode('w1');
  const store = makeStore({ services: [service], pods, nodes: [node] });
  const listSlices = (after: typeof node) =>
    store.changeNode({ key: 'w1', before: node, after }).keys.filter(({ kind }) => kind === 'EarlySlices');
  const zone = { 'topology.kubernetes.io/zone': 'b' };
  expect(listSlices(makeNode('w1', zone))).toEqual([{ kind: 'EarlySlices', namespace: 'apps', name: 'web' }]);
  expect(store.changeNode({ key: 'w9', before: null, after: makeNode('w9', zone) }).keys).not.toContainEqual(
    expect.objectContaining({ kind: 'EarlySlices' }),
  );
  expect(listSlices(makeNode('w1', { a: 'b' }))).toEqual([]);
});

test('a pod is looked at when a Service says that it gets no address', () => {
  const store = makeStore({ services: [service], pods });
  const conditions = [{ type: 'vipnat.io/AddressReady', status: 'False', reason: 'NoAddress' }];
  const after = makeService('apps/web', {
    spec: { selector: { app: 'web' } },
    status: { conditions },
  });
  const { keys } = store.changeService({ key: 'apps/web', before: service, after });
  expect(keys).toContainEqual({ kind: 'Pod', namespace: 'apps', name: 'p0' });
  const again = { ...after, status: { ...after.status, loadBalancer: {} } };
  expect(store.changeService({ key: 'apps/web', before: after, after: again }).keys).toEqual([
    { kind: 'Service', namespace: 'apps', name: 'web' },
  ]);
});
