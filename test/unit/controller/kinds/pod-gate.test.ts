import {
  gatedSelector,
  gatedService,
  makeGated,
  makeEarlyReport,
} from '../../../support/fakes/gated-pods.ts';
import {
  nowMs,
  makePod,
  makeNode,
  makeService,
  makeVirtualIp,
  type Inventory,
  publish,
  makeReport,
} from '../../../support/fakes/service-objects.ts';
import { describe, test, expect } from '@jest/globals';
import { timeoutMs, pod as podKind } from '../../../../controller/kinds/pod-gate.ts';
import type { Pod } from '../../../../lib/api/endpoints.ts';
import { nodes } from '../../../../lib/api/node.ts';

const selector = gatedSelector;
const service = gatedService;
const gateType = 'vipnat.io/load-balancer-ready';

/** A Service that can get no further address says so. */
const judged = { conditions: [{ type: 'vipnat.io/AddressReady', status: 'False', reason: 'NoAddress' }] };
const condition = (type: string, status: string, ms = nowMs - 60_000) => {
  return { type, status, lastTransitionTime: new Date(ms).toISOString() };
};

describe('a gate waits', () => {
  test('until every node that may hold the address has programmed the slice', () => {
    expect(decide(makePod('apps/p'))).toEqual({
      does: 'wait',
      waitsFor: 'nodes',
      why: 'nodes do not send connections to the pod yet',
      untilMs: nowMs - 60_000 + timeoutMs,
    });
    expect(decide(makePod('apps/p'), { reports: all })).toMatchObject({ does: 'write' });
  });

  test('for no node that may not hold it', () => {
    const excluded = makeNode('w2', { 'node.kubernetes.io/exclude-from-external-load-balancers': '' });
    expect(decide(makePod('apps/p'), { nodes: [makeNode('w1'), excluded] })).toMatchObject({ does: 'write' });
  });

  test('while no node lives, and while no slice has it', () => {
    for (const more of [{ reports: [] }, { reports: all, earlySlices: [] }]) {
      expect(decide(makePod('apps/p'), more)).toMatchObject({ does: 'wait', waitsFor: 'nodes' });
      const message =
        'After 10 minutes the gate opens, although no node reports that it sends connections to the pod.';
      const conditions = [condition('ContainersReady', 'True', nowMs - timeoutMs)];
      const late = makePod('apps/p', {
        metadata: { creationTimestamp: new Date(nowMs - timeoutMs).toISOString() },
        status: { conditions },
      });
      expect(decide(late, more)).toMatchObject({ event: { reason: 'GateTimedOut', message } });
    }
  });

  test('while the pod is about to be evicted', () => {
    const conditions = [condition('ContainersReady', 'True'), condition('DisruptionTarget', 'True')];
    const evicted = makePod('apps/p', { status: { conditions } });
    expect(decide(evicted, { reports: all })).toMatchObject({ does: 'wait', waitsFor: 'nodes' });
  });

  test('for the address of a Service that has just been made', () => {
    const without = { virtualIps: [], reports: all };
    expect(decide(makePod('apps/p'), without)).toMatchObject({ does: 'wait', waitsFor: 'nodes' });
    const conditions = [condition('ContainersReady', 'True', nowMs - timeoutMs)];
    const message = 'After 10 minutes the gate opens, although the Service apps/web has no address yet.';
    const late = makePod('apps/p', {
      metadata: { creationTimestamp: new Date(nowMs - timeoutMs).toISOString() },
      status: { conditions },
    });
    expect(decide(late, without)).toMatchObject({ event: { reason: 'GateTimedOut', message } });
  });

  test('for each of its Services, and each of their addresses', () => {
    const second = makeService('apps/other', { spec: { selector } });
    const virtualIps = ['10.0.9.10', '10.0.9.11'].map((ip, index) =>
      makeVirtualIp(ip, [index === 0 ? 'apps/web' : 'apps/other']),
    );
    // There is no slice of the second one.
    expect(decide(makePod('apps/p'), { services: [service, second], virtualIps, reports: all }).does).toBe(
      'wait',
    );
    const served = [makeVirtualIp('10.0.9.10', ['apps/web']), makeVirtualIp('10.0.9.11', ['apps/web'])];
    expect(decide(makePod('apps/p'), { virtualIps: served, reports: all }).does).toBe('write');
  });

  test('for the containers, and for gates of others', () => {
    const gates = { readinessGates: [{ conditionType: gateType }, { conditionType: 'a.example/warm' }] };
    const pods = [
      makePod('apps/p', { status: { conditions: [condition('ContainersReady', 'False')] } }),
      makePod('apps/p', { status: { conditions: [] } }),
      makePod('apps/p', { spec: gates }),
      makePod('apps/p', { metadata: { deletionTimestamp: '2027-01-15T08:00:00Z' } }),
    ];
    for (const pod of pods) expect(decide(pod, { reports: all })).toEqual({ does: 'nothing' });
    const conditions = [condition('ContainersReady', 'True'), condition('a.example/warm', 'True')];
    expect(decide(makePod('apps/p', { spec: gates, status: { conditions } }), { reports: all }).does).toBe(
      'write',
    );
  });
});

describe('a gate opens', () => {
  test('with the words of the seed, and changes no condition of others', () => {
    expect(decide(makePod('apps/p'), { reports: all })).toEqual({
      does: 'write',
      event: null,
      write: {
        method: 'PATCH',
        isStrategic: true,
        path: '/api/v1/namespaces/apps/pods/p/status',
        kind: 'Pod',
        key: 'apps/p',
        confirm: [],
        body: {
          metadata: { uid: 'uid of apps/p', resourceVersion: '30' },
          status: {
            conditions: [
              {
                type: gateType,
                status: 'True',
                reason: 'LBHealthy',
                message: 'LB synced successfully',
                lastTransitionTime: '2027-01-15T08:00:00Z',
              },
            ],
          },
        },
      },
    });
  });

  const readReason = (pod: Pod, more: Inventory = {}) => {
    const step = decide(pod, more);
    if (step.does !== 'write') return step.does;
    const { conditions } = (step.write.body as { status: { conditions: { reason: string }[] } }).status;
    return conditions.map(({ reason }) => reason).join();
  };

  test.each<[string, Inventory]>([
    [
      'no Service selects the pod',
      { services: [makeService('apps/web', { spec: { selector: { app: 'x' } } })] },
    ],
    ['the Service has no selector', { services: [makeService('apps/web')] }],
    ['the Service is of another namespace', { services: [makeService('infra/web', { spec: { selector } })] }],
    [
      'the Service says that it gets no address',
      { services: [makeService('apps/web', { spec: { selector }, status: judged })], virtualIps: [] },
    ],
    [
      'the Service is of another class',
      { services: [makeService('apps/web', { spec: { selector, loadBalancerClass: 'x/y' } })] },
    ],
    [
      'the Service is being deleted',
      {
        services: [
          makeService('apps/web', {
            spec: { selector },
            metadata: { deletionTimestamp: '2027-01-15T08:00:00Z' },
          }),
        ],
      },
    ],
    [
      'no container has the port',
      {
        services: [makeService('apps/web', { spec: { selector, ports: [{ port: 80, targetPort: 'web' }] } })],
      },
    ],
    [
      'the pod has no address of the family',
      {
        services: [makeService('apps/web', { spec: { selector }, status: judged })],
        virtualIps: [makeVirtualIp('fd00::10', ['apps/web'])],
      },
    ],
  ])('at once where %s', (_, more) => {
    expect(readReason(makePod('apps/p'), more)).toBe('NoService');
  });

  test('not while a VirtualIP is made again that somebody deleted', () => {
    const ready = { type: 'vipnat.io/AddressReady', status: 'True', reason: 'Ready' };
    const status = { ...publish('10.0.9.10'), conditions: [ready] };
    const services = [makeService('apps/web', { spec: { selector }, status })];
    expect(readReason(makePod('apps/p'), { services, virtualIps: [] })).toBe('wait');
  });

  test('after ten minutes anyway, counted from when the containers were ready, with an event', () => {
    const since = (ms: number, createdMs = ms) =>
      makePod('apps/p', {
        metadata: { creationTimestamp: new Date(createdMs).toISOString() },
        status: { conditions: [condition('ContainersReady', 'True', ms)] },
      });
    expect(readReason(since(nowMs - timeoutMs + 1))).toBe('wait');
    expect(readReason(since(nowMs - timeoutMs))).toBe('Timeout');
    // A kubelet whose date is behind, and ones whose date is ahead, far and a little.
    expect(readReason(since(nowMs - 2 * timeoutMs, nowMs - 60_000))).toBe('wait');
    expect(readReason(since(nowMs + 3_600_000, nowMs - timeoutMs))).toBe('Timeout');
    expect(readReason(since(nowMs + 3000, nowMs - timeoutMs))).toBe('wait');
    const step = decide(since(nowMs - timeoutMs));
    expect(step.does === 'write' ? step.event : null).toEqual({
      type: 'Warning',
      reason: 'GateTimedOut',
      message: 'After 10 minutes the gate opens, although nodes do not send connections to the pod yet: w2.',
    });
  });

  test('once: not again when containers were not ready meanwhile', () => {
    const open = condition(gateType, 'True');
    const pod = makePod('apps/p', { status: { conditions: [condition('ContainersReady', 'True'), open] } });
    expect(decide(pod)).toEqual({ does: 'nothing' });
  });
});

test('a pod waits for the version that has it, and not for later ones of the same slice', () => {
  const world = makeGated(makePod('apps/p'), { reports: all });
  const [slice] = world.earlySlices.values();
  expect([...(world.sliceToSince.get('apps/web-vipnat-6d1f82980b-0')?.values() ?? [])]).toEqual(['50']);
  expect(slice?.metadata.resourceVersion).toBe('50');
});

const decide = (pod: Pod, more: Inventory = {}) => podKind.next('apps/p', makeGated(pod, more));
const all = [makeEarlyReport('w1', '50'), makeEarlyReport('w2', '51')];

describe('of nodes, a gate waits', () => {
  test('for no balancer that does not follow early EndpointSlices, unless it has not begun', () => {
    const old = makeReport('w2', 99, {
      programmed: { virtualips: '99', services: '99', endpointslices: '99' },
    });
    const starting = makeReport('w2', 99, { programmed: {} });
    const [first = makeEarlyReport('w1', '50')] = all;
    const readReasonWith = (reports: typeof all) => {
      const step = decide(makePod('apps/p'), { reports });
      return step.does === 'write' ? JSON.stringify(step.write.body) : step.does;
    };
    expect(readReasonWith([first, old])).toContain('"LBHealthy"');
    expect(readReasonWith([makeEarlyReport('w1', '49'), old])).toBe('wait');
    expect(readReasonWith([first, starting])).toBe('wait');
    expect(readReasonWith([old])).toContain('"NotFollowed"');
  });

  test('for a node that is cordoned, and not for one that is deleted or whose Lease is over', () => {
    const cordoned = nodes.schema.parse({
      metadata: { name: 'w2', uid: 'w2', resourceVersion: '2', labels: {} },
      // As of `kubectl cordon`: its balancer stays, and so do its addresses.
      spec: {
        unschedulable: true,
        taints: [{ key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' }],
      },
      status: { addresses: [] },
    });
    expect(decide(makePod('apps/p'), { nodes: [makeNode('w1'), cordoned] })).toMatchObject({ does: 'wait' });
    expect(decide(makePod('apps/p'), { nodes: [makeNode('w1')] })).toMatchObject({ does: 'write' });
    expect(decide(makePod('apps/p'), { unresponsive: ['w2'] })).toMatchObject({ does: 'write' });
  });

  test('for no node that goes back to a version without early EndpointSlices in the middle of a rollout', () => {
    const waiting = { reports: [makeEarlyReport('w1', '50'), makeEarlyReport('w2', '49')] };
    expect(decide(makePod('apps/p'), waiting)).toMatchObject({ does: 'wait' });
    const older = makeReport('w2', 99, {
      programmed: { virtualips: '99', services: '99', endpointslices: '99' },
    });
    expect(decide(makePod('apps/p'), { reports: [makeEarlyReport('w1', '50'), older] })).toMatchObject({
      does: 'write',
    });
  });
});
