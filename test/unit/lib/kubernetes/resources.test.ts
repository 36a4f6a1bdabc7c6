import { expect, test } from '@jest/globals';
import { readListing, toServiceResource, toSliceResource } from '../../../../lib/kubernetes/resources.ts';

const web = { namespace: 'shop', name: 'web' };

test('a Service and an EndpointSlice are asked for by their namespace and name', () => {
  const urls = [toServiceResource(web), toSliceResource({ ...web, name: 'web-x7k2p' })].map(
    ({ path, selector }) => `${path}?${selector}`,
  );
  expect(urls).toEqual([
    '/api/v1/namespaces/shop/services?fieldSelector=metadata.name%3Dweb',
    '/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices?fieldSelector=metadata.name%3Dweb-x7k2p',
  ]);
});

test('the answer about another Service than default/kubernetes is read alike', () => {
  const text = JSON.stringify({
    kind: 'ServiceList',
    metadata: { resourceVersion: '7' },
    items: [{ metadata: { name: 'web', resourceVersion: '5' }, spec: { clusterIP: '10.96.7.7' } }],
  });
  const { version, objects } = readListing(toServiceResource(web), text);
  expect(version).toBe('7');
  expect(objects.get('web')?.spec.clusterIP).toBe('10.96.7.7');
});
