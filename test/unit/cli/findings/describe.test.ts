import { expect, test } from '@jest/globals';
import { type Decision } from '../../../../agent/decide/decision.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { describeInSync, describeKubeProxy } from '../../../../cli/findings/describe.ts';

const direct: Decision = {
  vip: toEndpoint('[fd00::50]:6443'),
  way: 'direct',
  reason: 'this host runs no kube-proxy',
  isBypass: false,
  clusterIp: null,
  affinitySeconds: null,
  backends: [toEndpoint('[fd00::11]:6443')],
};

test('a VIP that is balanced says over how many apiservers', () => {
  expect(describeInSync(direct)).toBe(
    '[fd00::50]:6443 is balanced, and its rules are in sync (direct, 1 apiserver)',
  );
});

test('a VIP that is not balanced says so loudly, and why', () => {
  expect(describeInSync({ ...direct, way: 'passthrough', backends: [] })).toBe(
    "[fd00::50]:6443 is NOT BALANCED (passthrough): this host runs no kube-proxy. Only the VIP holder's own apiserver answers",
  );
});

test('kube-proxy is described by its mode, backend and what says so', () => {
  const proxyMode = { value: 'iptables', seenIn: 'reported at 127.0.0.1:10249' } as const;
  expect(describeKubeProxy({ proxyMode, dialect: { value: 'nft', seenIn: 'the default' } })).toBe(
    'kube-proxy: iptables (nft), reported at 127.0.0.1:10249',
  );
});
