import { test, expect, describe } from '@jest/globals';
import { decide, readBody, readConditions, selector, settle } from '../../../support/fakes/slice-steps.ts';
import { makePod, makeService, nowMs } from '../../../support/fakes/service-objects.ts';
import type { EarlySlice } from '../../../../lib/api/endpoints.ts';
import type { Service } from '../../../../lib/api/service.ts';

const gateType = 'vipnat.io/load-balancer-ready';

test('a pod that waits for its gate is written with its Service as owner, under labels that kube-proxy leaves alone', () => {
  const step = decide([makePod('apps/p')]);
  expect(step).toMatchObject({
    does: 'write',
    write: {
      ...{ method: 'POST', kind: 'EndpointSlice', key: 'apps/web-vipnat-6d1f82980b-0' },
      path: '/apis/discovery.k8s.io/v1/namespaces/apps/endpointslices',
    },
  });
  const conditions = { ready: true, serving: true, terminating: false };
  const targetRef = { kind: 'Pod', namespace: 'apps', name: 'p', uid: 'uid of apps/p' };
  expect(readBody(step)).toEqual({
    ...{ apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', addressType: 'IPv4' },
    metadata: {
      name: 'web-vipnat-6d1f82980b-0',
      labels: {
        'endpointslice.kubernetes.io/managed-by': 'vipnat.io',
        'vipnat.io/service-name': 'web',
        'service.kubernetes.io/service-proxy-name': 'vipnat.io',
        'service.kubernetes.io/headless': '',
      },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name: 'web', uid: 'uid of apps/web' }],
    },
    endpoints: [{ addresses: ['10.1.0.5'], conditions, nodeName: 'w1', zone: 'a', targetRef }],
    ports: [{ name: '', protocol: 'TCP', port: 80 }],
  });
});

describe('an endpoint', () => {
  test('is not ready before its containers are, nor when it ends', () => {
    const starting = makePod('apps/p', { status: { conditions: [] } });
    expect(readConditions(decide([starting]))).toEqual({ ready: false, serving: false, terminating: false });
    const ending = makePod('apps/p', { metadata: { deletionTimestamp: '2027-01-15T08:00:00Z' } });
    expect(readConditions(decide([ending]))).toEqual({ ready: false, serving: true, terminating: true });
  });

  // Held: the kubelet has not seen that its gate is open.
  test.each([
    ['that waits for its gate takes connections', 'True', 'gate', 'False'],
    ['that waits for its gate on a node that is silent takes none', 'False', 'gate', 'held'],
    ['takes connections while its kubelet has not seen its open gate', 'True', 'open', 'held'],
    ['takes none when its node dies right after its gate has opened', 'False', 'open', 'held'],
    ['takes none when its node died later', 'True', 'open', 'False'],
    ['without a gate takes none when its node died', 'True', 'none', 'False'],
    ['without a gate takes connections', 'True', 'none', 'True'],
    ['takes connections while its node, but not the pod, is called silent', 'False', 'open', 'True'],
  ])('%s', (title, node, gate, ready) => {
    const status = ready === 'True' ? 'True' : 'False';
    const conditions = [
      { type: 'ContainersReady', status: 'True' },
      { type: 'Ready', status, reason: ready === 'held' ? 'ReadinessGatesNotReady' : '' },
      { type: gateType, status: gate === 'open' ? 'True' : 'False' },
    ];
    const readinessGates = gate === 'none' ? [] : [{ conditionType: gateType }];
    const metadata = { annotations: { 'vipnat.io/weight': '5' } };
    const pod = makePod('apps/p', { metadata, spec: { readinessGates }, status: { conditions } });
    const isReady = title.includes('takes connections');
    expect(readConditions(decide([pod], { ready: node }))).toMatchObject({ ready: isReady });
  });

  test('is ready from the start where the Service publishes addresses that are not ready', () => {
    const early = makeService('apps/web', { spec: { selector, publishNotReadyAddresses: true } });
    const starting = makePod('apps/p', { status: { conditions: [] } });
    expect(readConditions(decide([starting], { services: [early] }))).toMatchObject({
      ready: true,
      serving: false,
    });
  });

  test('has a slice of each family that both have', () => {
    const dual = makeService('apps/web', { spec: { selector, ipFamilies: ['IPv6', 'IPv4'] } });
    const slices = settle([makePod('apps/p')], { services: [dual] });
    const read = ({ addressType, endpoints }: EarlySlice) => [addressType, endpoints?.[0]?.addresses[0]];
    expect(slices.map(read)).toEqual([
      ['IPv6', 'fd01::5'],
      ['IPv4', '10.1.0.5'],
    ]);
  });

  test('without an address is not there', () => {
    const pod = makePod('apps/p', { status: { podIP: null, podIPs: null } });
    expect(decide([pod])).toEqual({ does: 'nothing' });
  });

  test('stays for a minute after its gate has opened, and for good with a weight or when it ends', () => {
    const open = (ms: number, annotations = {}) => {
      const type = (name: string) => {
        return { type: name, status: 'True', lastTransitionTime: new Date(nowMs - ms).toISOString() };
      };
      const status = { conditions: [type('ContainersReady'), type(gateType)] };
      return makePod('apps/p', { metadata: { annotations }, status });
    };
    const slices = settle([open(59_000)]);
    expect(slices).toHaveLength(1);
    expect(decide([open(59_000)], { slices })).toMatchObject({ does: 'wait', untilMs: nowMs + 1000 });
    expect(decide([open(60_000)], { slices })).toMatchObject({ write: { method: 'DELETE' } });
    // The date of the controller before was an hour ahead.
    expect(decide([open(-3_600_000)], { slices })).toMatchObject({ write: { method: 'DELETE' } });
    const ending = open(3_600_000);
    const ended = {
      ...ending,
      metadata: { ...ending.metadata, deletionTimestamp: new Date(nowMs).toISOString() },
    };
    expect(settle([ended])[0]?.endpoints?.[0]?.conditions).toMatchObject({ ready: false, terminating: true });
    const weighted = settle([open(60_000, { 'vipnat.io/weight': '7' })]);
    expect(weighted[0]?.metadata.annotations).toEqual({ 'vipnat.io/weights': '{"10.1.0.5":7}' });
  });
});

describe('a pod without a gate that is about to be evicted', () => {
  const makeEvicted = (agoMs: number | null, metadata = {}, status = 'True') => {
    const lastTransitionTime = agoMs === null ? null : new Date(nowMs - agoMs).toISOString();
    const conditions = [
      { type: 'ContainersReady', status: 'True' },
      { type: 'DisruptionTarget', status, reason: 'EvictionByEvictionAPI', lastTransitionTime },
    ];
    return makePod('apps/p', { metadata, spec: { readinessGates: [] }, status: { conditions } });
  };
  const deleted = { deletionTimestamp: '2027-01-15T08:00:30Z' };
  const ending = { ready: false, serving: true, terminating: true };

  test('is written a second later, as one that ends', () => {
    expect(decide([makeEvicted(400)])).toMatchObject({ does: 'wait', untilMs: nowMs + 600 });
    expect(readConditions(decide([makeEvicted(1000)]))).toEqual(ending);
    const early = makeService('apps/web', { spec: { selector, publishNotReadyAddresses: true } });
    expect(readConditions(decide([makeEvicted(1000)], { services: [early] }))).toMatchObject({
      terminating: true,
    });
  });

  test('is not waited for where its condition has no date, or one that lies ahead', () => {
    expect(readConditions(decide([makeEvicted(null)]))).toEqual(ending);
    expect(readConditions(decide([makeEvicted(-3_600_000)]))).toEqual(ending);
  });

  test('is not written when it is deleted in time; one that was written stays until it is gone', () => {
    expect(decide([makeEvicted(5000, deleted)])).toEqual({ does: 'nothing' });
    const slices = settle([makeEvicted(5000)]);
    expect(decide([makeEvicted(90_000, deleted)], { slices })).toEqual({ does: 'nothing' });
    expect(decide([], { slices })).toMatchObject({ write: { method: 'DELETE' } });
  });

  test('goes when nobody evicts it any more', () => {
    const slices = settle([makeEvicted(5000)]);
    expect(decide([makeEvicted(1000, {}, 'False')], { slices })).toMatchObject({
      write: { method: 'DELETE' },
    });
  });

  test('with a weight or a closed gate ends in the slice that it is in', () => {
    const evict = (pod: ReturnType<typeof makePod>, agoMs: number) => {
      const [, disruption] = makeEvicted(agoMs).status?.conditions ?? [];
      const conditions = [
        ...(pod.status?.conditions ?? []),
        ...(disruption === undefined ? [] : [disruption]),
      ];
      return { ...pod, status: { ...pod.status, conditions } };
    };
    const pod = makePod('apps/p');
    const slices = settle([pod]);
    expect(decide([evict(pod, 400)], { slices })).toMatchObject({ does: 'wait', untilMs: nowMs + 600 });
    expect(readConditions(decide([evict(pod, 1000)], { slices }))).toEqual(ending);
  });
});

describe('named target ports', () => {
  const named = makeService('apps/web', {
    spec: {
      selector,
      ports: [
        { name: 'http', port: 80, targetPort: 'web' },
        { name: 'dns', port: 53, protocol: 'UDP', targetPort: 'dns' },
      ],
    },
  });
  const withPort = (name: string, containerPort: number, ip: string) =>
    makePod(`apps/${name}`, {
      spec: {
        containers: [
          {
            ports: [
              { name: 'web', containerPort },
              { name: 'dns', containerPort: 53 },
            ],
          },
        ],
      },
      status: { podIPs: [{ ip }] },
    });

  test("are each pod's own: pods of other ports are in other slices, and a protocol is part of the name", () => {
    const pods = [
      withPort('a', 8080, '10.1.0.1'),
      withPort('b', 9090, '10.1.0.2'),
      withPort('c', 8080, '10.1.0.3'),
    ];
    const slices = settle(pods, { services: [named] });
    const read = ({ ports, endpoints }: EarlySlice) => [ports, endpoints?.map((one) => one.addresses[0])];
    expect(slices.map(read)).toEqual([
      [[{ name: 'http', protocol: 'TCP', port: 8080 }], ['10.1.0.1', '10.1.0.3']],
      [[{ name: 'http', protocol: 'TCP', port: 9090 }], ['10.1.0.2']],
    ]);
  });

  test('may be those of a container that starts before the others and stays', () => {
    const ports = [{ name: 'web', containerPort: 8081 }];
    const initContainers = [
      { ports: [{ name: 'web', containerPort: 1 }] },
      { restartPolicy: 'Always', ports },
    ];
    const pod = makePod('apps/p', { spec: { containers: [{}], initContainers } });
    expect(readBody(decide([pod], { services: [named] })).ports).toMatchObject([{ port: 8081 }]);
  });

  test('that change get another slice before the former one goes', () => {
    const before = settle([withPort('a', 8080, '10.1.0.1')], { services: [named] });
    const pods = [withPort('a', 8081, '10.1.0.1')];
    expect(decide(pods, { services: [named], slices: before })).toMatchObject({ write: { method: 'POST' } });
    const after = settle(pods, { services: [named], slices: before });
    expect(after.map(({ ports }) => ports?.[0]?.port)).toEqual([8081]);
  });
});

describe('slices go', () => {
  const slices = settle([makePod('apps/p')]);
  const deletion = {
    write: {
      method: 'DELETE',
      path: '/apis/discovery.k8s.io/v1/namespaces/apps/endpointslices/web-vipnat-6d1f82980b-0',
      body: { preconditions: { uid: 'uid of apps/web-vipnat-6d1f82980b-0', resourceVersion: '60' } },
    },
  };

  test.each<[string, Service[]]>([
    ['is gone', []],
    ['is of another type', [makeService('apps/web', { spec: { selector, type: 'ClusterIP' } })]],
    ['is deleted', [makeService('apps/web', { spec: { selector }, metadata: { deletionTimestamp: 'now' } })]],
    ['selects no pod any more', [makeService('apps/web', { spec: { selector: { app: 'x' } } })]],
  ])('when their Service %s', (_, services) => {
    expect(decide([makePod('apps/p')], { services, slices })).toMatchObject(deletion);
  });

  test('when their Service is another one of that name, after its own were made', () => {
    const services = [makeService('apps/web', { spec: { selector }, metadata: { uid: 'another' } })];
    expect(decide([makePod('apps/p')], { services, slices })).toMatchObject({
      write: { method: 'POST', key: 'apps/web-vipnat-ae448ac86c-0' },
    });
    const after = settle([makePod('apps/p')], { services, slices });
    expect(after.map(({ metadata }) => metadata.name)).toEqual(['web-vipnat-ae448ac86c-0']);
  });

  test('what somebody changed by hand is mended', () => {
    const [slice] = slices;
    if (slice === undefined) throw new Error('no slice');
    const { 'service.kubernetes.io/headless': headless, ...labels } = slice.metadata.labels ?? {};
    // The second one is of an earlier version.
    const older = { ...slice, metadata: { ...slice.metadata, labels } };
    const body = { metadata: { labels: { 'service.kubernetes.io/headless': headless } } };
    for (const changed of [{ ...slice, endpoints: [] }, older])
      expect(decide([makePod('apps/p')], { slices: [changed] })).toMatchObject({
        write: { method: 'PATCH', body },
      });
    expect(decide([makePod('apps/p')], { slices })).toEqual({ does: 'nothing' });
  });
});
