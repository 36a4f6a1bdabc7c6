import { useCertificates, ApiWorld, routeTo } from '../../../support/api/api-world.ts';
import { type Resource, type EndpointSlice, toSliceResource } from '../../../../lib/kubernetes/client.ts';
import { type ListAll, createLister } from '../../../../lib/kubernetes/list-watch.ts';
import { beforeEach, afterEach, test, expect } from '@jest/globals';
import { makeSlice } from '../../../support/kube-api/kube-store.ts';

const certificates = useCertificates();
const resource: Resource<EndpointSlice> = {
  ...toSliceResource({ namespace: 'default', name: 'any' }),
  ...{ selector: '', absence: 'apply the definitions' },
  limits: { objects: 12, characters: 100_000, page: 2 },
};

let world: ApiWorld;
let list: ListAll;
const server = (index: number) => world.server(index);

beforeEach(async () => {
  world = new ApiWorld(certificates());
  await world.startServer();
  await world.startServer();
  for (const one of world.servers) one.allowsAll = true;
  world.store.remove('EndpointSlice', 'kubernetes');
  for (const name of ['a', 'b', 'c']) world.store.put('EndpointSlice', makeSlice(['10.77.0.11'], { name }));
  const places = world.servers.map(({ port }, index) => `127.0.0.${index + 1}:${port}`);
  const route = routeTo(certificates().authority, places);
  list = createLister(route, world.clock, new AbortController().signal);
});
afterEach(() => world.close());

const names = async () => (await list(resource)).map(({ metadata: { name } }) => name);

test('objects that are too large for one page are listed one by one, and small ones behind them together again', async () => {
  const long = { example: '\u0001'.repeat(11_000) };
  for (const name of ['a', 'b', 'c']) {
    const { metadata, ...rest } = makeSlice(['10.77.0.11'], { name });
    world.store.put('EndpointSlice', { ...rest, metadata: { ...metadata, annotations: long } });
  }
  for (const name of ['d', 'e', 'f', 'g'])
    world.store.put('EndpointSlice', makeSlice(['10.77.0.11'], { name }));
  expect(await names()).toEqual(['a', 'b', 'c', 'd', 'e', 'f', 'g']);
  const asked = server(0).questions.map((question) => /limit=\d.*/.exec(question)?.[0]);
  expect(asked).toEqual([
    ...['limit=2', 'limit=1', 'limit=1&continue=a', 'limit=1&continue=b', 'limit=1&continue=c'],
    ...['limit=2&continue=d', 'limit=2&continue=f'],
  ]);
  expect(server(1).questions).toHaveLength(0);
});

test('an object that is too large alone is a problem, which is told', async () => {
  const { metadata, ...rest } = makeSlice(['10.77.0.11'], { name: 'a' });
  const annotations = { example: 'x'.repeat(100_000) };
  world.store.put('EndpointSlice', { ...rest, metadata: { ...metadata, annotations } });
  await expect(names()).rejects.toMatchObject({ message: expect.stringMatching(/the answer is too long$/) });
});

test('an apiserver that is away is passed over', async () => {
  await server(0).stop();
  expect(await names()).toEqual(['a', 'b', 'c']);
  expect(server(1).questions).toHaveLength(2);
});

test('all are away: it says so once each has been asked', async () => {
  for (const one of world.servers) await one.stop();
  await expect(names()).rejects.toMatchObject({ code: 'API_UNREACHABLE' });
});

test('a right that is missing is missing everywhere: no other is asked', async () => {
  server(0).manner = 'forbidding';
  await expect(names()).rejects.toMatchObject({ code: 'API_FORBIDDEN' });
  expect(server(1).questions).toHaveLength(0);
});

test('a list whose version is forgotten is begun once more', async () => {
  server(0).forgetsLists = true;
  await expect(names()).rejects.toMatchObject({
    code: 'API_ANSWER_UNEXPECTED',
    message: "listing EndpointSlices failed: the API forgot the list's version before its last page",
  });
  expect(server(0).questions).toHaveLength(4);
});

test('a kind that the API does not have is told with what to do', async () => {
  const unknown = { ...resource, path: '/apis/vipnat.io/v1alpha1/addresspools' };
  await expect(list(unknown)).rejects.toMatchObject({
    message: expect.stringMatching(/is answered with 404: not found; apply the definitions$/),
  });
});
