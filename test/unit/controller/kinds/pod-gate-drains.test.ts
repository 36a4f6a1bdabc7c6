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
import { describe } from '@jest/globals';
import { type Steps, testSteps, toChecks } from '../../steps.ts';
import { earlySliceKind } from '../../../../controller/kinds/endpoints.ts';
import type { NodeReport } from '../../../../lib/api/node.ts';

const selector = { app: 'web' };
const since = new Date(nowMs - 3_600_000).toISOString();
const conditions = ['ContainersReady', gateType].map((type) => ({
  ...{ type, status: 'True', lastTransitionTime: since },
}));
const running = makePod('apps/p', { status: { conditions } });
/** A pod without a gate that is about to be evicted. */
const disrupted = makePod('apps/p', {
  spec: { readinessGates: [] },
  status: {
    conditions: ['ContainersReady', 'DisruptionTarget'].map((type) => ({
      ...{ type, status: 'True', lastTransitionTime: new Date(nowMs).toISOString() },
    })),
  },
});
const pods = {
  ...{ running, disrupted, unready: makePod('apps/p', { status: { conditions: [] } }) },
  another: { ...running, metadata: { ...running.metadata, uid: 'other' } },
};
const find = (name: string): Pod => pods[name as keyof typeof pods];
const end = (pod: Pod): Pod => ({ ...pod, metadata: { ...pod.metadata, deletionTimestamp: since } });
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

function begin(...options: Parameters<typeof start>): Steps {
  start(...options);
  return {
    wait: (ms) => clock.advance(Number(ms)),
    is: (name) => {
      change(find(name));
    },
    ends: (name) => {
      change(end(find(name)));
    },
    gone: () => {
      change(null);
    },
    /** It is seen for the first time, as one that ends. */
    first: () => {
      drains.take({ key, before: null, after: end(running) });
    },
    /** `write 50 apps/web` */
    write: (text) => {
      const [version = '', service] = text.split(' ');
      write(version, service);
    },
    report: (text) => {
      const [node = '', version = ''] = text.split(' ');
      report(node, version);
    },
    /** Its balancer knows nothing of early EndpointSlices. */
    older: (node) => {
      report(node, '0', { programmed: { virtualips: '99', endpointslices: '99' } });
    },
    /** Gates do not wait for it any more: it sends connections to the pod all the same. */
    overdue: (node) => {
      cache.markOverdue(new Map([[node, '50']]));
    },
    unselect: () => {
      cache.take('services', { key: 'apps/web', after: null });
    },
    sync: () => {
      drains.sync();
    },
    ...toChecks({
      times: (seconds) => [times.join(' '), seconds],
      pending: (count) => [clock.pending, Number(count)],
    }),
  };
}

describe('the time until no node sends new connections to a pod that ends', () => {
  testSteps(begin, {
    'runs from when its deletion was seen until the last living node has reported it':
      'ends running; wait 80; write 50; wait 100; report w1 50; wait 200; times ; report w2 50; wait 20; times 0.4; ' +
      'report w2 51; wait 60000; times 0.4',
    'is above all buckets where a node never reports, also if the pod is gone meanwhile':
      'overdue w2; ends running; write 50; report w1 50; wait 1000; gone; wait 118000; sync; wait 500; times ; ' +
      'wait 1000; sync; wait 20; times 120.52',
    'is not told of a pod that went before the controller wrote that it ends':
      'ends running; wait 100; gone; wait 300000; sync; wait 20; times ; pending 0',
    'is not told of a pod that is another one of its name':
      'ends running; wait 100; is another; wait 300000; sync; wait 20; times ; pending 0',
    'is not told of a pod without a gate that is evicted, and takes long to end':
      'is disrupted; ends disrupted; wait 300000; sync; wait 20; times ',
    'is not told of a pod that was not ready, that was ending when it was seen first, or that no Service selects':
      'is unready; ends unready; first; unselect; is running; ends running; wait 300000; sync; wait 20; times ; pending 0',
  });

  testSteps(() => begin(['web', 'api']), {
    'waits for every Service that selects it, and for no node that is gone or older than early EndpointSlices':
      'ends running; write 50; report w1 90; older w2; wait 1000; times ; write 91 apps/api; wait 1000; times ; ' +
      'report w1 91; wait 20; times 2.02',
  });

  testSteps(() => begin(['web'], { publishNotReadyAddresses: true }), {
    'is none where pods are published that are not ready: they get connections until they are gone':
      'ends running; write 50; report w1 50; report w2 50; wait 120000; sync; wait 20; times ',
  });
});
