import { test, expect } from '@jest/globals';
import { toServiceResource, toSliceResource, joinQuery } from '../../../../lib/kubernetes/client.ts';

const web = { namespace: 'shop', name: 'web' };

test('a Service and an EndpointSlice are asked for by their namespace and name', () => {
  const urls = [toServiceResource(web), toSliceResource({ ...web, name: 'web-x7k2p' })].map(
    ({ path, selector }) => joinQuery(path, [selector]),
  );
  expect(urls).toEqual([
    '/api/v1/namespaces/shop/services?fieldSelector=metadata.name%3Dweb',
    '/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices?fieldSelector=metadata.name%3Dweb-x7k2p',
  ]);
});
