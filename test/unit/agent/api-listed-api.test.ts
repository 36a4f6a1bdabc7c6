import { useCertificates, ApiWorld, accessByVip, three, eventually } from '../../support/api/api-world.ts';
import { beforeEach, afterEach, test, expect } from '@jest/globals';
import { FakeClock } from '../../support/fakes/clock.ts';
import { ListedApi } from '../../../agent/api.ts';
import { ApiRoute } from '../../../lib/kubernetes/route.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { vips } from '../../support/network/layout.ts';
import { formatEndpoint } from '../../../lib/net.ts';

const certificates = useCertificates();

let world: ApiWorld;
let problems: string[] = [];
beforeEach(async () => {
  world = new ApiWorld(certificates());
  problems = [];
  await world.startServer();
  await world.startServer();
});
afterEach(() => world.close());

/** One that a command asks. */
function createListedApi(clock = new FakeClock()): {
  api: ListedApi;
  known: Parameters<ListedApi['getView']>[0];
} {
  const access = accessByVip(certificates().authority);
  const route = new ApiRoute(() => Promise.resolve(access), [toEndpoint(`${vips.ipv4}:6443`)]);
  const onProblem = ({ message }: Error) => problems.push(message);
  const endpoints = world.servers.map(({ port }, index) => toEndpoint(`127.0.0.${index + 1}:${port}`));
  return {
    api: new ListedApi({ route, clock, onProblem }),
    known: { endpoints, localAddresses: new Set<string>() },
  };
}

test('a command lists once, however often it looks', async () => {
  const { api, known } = createListedApi();
  const view = await api.getView(known);
  expect(view?.endpoints.ipv4?.value.map(formatEndpoint)).toEqual(three);
  expect(await api.getView(known)).toBe(view);
  expect(world.servers.map(({ questions }) => questions.length)).toEqual([2, 0]);
  expect(problems).toEqual([]);
});

test('asks the next apiserver when one does not answer as it should', async () => {
  const { api, known } = createListedApi();
  if (world.servers[0] !== undefined) world.servers[0].manner = 'failing';
  expect((await api.getView(known))?.clusterIps).toEqual({ ipv4: '10.96.0.1' });
  expect(problems).toEqual([]);
});

test('lists the apiservers where the Service may not be read, with one sentence', async () => {
  const { api, known } = createListedApi();
  for (const server of world.servers) server.forbids = 'Service';
  const view = await api.getView(known);
  expect(view?.endpoints.ipv4?.value.map(formatEndpoint)).toEqual(three);
  expect(problems).toEqual([expect.stringContaining('may not read the Service kubernetes')]);
});

test.each(['forbidding', 'page'] as const)(
  'goes on without the API, with one sentence: %s',
  async (manner) => {
    const { api, known } = createListedApi();
    for (const server of world.servers) server.manner = manner;
    expect(await api.getView(known)).toBeNull();
    expect(await api.getView(known)).toBeNull();
    expect(problems).toHaveLength(1);
  },
);

test('goes on after two seconds where nobody answers, with one sentence', async () => {
  const clock = new FakeClock();
  const { api, known } = createListedApi(clock);
  for (const server of world.servers) server.manner = 'hanging';
  const view = api.getView(known);
  for (const { questions } of world.servers) {
    await eventually('both kinds are asked for', () => questions.length === 2);
    await clock.advance(1000);
  }
  expect(await view).toBeNull();
  expect(clock.now()).toBe(2000);
  expect(problems).toHaveLength(1);
});
