import { expect, test } from '@jest/globals';
import { earlySlices, nameEarlyOwner, selectEarlySlicesOf } from '../../../../lib/services/early-slices.ts';

const written = {
  metadata: {
    name: 'web-vipnat-0',
    namespace: 'apps',
    uid: 'u',
    resourceVersion: '7',
    generation: 1,
    labels: { 'vipnat.io/service-name': 'web' },
    annotations: { 'vipnat.io/weights': '{"10.1.0.5":0}' },
    ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name: 'web', uid: 's' }],
  },
  addressType: 'IPv4',
  endpoints: [
    {
      addresses: ['10.1.0.5'],
      conditions: { ready: false, serving: true, terminating: true },
      nodeName: 'w1',
      targetRef: { kind: 'Pod', namespace: 'apps', name: 'web-0', uid: 'p' },
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
