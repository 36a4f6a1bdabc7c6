/** What following many objects has beside following one: test/unit/agent/api-watched-api.test.ts has the rest. */
import { useCertificates, ApiWorld, eventually, routeTo } from '../../../support/api/api-world.ts';
import { type Resource, type EndpointSlice, toSliceResource } from '../../../../lib/kubernetes/client.ts';
import { Informer } from '../../../../lib/kubernetes/informer.ts';
import { makeSlice } from '../../../support/kube-api/kube-store.ts';
import { beforeEach, afterEach, expect, test } from '@jest/globals';

const certificates = useCertificates();
const resource: Resource<EndpointSlice> = {
  ...toSliceResource({ namespace: 'default', name: 'any' }),
  selector: '',
  limits: { objects: 12, characters: 100_000, page: 2 },
};

let world: ApiWorld;
let informer: Informer<EndpointSlice>;
let heard: string[];
let known: ReadonlyMap<string, EndpointSlice>;
let problems: string[];
let lists: number;

const put = (name: string) => {
  world.store.put('EndpointSlice', makeSlice(['10.77.0.11'], { name }));
};
const server = () => world.server(0);

beforeEach(async () => {
  world = new ApiWorld(certificates());
  await world.startServer();
  server().allowsAll = true;
  world.store.remove('EndpointSlice', 'kubernetes');
  for (const name of ['a', 'b', 'c', 'd', 'e']) put(name);
  [heard, known, problems] = [[], new Map(), []];
  lists = 0;
  informer = start(resource);
});

function start(followed: Resource<EndpointSlice>): Informer<EndpointSlice> {
  const route = routeTo(certificates().authority, [`127.0.0.1:${server().port}`]);
  const started = new Informer({
    ...{ resource: followed, route, clock: world.clock, random: () => 0 },
    onChanges: (changes, objects) => {
      known = objects;
      lists += 1;
      heard.push(...changes.map(({ key, before, after }) => `${sign(before, after)}${key}`));
    },
    onUnreadable: ({ key, why }) => problems.push(`${key}: ${why}`),
    onLost: ({ message }) => problems.push(message),
    onFollowed: () => undefined,
  });
  started.start();
  return started;
}

afterEach(async () => {
  informer.stop();
  await world.close();
  expect(server().breaches).toEqual([]);
});

function sign(before: unknown, after: unknown): string {
  if (before === null) return '+';
  return after === null ? '-' : '~';
}

test('many objects are listed page by page, and watched from the version of the list', async () => {
  await eventually('it is watched', () => world.watches === 1);
  expect([...known.keys()]).toEqual(['a', 'b', 'c', 'd', 'e']);
  expect(heard).toEqual(['+a', '+b', '+c', '+d', '+e']);
  const queries = server().questions.map((question) => question.split('?')[1] ?? '');
  expect(queries.slice(0, 3)).toEqual(['limit=2', 'limit=2&continue=b', 'limit=2&continue=d']);
  expect(queries[3]).toContain(`resourceVersion=${world.store.version}`);
});

test('pages that take too long become smaller, and stay so for the next list', async () => {
  informer.stop();
  server().mostInTime = 1;
  server().questions.length = 0;
  informer = start(resource);
  await world.pass('all are known', () => known.size === 5);
  await eventually('it is watched', () => world.watches === 1);
  server().mostInTime = null;
  informer.relist();
  await eventually('they are listed again', () => lists === 2);
  const queries = server().questions.map((question) => question.split('?')[1] ?? '');
  expect(queries).toContain('limit=2');
});

test('what is not to be kept is not known: neither by lists nor by events', async () => {
  informer.stop();
  [heard, known] = [[], new Map()];
  const isKept = ({ metadata: { name } }: EndpointSlice) => name !== 'b' && name !== 'g';
  informer = start({ ...resource, isKept, limits: { ...resource.limits, objects: 5 } });
  await eventually('it is watched', () => world.watches === 1 && known.size === 4);
  for (let more = 0; more < 5; more += 1) put('g');
  put('f');
  await eventually('it is heard', () => heard.includes('+f'));
  expect([...known.keys()].sort()).toEqual(['a', 'c', 'd', 'e', 'f']);
  expect([heard, problems]).toEqual([['+a', '+c', '+d', '+e', '+f'], []]);
});

test('one that cannot be read stays as it was, is told once, and stops no other', async () => {
  const odd = (name: string) => {
    // As no apiserver has it.
    world.store.put('EndpointSlice', { ...makeSlice([], { name }), addressType: 7 });
  };
  informer.stop();
  odd('new');
  [heard, known] = [[], new Map()];
  informer = start(resource);
  await eventually('it is watched', () => world.watches === 1 && known.size === 5);
  odd('b');
  odd('b');
  put('f');
  await eventually('it is heard', () => heard.includes('+f'));
  expect([...known.keys()]).toEqual(['a', 'b', 'c', 'd', 'e', 'f']);
  expect(problems).toEqual(['default/new: addressType', 'default/b: addressType']);
  expect(informer.unreadable).toEqual(['default/new', 'default/b']);
  world.store.remove('EndpointSlice', 'b');
  put('new');
  await eventually('it is heard', () => heard.includes('-b') && heard.includes('+new'));
  expect(informer.unreadable).toEqual([]);
});

test('after a gap listeners hear what differs, once', async () => {
  await eventually('it is watched', () => world.watches === 1);
  heard.length = 0;
  world.store.objects.EndpointSlice.delete('b');
  world.store.putUnseen('EndpointSlice', makeSlice(['10.77.0.12'], { name: 'd' }));
  server().breakConnections();
  await world.pass('it is watched again', () => heard.length > 0 && world.watches === 1);
  expect(heard).toEqual(['-b', '~d']);
});

test('a watch that sends nothing, not even a bookmark, for 75 s is left: the next one goes on from its version', async () => {
  await eventually('it is watched', () => world.watches === 1);
  const [asked] = [server().questions.length];
  server().freezeWatches();
  put('z');
  await world.clock.advance(74_000);
  expect([known.has('z'), server().questions.length]).toEqual([false, asked]);
  await world.pass('it is heard', () => known.has('z'));
  expect(server().questions.slice(asked)).toEqual([expect.stringContaining('watch=true')]);
  expect(problems).toEqual([]);
});

test('a watch that ends at once is none: that is a problem, until one lasts', async () => {
  await eventually('it is watched', () => world.watches === 1);
  await world.clock.advance(5000);
  server().endsWatches = true;
  server().endWatches();
  await world.pass('it is a problem', () => problems.length > 0);
  expect(problems).toEqual([expect.stringContaining('it ended immediately')]);
  server().endsWatches = false;
  await world.pass('it is watched again', () => world.watches === 1);
});

test.each(['failing', 'busy', 'forbidding', 'unauthorized'] as const)(
  'a watch that a server refuses goes on from its version, without a list: %s',
  async (manner) => {
    await eventually('it is watched', () => world.watches === 1);
    await world.clock.advance(5000);
    const [asked, endsMs] = [server().questions.length, world.clock.now() + 18_000];
    server().manner = manner;
    server().endWatches();
    await world.pass('it is a problem', () => problems.length > 0 && world.clock.now() > endsMs);
    // A server that says when to ask again is asked then.
    expect(server().questions.length - asked > 2).toBe(manner !== 'busy');
    put('z');
    server().manner = 'well';
    await world.pass('it is heard', () => known.has('z'));
    expect(server().questions.slice(asked)).not.toContainEqual(expect.not.stringContaining('watch=true'));
  },
);

test('a watch with a bookmark each minute goes on', async () => {
  await eventually('it is watched', () => world.watches === 1);
  const [asked] = [server().questions.length];
  await world.clock.advance(60_000);
  world.store.putUnseen('EndpointSlice', makeSlice(['10.77.0.12'], { name: 'unseen' }));
  server().bookmark();
  await eventually('it is heard', () => informer.version === String(world.store.version));
  await world.clock.advance(50_000);
  expect(server().questions).toHaveLength(asked);
});

test('when what is known was found to be old, all is listed again, once', async () => {
  await eventually('it is watched', () => world.watches === 1);
  server().freezeWatches();
  put('z');
  for (let times = 0; times < 5; times += 1) informer.catchUp();
  await world.pass('it is heard', () => known.has('z'));
  expect(informer.listed).toBe(1);
});

test('a list whose version is forgotten between two pages is begun again', async () => {
  server().forgetsLists = true;
  await world.pass('it is refused', () => world.count(/continue=b/) > 1);
  expect(known.size).toBe(0);
  server().forgetsLists = false;
  await world.pass('all is known', () => known.size === 5);
  expect(problems).toEqual([]);
});

test('a server that lists more than there may be is not believed, and those that are known stay', async () => {
  await eventually('it is watched', () => world.watches === 1);
  world.store.oldest = world.store.version + 20;
  for (let more = 0; more < 10; more += 1) put(`x${more}`);
  await world.pass('it is refused', () => problems.length > 0);
  expect(problems[0]).toMatch(/ than 12 EndpointSlices$/);
  expect(known.size).toBeGreaterThanOrEqual(5);
});

test('an API without a kind that may be missing has none of it, and is asked again after ten minutes', async () => {
  informer.stop();
  const path = '/apis/discovery.k8s.io/v2/endpointslices';
  lists = 0;
  informer = start({ ...resource, path, mayBeMissing: true });
  await eventually('it is told', () => lists === 1);
  expect([known.size, informer.version !== null, world.count(/v2/)]).toEqual([0, true, 1]);
  await world.clock.advance(9 * 60_000);
  expect(world.count(/v2/)).toBe(1);
  await world.pass('it is asked again', () => world.count(/v2/) === 2);
  expect(problems).toEqual([]);
  informer.stop();
  informer = start({ ...resource, path });
  await world.pass('it is a problem', () => problems.length > 0);
  expect(problems[0]).toContain('404');
});
