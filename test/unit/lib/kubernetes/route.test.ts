import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { type KubeApi } from '../../../support/kube-api/kube-api.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { ApiRoute } from '../../../../lib/kubernetes/route.ts';
import { makeSlice } from '../../../support/kube-api/kube-store.ts';
import { vips } from '../../../support/network/layout.ts';
import { ApiWorld, eventually, useCertificates, watchPattern } from '../../../support/api/api-world.ts';

const addresses = ['10.77.0.11', '10.77.0.12', '10.77.0.13', '10.77.0.14'];

const two = ['10.77.0.11:6443', '10.77.0.12:6443'];

const certificates = useCertificates();
const foreign = useCertificates();

let world: ApiWorld;
let first: KubeApi;
beforeEach(async () => {
  world = new ApiWorld(certificates());
  first = await world.startServer();
});
afterEach(async () => {
  await world.close();
  expect(world.servers.flatMap(({ breaches }) => breaches)).toEqual([]);
  await eventually('nothing is scheduled', () => world.clock.pending === 0);
});

test('others to ask are told apart from the same ones, in whichever object they come', () => {
  const route = new ApiRoute(() => Promise.reject(new Error('nobody asks')), []);
  const know = (...texts: string[]) =>
    route.setServers({ endpoints: texts.map(toEndpoint), localAddresses: new Set(['10.77.0.11']) });
  expect([know(...two), know(...two), know(...two.slice(1)), know()]).toEqual([true, false, true, true]);
});

describe('several apiservers', () => {
  test('of which none will do: the line is about the one that says most', async () => {
    const second = await world.startServer();
    const third = await world.startServer(foreign());
    first.manner = 'failing';
    second.manner = 'forbidding';
    world.consult();
    await world.pass('it is said', () => world.linesOf('warn').length > 0);
    expect(world.linesOf('warn')).toEqual([expect.stringContaining('is answered with 403')]);
    expect(third.questions).toEqual([]);
  });

  test('are asked in turn: when one goes, the next is asked at once, and nothing is said', async () => {
    await world.startServer();
    await world.follow();
    await first.stop();
    await world.pass('the second is watched', () => world.servers[1]?.watches === 2);
    world.store.put('EndpointSlice', makeSlice(addresses));
    await eventually('the fourth is known', () => world.listed().length === 4);
    expect([world.linesOf('warn'), world.api.view?.isCurrent]).toEqual([[], true]);
  });

  test('of which the one that is followed goes down without a word: another is followed, and nothing is said', async () => {
    const second = await world.startServer();
    await world.follow();
    expect([first.watches, second.watches]).toEqual([2, 0]);
    world.api.setUnhealthy(new Set([`127.0.0.1:${first.port}`]));
    await eventually('the second is watched', () => second.watches === 2);
    world.store.put('EndpointSlice', makeSlice(addresses));
    await eventually('the fourth is known', () => world.listed().length === 4);
    expect([world.linesOf('info').length, world.linesOf('warn')]).toEqual([1, []]);
  });

  test('of which all are down: none is left for another', async () => {
    const second = await world.startServer();
    await world.follow();
    const before = world.count(watchPattern);
    world.api.setUnhealthy(new Set(world.servers.map(({ port }, index) => `127.0.0.${index + 1}:${port}`)));
    await world.clock.advance(5000);
    expect([first.watches, second.watches, world.count(watchPattern)]).toEqual([2, 0, before]);
    world.api.setUnhealthy(new Set([`127.0.0.1:${first.port}`]));
    await eventually('the one that came back is watched', () => second.watches === 2);
  });

  test('of which the first is down: it is asked last', async () => {
    const second = await world.startServer();
    world.api.setUnhealthy(new Set([`127.0.0.1:${first.port}`]));
    await world.follow();
    expect([first.questions, second.watches]).toEqual([[], 2]);
  });

  test('that become known while nobody answers are asked at once', async () => {
    world.consult();
    await world.follow();
    await first.stop();
    await world.pass('it is said', () => world.linesOf('warn').length > 0);
    await world.startServer();
    world.consult();
    await eventually('it is followed', () => world.watches === 2);
  });
});

describe('a kubeconfig that names the VIP', () => {
  test('is never followed there: the apiserver is asked at its own address, under the name of the VIP', async () => {
    await world.follow();
    expect(world.linesOf('info')[0]).toContain(`127.0.0.1:${first.port}`);
  });

  test.each([
    ['tls-server-name', 'kubernetes.default.svc', true],
    ['an address', vips.ipv4, true],
    ['a name that it is not for', 'other.example', false],
  ])('and the certificate has to be for it: %s', async (_what, serverName, isFollowed) => {
    await world.close();
    world = new ApiWorld(certificates(), { serverName });
    first = await world.startServer();
    world.consult();
    if (isFollowed) {
      await eventually('it is followed', () => world.watches === 2);
      return;
    }
    await world.pass('it is said', () => world.linesOf('warn').length > 0);
    expect(world.linesOf('warn')[0]).toContain(`its certificate is not for ${serverName}`);
    expect(first.questions).toEqual([]);
  });
});
