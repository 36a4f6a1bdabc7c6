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
  makePool,
  makeService,
  makeVirtualIp,
  type Inventory,
  publish,
  makeReport,
  makeCache,
} from '../../../support/fakes/service-objects.ts';
import { describe, test, expect } from '@jest/globals';
import { Engine } from '../../../../controller/engine.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { gateKinds } from '../../../../controller/leadership.ts';
import { TokenQueue } from '../../../../lib/queue.ts';
import type { ObjectWrite, WriteAnswer } from '../../../../lib/kubernetes/writes.ts';
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

const decide = (pod: Pod, more: Inventory = {}) => podKind.next('apps/p', makeGated(pod, more));
const all = [makeEarlyReport('w1', '50'), makeEarlyReport('w2', '51')];

/** `wait`, `nothing`, or why the gate opens. */
function judge(pod: Pod, more: Inventory = {}): string {
  const step = decide(pod, more);
  if (step.does !== 'write') return step.does;
  const { conditions } = (step.write.body as { status: { conditions: { reason: string }[] } }).status;
  return conditions.map(({ reason }) => reason).join();
}

/** The containers are ready since then. */
const since = (ms: number, createdMs = ms) =>
  makePod('apps/p', {
    metadata: { creationTimestamp: new Date(createdMs).toISOString() },
    status: { conditions: [condition('ContainersReady', 'True', ms), condition('Ready', 'False', nowMs)] },
  });

/** What is said when the gate opens anyway. */
function expectTimeout(more: Inventory, clause: string): void {
  const message = `After 10 minutes the gate opens, although ${clause}.`;
  const event = { type: 'Warning', reason: 'GateTimedOut', message };
  expect(decide(since(nowMs - timeoutMs), more)).toMatchObject({ event });
}

type Fields = Readonly<Record<string, unknown>>;

const withService = (
  key: string,
  spec: Fields,
  more: Partial<Record<'metadata' | 'status', Fields>> = {},
): Inventory => ({
  services: [makeService(key, { spec, ...more })],
});
const old = makeReport('w2', 99, { programmed: { virtualips: '99', services: '99', endpointslices: '99' } });
const excluded = makeNode('w2', { 'node.kubernetes.io/exclude-from-external-load-balancers': '' });
// As of `kubectl cordon`: its balancer stays, and so do its addresses.
const unschedulable = {
  unschedulable: true,
  taints: [{ key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' }],
};
const cordoned = nodes.schema.parse({
  metadata: { name: 'w2', uid: 'w2', resourceVersion: '2', labels: {} },
  ...{ spec: unschedulable, status: { addresses: [] } },
});
const early = (node: string, version: string) => makeEarlyReport(node, version);
const ips = (...keys: readonly string[]) => keys.map((key, at) => makeVirtualIp(`10.0.9.1${at}`, [key]));
const second = makeService('apps/other', { spec: { selector } });
const ready = { type: 'vipnat.io/AddressReady', status: 'True', reason: 'Ready' };
const published = { ...publish('10.0.9.10'), conditions: [ready] };

test.each<[string, Inventory, string]>([
  ['waits until every node that may hold the address has programmed the slice', {}, 'wait'],
  ['and opens then', { reports: all }, 'LBHealthy'],
  [
    'stays closed on a node that is silent',
    { nodes: [makeNode('w1', {}, undefined, 'Unknown'), makeNode('w2')], reports: all },
    'nothing',
  ],
  ['waits for no node that may not hold it', { nodes: [makeNode('w1'), excluded] }, 'LBHealthy'],
  [
    'waits for each of its Services: there is no slice of the second one',
    { services: [service, second], virtualIps: ips('apps/web', 'apps/other'), reports: all },
    'wait',
  ],
  [
    'waits for each of their addresses',
    { virtualIps: ips('apps/web', 'apps/web'), reports: all },
    'LBHealthy',
  ],
  ['waits for no balancer without early EndpointSlices', { reports: [early('w1', '50'), old] }, 'LBHealthy'],
  ['waits for the others beside it', { reports: [early('w1', '49'), old] }, 'wait'],
  [
    'waits for a balancer that has not begun',
    { reports: [early('w1', '50'), makeReport('w2', 99, { programmed: {} })] },
    'wait',
  ],
  ['opens where no balancer follows early EndpointSlices', { reports: [old] }, 'NotFollowed'],
  ['waits for a node that is cordoned', { nodes: [makeNode('w1'), cordoned] }, 'wait'],
  ['waits for no node that is deleted', { nodes: [makeNode('w1')] }, 'LBHealthy'],
  ['waits for no node whose Lease is over', { unresponsive: ['w2'] }, 'LBHealthy'],
  [
    'waits for a node in the middle of a rollout',
    { reports: [early('w1', '50'), early('w2', '49')] },
    'wait',
  ],
  [
    'opens where no Service selects the pod',
    withService('apps/web', { selector: { app: 'x' } }),
    'NoService',
  ],
  ['opens where the Service has no selector', withService('apps/web', {}), 'NoService'],
  ['opens where the Service is of another namespace', withService('infra/web', { selector }), 'NoService'],
  [
    'opens where the Service says that it gets no address',
    { ...withService('apps/web', { selector }, { status: judged }), virtualIps: [] },
    'NoService',
  ],
  [
    'opens where the Service is of another class',
    withService('apps/web', { selector, loadBalancerClass: 'x/y' }),
    'NoService',
  ],
  [
    'opens where the Service is being deleted',
    withService('apps/web', { selector }, { metadata: { deletionTimestamp: '2027-01-15T08:00:00Z' } }),
    'NoService',
  ],
  [
    'opens where no container has the port',
    withService('apps/web', { selector, ports: [{ port: 80, targetPort: 'web' }] }),
    'NoService',
  ],
  [
    'opens where the pod has no address of the family',
    {
      ...withService('apps/web', { selector }, { status: judged }),
      virtualIps: [makeVirtualIp('fd00::10', ['apps/web'])],
    },
    'NoService',
  ],
  [
    'waits while a VirtualIP is made again that somebody deleted',
    { ...withService('apps/web', { selector }, { status: published }), virtualIps: [] },
    'wait',
  ],
])('a gate %s', (_, more, verdict) => {
  expect(judge(makePod('apps/p'), more)).toBe(verdict);
});

describe('a gate waits', () => {
  test('for ten minutes at most', () => {
    expect(decide(makePod('apps/p'))).toEqual({
      ...{ does: 'wait', waitsFor: 'nodes', untilMs: nowMs - 60_000 + timeoutMs },
      why: 'nodes do not send connections to the pod yet',
    });
  });

  test.each<[string, Inventory, string]>([
    ['no node lives', { reports: [] }, 'no node reports that it sends connections to the pod'],
    [
      'no slice has it',
      { reports: all, earlySlices: [] },
      'no node reports that it sends connections to the pod',
    ],
    [
      'its Service has just been made',
      { virtualIps: [], reports: all },
      'the Service apps/web has no address yet',
    ],
  ])('while %s, and says so after ten minutes', (_, more, clause) => {
    expect(decide(makePod('apps/p'), more)).toMatchObject({ does: 'wait', waitsFor: 'nodes' });
    expectTimeout(more, clause);
  });

  const gates = { readinessGates: [{ conditionType: gateType }, { conditionType: 'a.example/warm' }] };
  const are = (...conditions: object[]) => ({ status: { conditions } });
  const contained = condition('ContainersReady', 'True');
  test.each<[string, Parameters<typeof makePod>[1], string]>([
    ['is about to be evicted', are(contained, condition('DisruptionTarget', 'True')), 'wait'],
    ['has containers that are not ready', are(condition('ContainersReady', 'False')), 'nothing'],
    ['has no conditions', are(), 'nothing'],
    ['has a gate of others', { spec: gates }, 'nothing'],
    ['is being deleted', { metadata: { deletionTimestamp: '2027-01-15T08:00:00Z' } }, 'nothing'],
    [
      'has a gate of others that is open',
      { spec: gates, ...are(contained, condition('a.example/warm', 'True')) },
      'LBHealthy',
    ],
  ])('where the pod %s, in its own way', (_, parts, verdict) => {
    expect(judge(makePod('apps/p', parts), { reports: all })).toBe(verdict);
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

  test('after ten minutes anyway, counted from when the containers were ready, with an event', () => {
    expect(judge(since(nowMs - timeoutMs + 1))).toBe('wait');
    expect(judge(since(nowMs - timeoutMs))).toBe('Timeout');
    // A kubelet whose date is behind, and ones whose date is ahead, far and a little.
    expect(judge(since(nowMs - 2 * timeoutMs, nowMs - 60_000))).toBe('wait');
    expect(judge(since(nowMs + 3_600_000, nowMs - timeoutMs))).toBe('Timeout');
    expect(judge(since(nowMs + 3000, nowMs - timeoutMs))).toBe('wait');
    expectTimeout({}, 'nodes do not send connections to the pod yet: w2');
  });

  test('once: not again when containers were not ready meanwhile', () => {
    const conditions = [condition('ContainersReady', 'True'), condition(gateType, 'True')];
    expect(judge(makePod('apps/p', { status: { conditions } }))).toBe('nothing');
  });
});

test('a pod waits for the version that has it, and not for later ones of the same slice', () => {
  const world = makeGated(makePod('apps/p'), { reports: all });
  const [slice] = world.earlySlices.values();
  expect([...(world.sliceToSince.get('apps/web-vipnat-6d1f82980b-0')?.values() ?? [])]).toEqual(['50']);
  expect(slice?.metadata.resourceVersion).toBe('50');
});

describe('a gate whose slice the API does not take', () => {
  const taken: WriteAnswer = { outcome: 'taken', detail: '', version: '900' };
  // Of OpenShift, where the right `endpointslices/restricted` is missing.
  const detail = 'creating EndpointSlice apps/web is answered with 403: address 10.1.0.1 is not allowed';

  /** What is said of the pod after ten minutes, if the API answers slices so. */
  async function follow(answer: WriteAnswer): Promise<{ reasons: string; events: string[] }> {
    const clock = new FakeClock(new Date(nowMs));
    const events: string[] = [];
    let reasons = '';
    const write = ({ path, body }: ObjectWrite) => {
      if (path.includes('endpointslices')) return Promise.resolve(answer);
      const { status } = body as { status: { conditions: { reason: string }[] } };
      reasons = status.conditions.map(({ reason }) => reason).join();
      return Promise.resolve(taken);
    };
    const engine = new Engine({
      ...{ clock, random: () => 0.5, group: gateKinds, writeMs: () => 4000 },
      client: { write, read: () => Promise.resolve({ outcome: 'gone' }) },
      cache: makeCache({
        ...{ services: [service], virtualIps: ips('apps/web'), pods: [since(nowMs)] },
        ...{ pools: [makePool('pool', { addresses: ['10.0.9.10-10.0.9.20'] })], nodes: [makeNode('w1')] },
        reports: [early('w1', '50')],
      }),
      pace: new TokenQueue({ capacity: 20, refillMs: 50 }, clock),
      onWritten: (_, event) => events.push(...(event === null ? [] : [event.message])),
      ...{ onFailed: () => undefined, onConflict: () => undefined, onBehind: () => undefined },
      onError: (_, error) => {
        throw error;
      },
    });
    engine.begin();
    await clock.advance(timeoutMs + 1000);
    await engine.stop();
    return { reasons, events };
  }

  test('says what the API answered; nodes are named where it took the slice', async () => {
    const refused = await follow({ outcome: 'forbidden', detail, version: null });
    const clause = `the API does not take the early EndpointSlices of apps/web: ${detail}`;
    const message = `After 10 minutes the gate opens, although ${clause}.`;
    expect(refused).toEqual({ reasons: 'Refused', events: [message] });
    const { reasons, events } = await follow(taken);
    expect({ reasons, text: events.join() }).toEqual({
      reasons: 'Timeout',
      text: expect.stringContaining('no node reports'),
    });
  });
});
