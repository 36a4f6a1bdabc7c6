/** Writes and reads of single objects, against an API on a local socket. */
import { useCertificates, eventually, routeTo } from '../../../support/api/api-world.ts';
import * as z from 'zod/mini';
import { KubeApi } from '../../../support/kube-api/kube-api.ts';
import { RoutedClient, type ObjectWrite } from '../../../../lib/kubernetes/writes.ts';
import { beforeEach, afterEach, describe, test, expect } from '@jest/globals';
import { systemClock } from '../../../../lib/clock.ts';

const certificates = useCertificates();
const collection = '/apis/coordination.k8s.io/v1/namespaces/vipnat-system/leases';
const path = `${collection}/one`;
const schema = z.object({ metadata: z.object({ resourceVersion: z.string() }) });
const limitMs = 60_000;

let api: KubeApi;
let client: RoutedClient;
let ending: AbortController;

beforeEach(async () => {
  api = await KubeApi.start({ pair: certificates().serving('m1') });
  ending = new AbortController();
  client = createClient('127.0.0.1');
});

afterEach(async () => {
  ending.abort();
  await api.stop();
});

function createClient(...hosts: readonly string[]): RoutedClient {
  const places = hosts.map((host) => `${host}:${api.port}`);
  return new RoutedClient(routeTo(certificates().authority, places), systemClock, ending.signal);
}

const write = (method: ObjectWrite['method'], metadata: object = {}, spec: object = {}) => {
  const body = { metadata: { name: 'one', ...metadata }, spec };
  const where = method === 'POST' ? collection : path;
  return client.write({ title: 'writing it', method, path: where, body }, limitMs);
};
const read = () => client.read({ title: 'reading it', path, schema }, limitMs);

describe('a write', () => {
  test('is taken, with the version that the object has then', async () => {
    expect(await write('POST')).toMatchObject({ outcome: 'taken', version: '101' });
    const patched = write('PATCH', { resourceVersion: '101' }, { holderIdentity: 'm1' });
    expect(await patched).toMatchObject({ outcome: 'taken', version: '102' });
  });

  test('of what is there already, was written since, or is gone is told apart', async () => {
    expect(await write('PATCH', { resourceVersion: '1' })).toMatchObject({ outcome: 'gone', version: null });
    await write('POST');
    expect(await write('POST')).toMatchObject({ outcome: 'exists', version: null });
    expect(await write('PATCH', { resourceVersion: '7' })).toMatchObject({ outcome: 'conflict' });
    expect(api.leases.writes).toBe(1);
  });

  test('that deletes has no version afterwards', async () => {
    await write('POST');
    expect(await write('DELETE')).toMatchObject({ outcome: 'taken', version: null });
    expect(await read()).toEqual({ outcome: 'gone' });
  });

  test.each([
    [403, 'forbidden'],
    [422, 'refused'],
    [413, 'refused'],
    [429, 'unreachable'],
    [503, 'unreachable'],
    [504, 'unreachable'],
    // No answer of a kube-apiserver.
    [302, 'unreachable'],
  ] as const)('answered with %i is %s, naming the server and its reason', async (code, outcome) => {
    api.leases.refusal = code;
    const answer = await write('POST');
    expect(answer).toMatchObject({ outcome, version: null });
    expect(answer.detail).toMatch(
      new RegExp(`^writing it at 127\\.0\\.0\\.1:${api.port} is answered with ${code}: leases cannot`),
    );
  });

  test.each(['page', 'unauthorized', 'failing'] as const)('to a %s server is not done', async (manner) => {
    api.manner = manner;
    expect(await write('POST')).toMatchObject({ version: null });
    expect((await write('POST')).outcome).toMatch(/^(?:unreachable|forbidden)$/);
  });

  test('that is not answered ends within its limit', async () => {
    api.manner = 'hanging';
    const body = { metadata: { name: 'one' } };
    const hung = await client.write({ title: 'writing it', method: 'POST', path: collection, body }, 100);
    expect(hung).toMatchObject({
      outcome: 'unreachable',
      detail: expect.stringContaining('no answer within'),
    });
  });

  test('ends when its process does', async () => {
    api.manner = 'hanging';
    const answer = write('POST');
    await eventually('it is asked', () => api.questions.length > 0);
    ending.abort();
    expect(await answer).toMatchObject({ outcome: 'unreachable' });
  });
});

describe('a read', () => {
  test('finds an object, and says that there is none', async () => {
    expect(await read()).toEqual({ outcome: 'gone' });
    await write('POST');
    expect(await read()).toEqual({ outcome: 'found', object: { metadata: { resourceVersion: '101' } } });
  });

  test('that is forbidden says so', async () => {
    api.manner = 'forbidding';
    expect(await read()).toMatchObject({
      outcome: 'forbidden',
      detail: expect.stringContaining('is answered with 403: endpointslices is forbidden'),
    });
  });

  test.each(['page', 'another kind'] as const)('that is answered by %s names the server', async (manner) => {
    api.manner = manner;
    const kinds = z.object({ kind: z.literal('Lease') });
    expect(await client.read({ title: 'reading it', path, schema: kinds }, limitMs)).toEqual({
      outcome: 'unreachable',
      detail: `reading it at 127.0.0.1:${api.port} failed: the answer is not such an object`,
    });
  });
});

test('a server that is away, or answers nothing of use, is not the first to be asked next', async () => {
  const peer = await KubeApi.start({ pair: certificates().serving('m1'), host: '127.0.0.2', port: api.port });
  client = createClient('127.0.0.1', '127.0.0.2');
  api.leases.refusal = 503;
  expect([(await write('POST')).outcome, (await write('POST')).outcome]).toEqual(['unreachable', 'taken']);
  expect(peer.leases.find('one')).not.toBeNull();
  await peer.stop();
});
