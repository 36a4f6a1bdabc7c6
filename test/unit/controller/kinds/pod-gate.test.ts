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
import { nodes, type NodeReport } from '../../../../lib/api/node.ts';

const selector = gatedSelector;
const service = gatedService;
const gateType = 'vipnat.io/load-balancer-ready';

/** A Service that can get no further address says so. */
const judged = { conditions: [{ type: 'vipnat.io/AddressReady', status: 'False', reason: 'NoAddress' }] };
const condition = (type: string, status: string, ms = nowMs - 60_000) => {
  return { type, status, lastTransitionTime: new Date(ms).toISOString() };
};

const decide = (pod: Pod, more: Inventory = {}, waitedMs = 0) =>
  podKind.next('apps/p', { ...makeGated(pod, more), waitedMs });
const all = [makeEarlyReport('w1', '50'), makeEarlyReport('w2', '51')];

/** `wait`, `nothing`, or why the gate opens. */
function judge(pod: Pod, more: Inventory = {}, waitedMs = 0): string {
  const step = decide(pod, more, waitedMs);
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
  const message = `After 3 minutes the gate opens, although ${clause}.`;
  const event = { type: 'Warning', reason: 'GateTimedOut', message };
  expect(decide(makePod('apps/p'), more, timeoutMs)).toMatchObject({ event });
}

type Fields = Readonly<Record<string, unknown>>;

const withService = (spec: Fields, more: Partial<Record<'metadata' | 'status', Fields>> = {}): Inventory => ({
  services: [makeService('apps/web', { spec, ...more })],
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
const elsewhere = makeService('infra/web', { spec: { selector } });
const w1 = early('w1', '50');
const w2 = early('w2', '49');
const proxied: NodeReport = { ...w2, mode: 'kube-proxy' };
const left = { ...w2, left: { 'apps/web': 'why' } };
const asksProxy = { metadata: { annotations: { 'vipnat.io/dataplane': 'kube-proxy' } } };
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
  ['waits for all their addresses', { virtualIps: ips('apps/web', 'apps/web'), reports: all }, 'LBHealthy'],
  ['waits for no balancer without early EndpointSlices', { reports: [w1, old] }, 'LBHealthy'],
  ['waits for the others beside it', { reports: [early('w1', '49'), old] }, 'wait'],
  ['waits for one that has not begun', { reports: [w1, makeReport('w2', 99, { programmed: {} })] }, 'wait'],
  ['opens where no balancer follows early EndpointSlices', { reports: [old] }, 'NotFollowed'],
  ['opens where kube-proxy serves all Services', { reports: [w1, proxied] }, 'KubeProxy'],
  ['waits for the other nodes there', { reports: [early('w1', '49'), proxied] }, 'wait'],
  ['opens where a node leaves the Service to kube-proxy', { reports: [w1, left] }, 'KubeProxy'],
  ['opens where the Service asks for kube-proxy', withService({ selector }, asksProxy), 'KubeProxy'],
  ['waits for a node that is cordoned', { nodes: [makeNode('w1'), cordoned] }, 'wait'],
  ['waits for no node that is deleted', { nodes: [makeNode('w1')] }, 'LBHealthy'],
  ['waits for no node whose Lease is over', { unresponsive: ['w2'] }, 'LBHealthy'],
  ['opens where no Service selects the pod', withService({ selector: { app: 'x' } }), 'NoService'],
  ['opens where the Service has no selector', withService({}), 'NoService'],
  ['opens where the Service is of another namespace', { services: [elsewhere] }, 'NoService'],
  [
    'opens where the Service says that it gets no address',
    { ...withService({ selector }, { status: judged }), virtualIps: [] },
    'NoService',
  ],
  ['opens where its class is another', withService({ selector, loadBalancerClass: 'x/y' }), 'NoService'],
  [
    'opens where the Service is being deleted',
    withService({ selector }, { metadata: { deletionTimestamp: '2027-01-15T08:00:00Z' } }),
    'NoService',
  ],
  ['opens with no port', withService({ selector, ports: [{ port: 80, targetPort: 'web' }] }), 'NoService'],
  [
    'opens where the pod has no address of the family',
    {
      ...withService({ selector }, { status: judged }),
      virtualIps: [makeVirtualIp('fd00::10', ['apps/web'])],
    },
    'NoService',
  ],
  ['waits for a VirtualIP', { ...withService({ selector }, { status: published }), virtualIps: [] }, 'wait'],
])('a gate %s', (_, more, verdict) => {
  expect(judge(makePod('apps/p'), more)).toBe(verdict);
});

describe('a gate waits', () => {
  test('for three minutes at most, by the own clock: dates of others change nothing', () => {
    expect(timeoutMs).toBe(180_000);
    const nobody = { reports: [] };
    const unwritten = { reports: all, earlySlices: [] };
    const clauses: [Inventory, string][] = [
      [{}, 'nodes do not send connections to the pod yet: w2'],
      [unwritten, 'the controller has not written the pod into an EndpointSlice yet'],
      [{ virtualIps: [], reports: all }, 'the Service apps/web has no address yet'],
    ];
    for (const [more, clause] of clauses) {
      for (const pod of [makePod('apps/p'), since(nowMs - 3_600_000), since(nowMs + 3_600_000, nowMs)]) {
        expect(decide(pod, more)).toMatchObject({ waitsFor: 'nodes', untilMs: nowMs + timeoutMs });
        expect([timeoutMs - 1, timeoutMs].map((ms) => judge(pod, more, ms))).toEqual(['wait', 'Timeout']);
      }
      expectTimeout(more, clause);
    }
    // Where no node lives, for as long as a Lease counts.
    expect(decide(makePod('apps/p'), nobody)).toMatchObject({ untilMs: nowMs + 40_000 });
    for (const more of [nobody, { pools: [] }, { nodes: [makeNode('w1')], reports: [early('w2', '50')] }])
      expect([39_999, 40_000].map((ms) => judge(makePod('apps/p'), more, ms))).toEqual([
        'wait',
        'NoLivingNode',
      ]);
  });

  const gates = { readinessGates: [{ conditionType: gateType }, { conditionType: 'a.example/warm' }] };
  const are = (...conditions: object[]) => ({ status: { conditions } });
  const contained = condition('ContainersReady', 'True');
  test.each<[string, Parameters<typeof makePod>[1], string]>([
    ['is about to be evicted', are(contained, condition('DisruptionTarget', 'True')), 'wait'],
    ['has containers that are not ready', are(condition('ContainersReady', 'False')), 'nothing'],
    ['has no conditions', are(), 'nothing'],
    ['has a gate of others', { spec: gates }, 'nothing'],
    ['has a gate that is open', are(contained, condition(gateType, 'True')), 'nothing'],
    ['is being deleted', { metadata: { deletionTimestamp: '2027-01-15T08:00:00Z' } }, 'nothing'],
    ['has open gates', { spec: gates, ...are(contained, condition('a.example/warm', 'True')) }, 'LBHealthy'],
  ])('where the pod %s, in its own way', (_, parts, verdict) => {
    expect(judge(makePod('apps/p', parts), { reports: all })).toBe(verdict);
  });
});

test('a gate opens with the words of the seed, and changes no condition of others', () => {
  const said = { reason: 'LBHealthy', message: 'LB synced successfully' };
  const opened = { type: gateType, status: 'True', ...said, lastTransitionTime: '2027-01-15T08:00:00Z' };
  const write = {
    ...{ method: 'PATCH', isStrategic: true, path: '/api/v1/namespaces/apps/pods/p/status' },
    ...{ kind: 'Pod', key: 'apps/p', confirm: [] },
    body: { metadata: { uid: 'uid of apps/p', resourceVersion: '30' }, status: { conditions: [opened] } },
  };
  expect(decide(makePod('apps/p'), { reports: all })).toEqual({ does: 'write', event: null, write });
});
