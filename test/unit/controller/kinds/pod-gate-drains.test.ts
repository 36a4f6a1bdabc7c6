import {
  nowMs,
  makePod,
  makeCache,
  makeService,
  makeVirtualIp,
  makePool,
  makeNode,
  makeEarlySlice,
} from '../../../support/fakes/service-objects.ts';
import { gateType } from '../../../../lib/api/vipnat.ts';
import type { Pod, EarlySlice } from '../../../../lib/api/endpoints.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import type { Cache } from '../../../../controller/cache/cache.ts';
import { DrainTimes } from '../../../../controller/kinds/pod-gate.ts';
import { makeEarlyReport } from '../../../support/fakes/gated-pods.ts';
import { beforeEach, describe, test, expect } from '@jest/globals';
import { earlySliceKind } from '../../../../controller/kinds/endpoints.ts';
import type { NodeReport } from '../../../../lib/api/node.ts';

const selector = { app: 'web' };
const since = new Date(nowMs - 3_600_000).toISOString();
const conditions = ['ContainersReady', gateType].map((type) => ({
  ...{ type, status: 'True', lastTransitionTime: since },
}));
const running = makePod('apps/p', { status: { conditions } });
const ending: Pod = { ...running, metadata: { ...running.metadata, deletionTimestamp: since } };
const key = 'apps/p';

let clock: FakeClock;
let cache: Cache;
let drains: DrainTimes;
let times: number[];

/** An hour after its gate has opened, no early EndpointSlice has the pod. */
function start(names = ['web'], spec: object = {}): void {
  clock = new FakeClock();
  times = [];
  cache = makeCache({
    services: names.map((name) => makeService(`apps/${name}`, { spec: { selector, ...spec } })),
    virtualIps: names.map((name, index) => makeVirtualIp(`10.0.9.1${index}`, [`apps/${name}`])),
    pools: [makePool('pool', { addresses: ['10.0.9.10-10.0.9.20'] })],
    nodes: [makeNode('w1'), makeNode('w2')],
    pods: [running],
    reports: [makeEarlyReport('w1', '49'), makeEarlyReport('w2', '49')],
  });
  drains = new DrainTimes({
    clock,
    view: () => cache.view(nowMs),
    onDrained: (seconds) => times.push(seconds),
  });
}

beforeEach(() => {
  start();
});

/** The pod is another one now, as its informer says. */
function change(after: Pod | null): void {
  const before = cache.view(nowMs).pods.get(key) ?? null;
  cache.take('pods', { key, after });
  drains.take({ key, before, after });
}

/** The controller writes that the pod ends, and its informer shows it. */
function write(version: string, service = 'apps/web'): void {
  const step = earlySliceKind.next(service, cache.view(nowMs));
  if (step.does !== 'write') throw new TypeError('nothing is written');
  const known = cache.view(nowMs).earlySlices.get(step.write.key);
  const metadata = { ...known?.metadata, resourceVersion: version, generation: 2 };
  const { endpoints } = step.write.body as unknown as Pick<EarlySlice, 'endpoints'>;
  const changed = known === undefined ? null : ({ ...known, endpoints, metadata } as EarlySlice);
  const after = changed ?? makeEarlySlice(step, version);
  cache.take('earlySlices', { key: `apps/${after.metadata.name}`, after });
  drains.sync();
}

function report(node: string, version: string, parts: Partial<NodeReport> = {}): void {
  cache.takeReport(node, { ...makeEarlyReport(node, version), ...parts });
  drains.sync();
}

describe('the time until no node sends new connections to a pod that ends', () => {
  test('runs from when its deletion was seen until the last living node has reported it', async () => {
    change(ending);
    await clock.advance(80);
    write('50');
    await clock.advance(100);
    report('w1', '50');
    await clock.advance(200);
    expect(times).toEqual([]);
    report('w2', '50');
    await clock.advance(20);
    expect(times).toEqual([0.4]);
    report('w2', '51');
    await clock.advance(60_000);
    expect(times).toEqual([0.4]);
  });

  test('waits for every Service that selects it, and for no node that is gone or older than early EndpointSlices', async () => {
    start(['web', 'api']);
    change(ending);
    write('50');
    report('w1', '90');
    report('w2', '0', { programmed: { virtualips: '99', endpointslices: '99' } });
    await clock.advance(1000);
    expect(times).toEqual([]);
    write('91', 'apps/api');
    await clock.advance(1000);
    expect(times).toEqual([]);
    report('w1', '91');
    await clock.advance(20);
    expect(times).toEqual([2.02]);
  });

  test('is none where pods are published that are not ready: they get connections until they are gone', async () => {
    start(['web'], { publishNotReadyAddresses: true });
    change(ending);
    write('50');
    for (const node of ['w1', 'w2']) report(node, '50');
    await clock.advance(120_000);
    drains.sync();
    await clock.advance(20);
    expect(times).toEqual([]);
  });

  test('is above all buckets where a node never reports, also if the pod is gone meanwhile', async () => {
    // Gates do not wait for it any more: it sends connections to the pod all the same.
    cache.markOverdue(new Map([['w2', '50']]));
    change(ending);
    write('50');
    report('w1', '50');
    await clock.advance(1000);
    change(null);
    await clock.advance(118_000);
    drains.sync();
    await clock.advance(500);
    expect(times).toEqual([]);
    await clock.advance(1000);
    drains.sync();
    await clock.advance(20);
    expect(times).toEqual([120.52]);
  });

  test.each<[string, (given: Pod) => Pod | null]>([
    ['went before the controller wrote that it ends', () => null],
    ['is another one of its name', (pod) => ({ ...pod, metadata: { ...pod.metadata, uid: 'other' } })],
  ])('is not told of a pod that %s', async (_, next) => {
    change(ending);
    await clock.advance(100);
    change(next(running));
    await clock.advance(300_000);
    drains.sync();
    await clock.advance(20);
    expect(times).toEqual([]);
    expect(clock.pending).toBe(0);
  });

  test('is not told of a pod without a gate that is evicted, and takes long to end', async () => {
    const disrupted = makePod(key, {
      spec: { readinessGates: [] },
      status: {
        conditions: ['ContainersReady', 'DisruptionTarget'].map((type) => ({
          ...{ type, status: 'True', lastTransitionTime: new Date(nowMs).toISOString() },
        })),
      },
    });
    change(disrupted);
    change({ ...disrupted, metadata: { ...disrupted.metadata, deletionTimestamp: since } });
    await clock.advance(300_000);
    drains.sync();
    await clock.advance(20);
    expect(times).toEqual([]);
  });

  test('is not told of a pod that was not ready, that was ending when it was seen first, or that no Service selects', async () => {
    const unready = makePod(key, { status: { conditions: [] } });
    change(unready);
    change({ ...unready, metadata: ending.metadata });
    drains.take({ key, before: null, after: ending });
    cache.take('services', { key: 'apps/web', after: null });
    change(running);
    change(ending);
    await clock.advance(300_000);
    drains.sync();
    await clock.advance(20);
    expect(times).toEqual([]);
    expect(clock.pending).toBe(0);
  });
});
