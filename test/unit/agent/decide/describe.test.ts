import { expect, test } from '@jest/globals';
import { type Decision } from '../../../../agent/decide/decision.ts';
import { describeWay } from '../../../../agent/decide/describe.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';

const direct: Decision = {
  vip: toEndpoint('[fd00::50]:6443'),
  way: 'direct',
  reason: 'this host runs no kube-proxy',
  isBypass: false,
  clusterIp: null,
  affinitySeconds: null,
  backends: [toEndpoint('[fd00::11]:6443')],
};

test('a way is named so that a change of it can be told: direct with its apiservers', () => {
  expect(describeWay(direct)).toBe('direct to [fd00::11]:6443');
  expect(describeWay({ ...direct, way: 'service-chain' })).toBe('service-chain');
});
