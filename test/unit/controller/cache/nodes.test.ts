import {
  makeService,
  makePod,
  makeCache,
  nowMs,
  makeEarlySlice,
  makeVirtualIp,
  makeNode,
  makePool,
  makeReport,
} from '../../../support/fakes/service-objects.ts';
import type { Pod, EarlySlice } from '../../../../lib/api/endpoints.ts';
import { earlySliceKind as kind } from '../../../../controller/kinds/endpoints.ts';
import { test, expect } from '@jest/globals';
import { CandidateNodes } from '../../../../controller/cache/nodes.ts';

const service = makeService('apps/web', { spec: { selector: { app: 'web' } } });
const pods = ['10.1.0.1', '10.1.0.2'].map((ip, index) =>
  makePod(`apps/p${index}`, { status: { podIP: ip, podIPs: [{ ip }] } }),
);

function makeSlice(some: readonly Pod[], version: string, generation: number): EarlySlice {
  const world = makeCache({ services: [service], pods: some }).view(nowMs);
  const slice = makeEarlySlice(kind.next('apps/web', world), version);
  return { ...slice, metadata: { ...slice.metadata, generation } };
}

const key = 'apps/web-vipnat-6d1f82980b-0';
const first = makeSlice(pods.slice(0, 1), '50', 1);
const both = makeSlice(pods, '51', 2);

test('an endpoint keeps the version that it came with, while the slice changes for others', () => {
  const cache = makeCache({ services: [service], pods, earlySlices: [first] });
  const affected = cache.take('earlySlices', { key, after: both });
  expect([...(cache.view(nowMs).sliceToSince.get(key)?.values() ?? [])]).toEqual(['50', '51']);
  expect(affected.keys).toEqual([
    { kind: 'EarlySlices', key: 'apps/web' },
    { kind: 'Pod', key: 'apps/p1' },
  ]);
});

test('after a gap between two versions of a slice all its endpoints have the later one', () => {
  const cache = makeCache({ services: [service], pods, earlySlices: [first] });
  const later = { ...both, metadata: { ...both.metadata, generation: 3 } };
  cache.take('earlySlices', { key, after: later });
  expect([...(cache.view(nowMs).sliceToSince.get(key)?.values() ?? [])]).toEqual(['51', '51']);
});

test('a pod is looked at when a Service that selects it comes, gets an address, changes its selector or goes', () => {
  const cache = makeCache({ pods });
  const keys = [...pods.keys()].map((index) => ({ kind: 'Pod', key: `apps/p${index}` }));
  const isNotified = (found: readonly object[]) =>
    keys.every((wanted) => found.some((one) => JSON.stringify(one) === JSON.stringify(wanted)));
  expect(isNotified(cache.take('services', { key: 'apps/web', after: service }).keys)).toBe(true);
  const virtualIp = makeVirtualIp('10.0.9.10', ['apps/web']);
  expect(isNotified(cache.take('virtualIps', { key: '10.0.9.10', after: virtualIp }).keys)).toBe(true);
  const status = { ...virtualIp, status: {} };
  expect(isNotified(cache.take('virtualIps', { key: '10.0.9.10', after: status }).keys)).toBe(false);
  const other = makeService('apps/web', { spec: { selector: { app: 'x' } } });
  expect(isNotified(cache.take('services', { key: 'apps/web', after: other }).keys)).toBe(true);
  expect(cache.view(nowMs).podToServices.size).toBe(0);
  cache.take('services', { key: 'apps/web', after: service });
  expect(isNotified(cache.take('services', { key: 'apps/web', after: null }).keys)).toBe(true);
  expect(cache.view(nowMs).serviceToPods.size).toBe(0);
});

test('what is gone leaves nothing behind', () => {
  const cache = makeCache({ services: [service], pods, earlySlices: [both] });
  for (const pod of pods) cache.take('pods', { key: `apps/${pod.metadata.name}`, after: null });
  cache.take('earlySlices', { key, after: null });
  const view = cache.view(nowMs);
  const left = [view.pods, view.earlySlices, view.serviceToPods, view.podToServices];
  const sizes = [...left, view.serviceToSlices, view.sliceToSince].map(({ size }) => size);
  expect(sizes).toEqual([0, 0, 0, 0, 0, 0]);
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
  const cache = makeCache({ services, pods: [pod] });
  expect([...(cache.view(nowMs).podToServices.get('apps/p') ?? [])]).toEqual(['apps/b']);
  const after = makePod('apps/p', { metadata: { labels: { tier: 'front', app: 'web' } } });
  cache.take('pods', { key: 'apps/p', after });
  expect([...(cache.view(nowMs).podToServices.get('apps/p') ?? [])]).toEqual(['apps/b', 'apps/a']);
});

test('early EndpointSlices are looked at when a node of their pods gets another zone', () => {
  const node = makeNode('w1');
  const cache = makeCache({ services: [service], pods, nodes: [node] });
  const listSlices = (after: typeof node) =>
    cache.take('nodes', { key: 'w1', after }).keys.filter(({ kind }) => kind === 'EarlySlices');
  const zone = { 'topology.kubernetes.io/zone': 'b' };
  expect(listSlices(makeNode('w1', zone))).toEqual([{ kind: 'EarlySlices', key: 'apps/web' }]);
  expect(cache.take('nodes', { key: 'w9', after: makeNode('w9', zone) }).keys).not.toContainEqual(
    expect.objectContaining({ kind: 'EarlySlices' }),
  );
  expect(listSlices(makeNode('w1', { ...zone, a: 'b' }))).toEqual([]);
});

test('a pod is looked at when a Service says that it gets no address', () => {
  const cache = makeCache({ services: [service], pods });
  const conditions = [{ type: 'vipnat.io/AddressReady', status: 'False', reason: 'NoAddress' }];
  const after = makeService('apps/web', { spec: { selector: { app: 'web' } }, status: { conditions } });
  const { keys } = cache.take('services', { key: 'apps/web', after });
  expect(keys).toContainEqual({ kind: 'Pod', key: 'apps/p0' });
  const again = { ...after, status: { ...after.status, loadBalancer: {} } };
  expect(cache.take('services', { key: 'apps/web', after: again }).keys).toEqual([
    { kind: 'Service', key: 'apps/web' },
  ]);
});

/** Candidates of one pool: each node with the version that it is at, in the order in which they came. */
function createCandidates(nodeToVersion: Readonly<Record<string, number>>): CandidateNodes {
  const names = Object.keys(nodeToVersion);
  return new CandidateNodes({
    pools: new Map([['default', makePool('default', { addresses: ['10.0.9.10'] })]]),
    ...{ leases: new Map(), nodes: new Map(names.map((name) => [name, makeNode(name)])) },
    livingReports: new Map(names.map((name) => [name, makeReport(name, nodeToVersion[name] ?? 0)])),
  });
}

test('who is behind is named in order, whoever came first: a condition says the same all the time', () => {
  const orders = [
    { w1: 4, w2: 4, w3: 9, w4: 4 },
    { w4: 4, w3: 9, w2: 4, w1: 4 },
  ];
  for (const order of orders) {
    const candidates = createCandidates(order);
    expect(candidates.listBehind('default', '5')).toEqual(['w1', 'w2', 'w4']);
    expect(candidates.listNotForgotten('5')).toEqual(['w1', 'w2', 'w4']);
  }
});

test('all have a version when the last one has, and a pool without nodes has each', () => {
  const haveProgrammed = (nodes: Readonly<Record<string, number>>, version: string) =>
    createCandidates(nodes).haveProgrammed('default', 'virtualips', version);
  expect(['4', '5'].map((version) => haveProgrammed({ w1: 9, w2: 4 }, version))).toEqual([true, false]);
  expect(haveProgrammed({}, '5')).toBe(true);
});
