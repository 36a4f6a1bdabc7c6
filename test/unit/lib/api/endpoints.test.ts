import {
  toPodResource,
  listGates,
  readPodWeight,
  formatWeights,
  readWeights,
  isSelected,
  findSelectorProblem,
  mentions,
  earlySlices,
  nameEarlyOwner,
  selectEarlySlicesOf,
  readGateTypes,
  toGateTypesNote,
  toGateTypes,
} from '../../../../lib/api/endpoints.ts';
import { describe, test, expect } from '@jest/globals';
import { makeElection, makeNodeLease } from '../../../support/fakes/service-view.ts';
import { gateTypesAnnotation } from '../../../../lib/api/vipnat.ts';

const types = new Set(['vipnat.io/load-balancer-ready', 'cloudnativestation.net/load-balancer-ready']);
const resource = toPodResource(types);

const parse = (spec: object, annotations: Record<string, string> = {}) =>
  resource.schema.parse({
    metadata: {
      ...{ name: 'web-0', namespace: 'apps', uid: 'u', resourceVersion: '7', annotations },
      managedFields: [],
    },
    spec: { containers: [{ name: 'web', image: 'web:1' }], ...spec },
    status: { phase: 'Running', podIP: '10.1.0.5' },
  });

const gate = (...names: readonly string[]) => ({
  readinessGates: names.map((conditionType) => ({ conditionType })),
});

describe('of all pods', () => {
  test.each([
    ['with the gate', gate('vipnat.io/load-balancer-ready'), {}, true],
    ['with a gate of a further type', gate('cloudnativestation.net/load-balancer-ready'), {}, true],
    ['with a weight', {}, { 'vipnat.io/weight': '7' }, true],
    ['with a weight that is none', {}, { 'vipnat.io/weight': '' }, true],
    ["with another's gate", gate('target-health.elbv2.k8s.aws/x'), {}, false],
    ['without any', {}, { 'vipnat.io/weights': '7' }, false],
  ])('one %s: kept %s', (_, spec, annotations, expected) => {
    expect(resource.isKept?.(parse(spec, annotations))).toBe(expected);
  });

  test.each([
    ['True', true],
    ['False', false],
  ])('one that is about to be evicted, %s: kept %s', (status, expected) => {
    const conditions = [{ type: 'DisruptionTarget', status, reason: 'PreemptionByScheduler' }];
    const pod = { ...parse({}), status: { conditions } };
    expect(resource.isKept?.(resource.schema.parse(pod))).toBe(expected);
  });

  test('what is not of use is not kept', () => {
    expect(parse({}, { long: 'text' })).toEqual({
      metadata: { name: 'web-0', namespace: 'apps', uid: 'u', resourceVersion: '7', annotations: {} },
      spec: { containers: [{}] },
      status: { podIP: '10.1.0.5' },
    });
  });
});

test('the gates of a pod are those of the types that are asked for, each once', () => {
  const [first = '', second = ''] = types;
  const pod = parse(gate(second, 'other.example/gate', first, second));
  expect(listGates(pod, types)).toEqual([second, first]);
});

describe('the weight of a pod', () => {
  const texts = {
    ...{ '0': 0, '1': 1, ' 7 ': 7, '256': 256, '257': 1, '-1': 1, '1.5': 1, '': 1, many: 1, '0x10': 1 },
  };
  test.each(Object.entries(texts))('%j counts as %d', (text, expected) => {
    expect(readPodWeight({ 'vipnat.io/weight': text })).toBe(expected);
  });

  test('is not there where nobody says it', () => {
    for (const annotations of [null, undefined, {}]) expect(readPodWeight(annotations)).toBeNull();
  });
});

describe('the weights of an EndpointSlice', () => {
  test('are read as they were written, without those that are usual, in one order', () => {
    const usual = { '10.1.0.5': 1 };
    const others = Object.entries({ '10.1.0.4': 3, 'fd00::9': 0 });
    const text = formatWeights(new Map([...others.toReversed(), ...Object.entries(usual)]));
    expect(text).toBe('{"10.1.0.4":3,"fd00::9":0}');
    expect(readWeights({ 'vipnat.io/weights': text })).toEqual(new Map(others));
  });

  test('are not written where all are usual', () => {
    expect(formatWeights(new Map([['10.1.0.5', 1]]))).toBeNull();
  });

  test.each(['', '[', '7', '{"10.1.0.4":"3"}', '{"10.1.0.4":257}', '{"10.1.0.4":1.5}', '{"10.1.0.4":-1}'])(
    'are none where %j is there',
    (text) => {
      expect(readWeights({ 'vipnat.io/weights': text })).toEqual(new Map());
    },
  );
});

const labels = { app: 'web', tier: 'front' };

function select(key: string, operator: string, values?: string[]) {
  return { matchExpressions: [{ key, operator, ...(values === undefined ? {} : { values }) }] };
}

describe('isSelected', () => {
  test.each([
    ['none', undefined, true],
    ['an empty one', {}, true],
    ['a label', { matchLabels: { app: 'web' } }, true],
    ['two labels, one of which differs', { matchLabels: { app: 'web', tier: 'back' } }, false],
    ['In', select('app', 'In', ['web', 'api']), true],
    ['In, with others', select('app', 'In', ['api']), false],
    ['In, without the label', select('zone', 'In', ['a']), false],
    ['NotIn', select('app', 'NotIn', ['api']), true],
    ['NotIn, with it', select('app', 'NotIn', ['web']), false],
    ['NotIn, without the label', select('zone', 'NotIn', ['a']), true],
    ['Exists', select('app', 'Exists'), true],
    ['Exists, without the label', select('zone', 'Exists'), false],
    ['DoesNotExist', select('zone', 'DoesNotExist'), true],
    ['DoesNotExist, with it', select('app', 'DoesNotExist'), false],
    ['an operator that nobody knows', select('app', 'Matches', ['w*']), false],
    ['a name that every object of JavaScript has', { matchLabels: { constructor: 'x' } }, false],
  ])('%s', (_, selector, expected) => {
    expect(isSelected(selector, labels)).toBe(expected);
  });

  test('an object without labels is selected by no label', () => {
    expect(isSelected({ matchLabels: { app: 'web' } }, null)).toBe(false);
    expect(isSelected(select('app', 'DoesNotExist'), undefined)).toBe(true);
  });
});

test.each([
  ['In', ['web'], null],
  ['Exists', undefined, null],
  ['Like', ['w'], expect.stringContaining('operator Like of app')],
  ['In', undefined, 'In of app has no values'],
  ['Exists', ['web'], 'Exists of app takes no values'],
])('what is wrong with a selector is said: %s of %j', (operator, values, problem) => {
  expect(findSelectorProblem(select('app', operator, values))).toEqual(problem);
});

test.each([
  [{ matchLabels: { app: 'web' } }, 'app', true],
  [select('app', 'Exists'), 'app', true],
  [select('app', 'Exists'), 'tier', false],
  [null, 'app', false],
])('a selector mentions a label in either part: %j, %s, %s', (selector, label, expected) => {
  expect(mentions(selector, label)).toBe(expected);
});

const written = {
  metadata: {
    ...{ name: 'web-vipnat-0', namespace: 'apps', uid: 'u', resourceVersion: '7', generation: 1 },
    labels: { 'vipnat.io/service-name': 'web' },
    annotations: { 'vipnat.io/weights': '{"10.1.0.5":0}' },
    ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name: 'web', uid: 's' }],
  },
  addressType: 'IPv4',
  endpoints: [
    {
      ...{ addresses: ['10.1.0.5'], conditions: { ready: false, serving: true, terminating: true } },
      ...{ nodeName: 'w1', targetRef: { kind: 'Pod', namespace: 'apps', name: 'web-0', uid: 'p' } },
    },
  ],
  ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
};

test('an early EndpointSlice names its Service, its pods and their weights', () => {
  const slice = earlySlices.schema.parse(written);
  expect(nameEarlyOwner(slice)).toBe('apps/web');
  expect(slice.metadata.ownerReferences).toEqual([{ kind: 'Service', name: 'web', uid: 's' }]);
  expect(slice.endpoints?.[0]).toEqual({
    ...written.endpoints[0],
    targetRef: { kind: 'Pod', name: 'web-0', uid: 'p' },
  });
});

test('early EndpointSlices are asked for by their labels', () => {
  const selector = 'endpointslice.kubernetes.io/managed-by=vipnat.io,vipnat.io/service-name';
  expect(earlySlices.selector).toBe(`labelSelector=${encodeURIComponent(selector)}`);
  expect(selectEarlySlicesOf({ namespace: 'apps', name: 'web' })).toMatchObject({
    path: '/apis/discovery.k8s.io/v1/namespaces/apps/endpointslices',
    selector: `labelSelector=${encodeURIComponent(`${selector}=web`)}`,
  });
});

const usual = 'vipnat.io/load-balancer-ready';

/** The controllers' Lease, with this text in place of what a controller notes. */
function makeNoted(text: string) {
  const lease = makeElection();
  return { ...lease, metadata: { ...lease.metadata, annotations: { [gateTypesAnnotation]: text } } };
}

test('types that a controller notes are read, also when it leads no more', () => {
  const leases = [makeNodeLease('w1'), makeElection(600, '', ['b.example/gate', 'a.example/gate'])];
  expect([...readGateTypes(leases)]).toEqual([usual, 'a.example/gate', 'b.example/gate']);
  expect(toGateTypesNote(toGateTypes([]))).toEqual({ [gateTypesAnnotation]: `["${usual}"]` });
});

test.each([
  ['no Lease', []],
  ['the Lease of a node', [{ ...makeNoted('["a.example/gate"]'), ...makeNodeLease('w1') }]],
  ['no JSON', [makeNoted('a.example/gate')]],
  ['no list', [makeNoted('{"a.example/gate":1}')]],
  ['a prefix of more than 253 characters', [makeNoted(`["${'a.'.repeat(127)}a/gate"]`)]],
  ["Kubernetes' own conditions", [makeNoted('["Ready","ContainersReady",7,null]')]],
])('of %s, only the usual type is known', (_, leases) => {
  expect([...readGateTypes(leases)]).toEqual([usual]);
});
