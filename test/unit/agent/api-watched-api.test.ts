import { three, useCertificates, ApiWorld, eventually, watchPattern } from '../../support/api/api-world.ts';
import { beforeEach, afterEach, expect, describe, test } from '@jest/globals';
import { makeSlice } from '../../support/kube-api/kube-store.ts';
import type { Manner } from '../../support/kube-api/kube-answers.ts';

const addresses = ['10.77.0.11', '10.77.0.12', '10.77.0.13', '10.77.0.14'];
const four = [...three, '10.77.0.14:6443'];

const certificates = useCertificates();
const foreign = useCertificates();

let world: ApiWorld;
beforeEach(async () => {
  world = new ApiWorld(certificates());
  await world.startServer();
});
afterEach(async () => {
  await world.close();
  expect(world.servers.flatMap(({ breaches }) => breaches)).toEqual([]);
  await eventually('nothing is scheduled', () => world.clock.pending === 0);
});

const lists = /^[^?]+\?[a-z]+Selector=[^&]+$/i;
const watches = watchPattern;
const count = (pattern: RegExp) => world.count(pattern);
const server = () => world.server(0);

describe('the API that answers', () => {
  test('is listed once and watched: a change arrives by itself, and is told as a hint', async () => {
    await world.follow();
    expect(world.listed()).toEqual(three);
    expect(world.api.view).toMatchObject({
      ...{ clusterIps: { ipv4: '10.96.0.1' }, affinitySeconds: null, isCurrent: true },
    });
    const before = world.changes;
    world.store.put('EndpointSlice', makeSlice(addresses));
    await eventually('the fourth is known', () => world.listed().length === 4);
    expect(world.listed()).toEqual(four);
    expect(world.changes).toBe(before + 1);
    expect([count(lists), count(watches)]).toEqual([2, 2]);
    expect(world.linesOf('info')).toEqual([
      `vipnat follows the API at 127.0.0.1:${server().port} (/etc/kubernetes/admin.conf)`,
    ]);
  });

  test('is that of the EndpointSlice which kube-apiserver keeps, whatever others label for the Service', async () => {
    await world.follow();
    world.store.put('EndpointSlice', makeSlice(['10.77.0.67'], { name: 'kubernetes-by-somebody' }));
    world.store.put('EndpointSlice', makeSlice(addresses));
    await eventually('the fourth is known', () => world.listed().length === 4);
    expect(world.listed()).toEqual(four);
    expect(world.api.view?.endpoints.ipv4?.seenIn).toBe("the API's EndpointSlice kubernetes");
  });

  test('changes its family with the control plane, which then makes that EndpointSlice anew', async () => {
    await world.follow();
    world.store.remove('EndpointSlice', 'kubernetes');
    await eventually('it is gone', () => world.listed().length === 0);
    world.store.put('EndpointSlice', makeSlice(['fd77::11'], { addressType: 'IPv6' }));
    await eventually('it is there again', () => world.listed('ipv6').length === 1);
  });

  test.each(['event', 'status'] as const)('is listed anew if its version is gone: %s', async (refusesBy) => {
    await world.follow();
    server().refusesBy = refusesBy;
    world.store.putUnseen('EndpointSlice', makeSlice(addresses));
    server().breakConnections();
    await world.pass('it is listed again', () => world.listed().length === 4 && world.watches === 2);
    expect(count(lists)).toBeGreaterThanOrEqual(3);
    expect([world.api.view?.isCurrent, world.api.following.isFollowed]).toEqual([true, true]);
    expect(world.linesOf('error')).toEqual([]);
  });

  test('may end a watch when its time is over: nothing is said and nothing listed', async () => {
    await world.follow();
    server().endWatches();
    await world.pass('it is watched again', () => count(watches) === 4 && world.watches === 2);
    expect([count(lists), world.linesOf('warn')]).toEqual([2, []]);
  });

  test('is asked no more after the end', async () => {
    await world.follow();
    world.api.stop();
    await eventually('the watches end', () => world.watches === 0);
    const asked = server().questions.length;
    await world.clock.advance(600_000);
    expect(server().questions).toHaveLength(asked);
  });
});

describe('the API that does not let the Service be read', () => {
  test('is followed for its apiservers, and says so once', async () => {
    server().forbids = 'Service';
    world.consult();
    await world.pass('it is followed', () => world.api.following.isFollowed);
    expect(world.api.view).toMatchObject({ clusterIps: {}, affinitySeconds: null, isCurrent: true });
    expect(world.listed()).toEqual(three);
    const asked = server().questions.length;
    await world.pass('it is tried again', () => server().questions.length > asked + 3);
    world.store.put('EndpointSlice', makeSlice(addresses));
    await eventually('the fourth is known', () => world.listed().length === 4);
    expect(world.api.view?.isCurrent).toBe(true);
    expect(world.linesOf('warn')).toEqual([
      expect.stringMatching(
        /^vipnat may not read the Service kubernetes: .*is forbidden.*It follows the apiservers nevertheless/,
      ),
    ]);
  });

  test('says so when it may be read again', async () => {
    server().forbids = 'Service';
    world.consult();
    await world.pass('it is followed', () => world.api.following.isFollowed);
    server().forbids = null;
    await world.pass('it is said', () => world.linesOf('info').length > 1);
    expect(world.linesOf('info')[1]).toBe('vipnat can read the Service kubernetes from the API again');
    expect(world.api.view?.clusterIps).toEqual({ ipv4: '10.96.0.1' });
  });
});

describe('the API that is lost', () => {
  const ways: [Manner, RegExp, string][] = [
    ['failing', /is answered with 500: etcdserver: request timed out/, 'API_ANSWER_UNEXPECTED'],
    ['hanging', /failed: no answer within 5 s/, 'API_UNREACHABLE'],
    ['page', /failed: it sends a line that is not an event/, 'API_ANSWER_UNEXPECTED'],
    ['another kind', /failed: (the answer is not a|it sends .* that is not an? )/, 'API_ANSWER_UNEXPECTED'],
    ['forbidding', /403: endpointslices is forbidden.*; allow it to get, list and watch/, 'API_FORBIDDEN'],
    ['unauthorized', /401: Unauthorized; give credentials that are still valid/, 'API_FORBIDDEN'],
  ];

  test.each(ways)('%s: one line down, one line up, and what it said stays', async (manner, why, code) => {
    await world.follow();
    const { view } = world.api;
    server().manner = manner;
    server().breakConnections();
    await world.pass('it is said', () => world.linesOf('warn').length > 0);
    // More than one round of it.
    const asked = server().questions.length;
    await world.pass('it is tried again', () => server().questions.length > asked + 6);
    expect([world.api.view, world.api.following.isFollowed]).toEqual([{ ...view, isCurrent: false }, false]);
    expect(world.linesOf('warn')).toEqual([
      expect.stringMatching(
        /^vipnat cannot follow the Kubernetes API: .*The apiservers that the API last named stay in use/,
      ),
    ]);
    server().manner = 'well';
    await world.pass('it is back', () => world.linesOf('info').length > 1);
    expect(world.linesOf('warn')).toHaveLength(1);
    expect(world.linesOf('info')).toHaveLength(2);
    expect(world.linesOf('info')[1]).toMatch(/ again after \d+(\.\d)? s \(/);
    expect(world.api.view).toEqual(view);
    const first = world.logger.lines.find(({ level }) => level === 'warn');
    expect(first?.message).toMatch(why);
    expect(first?.fields['code']).toBe(code);
  });

  test('presents the certificate of another cluster: it is named as that, and shown no token', async () => {
    const stranger = await world.startServer(foreign());
    await server().stop();
    world.consult();
    await world.pass('it is said', () => world.linesOf('warn').length > 0);
    const lines = world.logger.lines.map(({ message }) => message).join('\n');
    expect(lines).toMatch(
      /its certificate does not come from the CA of \/etc\/kubernetes\/admin\.conf \(.*\): another cluster's\?/,
    );
    expect(stranger.questions).toEqual([]);
  });

  test('cannot fill the memory: a line without end breaks off the watch', async () => {
    await world.follow();
    server().sendText('x'.repeat(3_000_000));
    await world.pass('it is said', () => world.linesOf('warn').length > 0);
    expect(world.linesOf('warn')[0]).toContain('what it sends has no end');
    expect(world.listed()).toEqual(three);
  });
});
