import { describe, expect, test } from '@jest/globals';
import { listGates, toPodResource } from '../../../../lib/services/pods.ts';

const types = new Set(['vipnat.io/load-balancer-ready', 'cloudnativestation.net/load-balancer-ready']);
const resource = toPodResource(types);

const parse = (spec: object, annotations: Record<string, string> = {}) =>
  resource.schema.parse({
    metadata: {
      name: 'web-0',
      namespace: 'apps',
      uid: 'u',
      resourceVersion: '7',
      annotations,
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
