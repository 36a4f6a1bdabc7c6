/** A controller that is killed after each of its writes, against a real kube-apiserver. Nodes are played: see played-nodes.ts. */
import { jest, beforeAll, afterAll, expect, test } from '@jest/globals';
import { useServicesWorld, servicesPath, type Balanced } from './services-world.ts';
import { ShortLives } from './short-lives.ts';
import { virtualIps, type VirtualIp, addressPools } from '../../../lib/api/vipnat.ts';

jest.setTimeout(300_000);

let lives: ShortLives | undefined;
afterAll(() => lives?.stop());
const world = useServicesWorld([]);
const until = async (what: string, isSo: () => Promise<boolean>) => {
  await lives?.until(what, isSo);
  await expectTruth();
};
const change = async (name: string, object: object) =>
  await world().api.ask({ method: 'PATCH', path: `${servicesPath}/${name}`, object });

beforeAll(async () => {
  lives = new ShortLives(world());
  await lives.start();
});

const listUsers = async (): Promise<Map<string, string[]>> => {
  const { object } = await world().api.ask({ method: 'GET', path: virtualIps.path });
  const items = object['items'] as readonly VirtualIp[];
  return new Map(items.map(({ metadata, spec }) => [metadata.name, spec.services.map(({ name }) => name)]));
};

/** No address is published twice, and each that is published is given to that Service. */
async function expectTruth(): Promise<void> {
  const { object } = await world().api.ask({ method: 'GET', path: servicesPath });
  const items = object['items'] as readonly (Balanced & { metadata: { name: string } })[];
  const published = items.flatMap(({ metadata, status }) =>
    (status.loadBalancer.ingress ?? []).map(({ ip }) => ({ ip, name: metadata.name })),
  );
  expect(new Set(published.map(({ ip }) => ip)).size).toBe(published.length);
  const users = await listUsers();
  for (const { ip, name } of published) expect(users.get(ip.replaceAll(':', '-'))).toEqual([name]);
}

test('a Service gets an address of each family, and another Service another address', async () => {
  await world().createService('web', { ipFamilyPolicy: 'RequireDualStack', ipFamilies: ['IPv4', 'IPv6'] });
  await world().createService('other');
  await until('both have addresses', async () => {
    const [web, other] = [await world().readAddresses('web'), await world().readAddresses('other')];
    return web.length === 2 && other.length === 1;
  });
  expect(lives?.writes.length).toBeGreaterThanOrEqual(8);
});

test('a Service that asks for another address gets it, and gives the former one back', async () => {
  const [before = ''] = await world().readAddresses('other');
  const given = [before, ...(await world().readAddresses('web'))];
  const wanted = ['10.0.9.17', '10.0.9.18', '10.0.9.19'].find((address) => !given.includes(address)) ?? '';
  await change('other', { metadata: { annotations: { 'vipnat.io/addresses': wanted } } });
  await until('it has moved', async () => {
    const users = await listUsers();
    const hasMoved = (await world().readAddresses('other')).join() === wanted;
    return hasMoved && (users.get(before) ?? []).length === 0;
  });
});

test('a Service that goes to another class loses address and finalizers, and gets them again when it is back', async () => {
  await change('other', { spec: { type: 'ClusterIP', loadBalancerClass: null } });
  await change('other', { spec: { type: 'LoadBalancer', loadBalancerClass: 'somebody.else/lb' } });
  await until('it has nothing of ours', async () => {
    const { metadata, status } = (await world().readService('other')) as Balanced;
    return metadata.finalizers === undefined && status.loadBalancer.ingress === undefined;
  });
  await change('other', { spec: { type: 'ClusterIP', loadBalancerClass: null } });
  await change('other', { spec: { type: 'LoadBalancer', loadBalancerClass: 'vipnat.io/lb' } });
  await until('it has an address', async () => (await world().readAddresses('other')).length === 1);
});

test('Services that are deleted go, and so do their addresses and the pool', async () => {
  await world().api.ask({
    method: 'PATCH',
    path: `${addressPools.path}/default`,
    object: { spec: { reuseAfter: '1s' } },
  });
  for (const name of ['web', 'other'])
    await world().api.ask({ method: 'DELETE', path: `${servicesPath}/${name}` });
  await until('both are gone', async () => {
    const [web, other] = [await world().readService('web'), await world().readService('other')];
    return web === null && other === null;
  });
  await until('no address is left', async () => (await listUsers()).size === 0);
  await world().api.ask({ method: 'DELETE', path: `${addressPools.path}/default` });
  await until('the pool is gone', async () => (await world().readPool('default')).kind !== 'AddressPool');
  process.stderr.write(`services-killed.test.ts: ${lives?.writes.length ?? 0} controllers were killed\n`);
});
