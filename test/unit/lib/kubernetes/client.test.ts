import { useCertificates, ApiWorld, accessByVip } from '../../../support/api/api-world.ts';
import { beforeAll, afterAll, test, expect } from '@jest/globals';
import {
  type ApiCall,
  callApi,
  toServiceResource,
  toSliceResource,
  joinQuery,
} from '../../../../lib/kubernetes/client.ts';
import { systemClock } from '../../../../lib/clock.ts';

const certificates = useCertificates();
let world: ApiWorld;
beforeAll(async () => {
  world = new ApiWorld(certificates());
  await world.startServer();
});
afterAll(() => world.close());

const callByName = (forbidden: readonly string[]): ApiCall => ({
  title: 'asking',
  access: { ...accessByVip(certificates().authority), serverName: 'localhost' },
  server: { host: 'localhost', port: world.servers[0]?.port ?? 0 },
  path: '/api/v1/namespaces/default/services?fieldSelector=metadata.name%3Dkubernetes',
  limits: { beginMs: 60_000, endMs: 60_000 },
  forbidden: new Set(forbidden),
  clock: systemClock,
  signal: new AbortController().signal,
});

const ask = async (call: ApiCall) => {
  let text = '';
  return await callApi(call, { onText: (part) => (text += part), onEnd: () => text });
};

test('a name that stands for a virtual IP is not connected to', async () => {
  expect(await ask(callByName([]))).toContain('"kind":"ServiceList"');
  const before = world.servers[0]?.questions.length;
  await expect(ask(callByName(['127.0.0.1', '::1']))).rejects.toMatchObject({
    code: 'API_UNREACHABLE',
    message: expect.stringMatching(/^asking at localhost:\d+ failed: it is a virtual IP$/),
  });
  expect(world.servers[0]?.questions.length).toBe(before);
});

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
