/** The controller against a real kube-apiserver. Nodes are played: see played-nodes.ts. */
import {
  useServicesWorld,
  stepsMs,
  type Balanced,
  servicesPath,
  takeoverMs,
  namespace,
} from './services-world.ts';
import { test, expect, jest, describe } from '@jest/globals';
import type { KubernetesObject } from '../../support/manifest/printing.ts';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { testAdmission } from './services-admission.ts';
import { testInjection, testTaken } from './services-injection.ts';
import { testMesh } from './services-mesh.ts';
import { virtualIps } from '../../../lib/api/vipnat.ts';
import { testRights } from './services-rights.ts';
import { testLeases } from './services-leases.ts';
import { testSeeing } from './services-seen.ts';
import { testPages } from './services-pages.ts';
import { testGates } from './services-gates.ts';
import { testRightsUsed } from './services-rights-used.ts';

jest.setTimeout(120_000);

const world = useServicesWorld();

testAdmission(world);

testInjection(world);
testTaken(world);
testMesh(world);

test('a Service gets an address that all nodes serve, with a finalizer, a condition and events', async () => {
  await world().createService('web');
  const [address = ''] = await world().awaitAddresses('web');
  expect(address).toMatch(/^10\.0\.9\.1\d$/);
  const { metadata, status } = (await world().readService('web')) as Balanced;
  expect(metadata.finalizers).toContain('vipnat.io/load-balancer');
  expect(status.loadBalancer.ingress).toMatchObject([{ ip: address, ipMode: 'VIP' }]);
  expect(status.conditions).toMatchObject([{ type: 'vipnat.io/AddressReady', status: 'True' }]);
  const path = '/apis/events.k8s.io/v1/namespaces/default/events';
  const readReasons = async () => {
    const { items } = (await world().api.ask({ method: 'GET', path })).object as unknown as {
      items: readonly { reason: string; regarding: { uid: string }; reportingController: string }[];
    };
    // The apiserver has events of its own about a Service, such as of a ClusterIP that it repairs.
    const own = items.filter(({ reportingController }) => reportingController === 'vipnat');
    return own.filter(({ regarding }) => regarding.uid === metadata.uid).map(({ reason }) => reason);
  };
  await waitFor(async () => (await readReasons()).length >= 2, stepsMs);
  expect([...new Set(await readReasons())].sort()).toEqual(['AddressAllocated', 'AddressReady']);
});

test('what a Service asks for of its ports, and does not get, is in its status', async () => {
  world().nodes.unsupported = ['SCTP'];
  const ports = [
    { port: 80, name: 'web' },
    { port: 9999, protocol: 'SCTP', name: 'sigtran' },
  ];
  await world().createService('lacking', { ports }, { 'vipnat.io/method': 'wrr' });
  await world().awaitAddresses('lacking');
  const readPorts = async () =>
    (await world().readService('lacking'))?.status.loadBalancer.ingress?.[0]?.ports;
  await waitFor(async () => (await readPorts()) !== undefined, stepsMs);
  expect(await readPorts()).toEqual([
    { port: 80, protocol: 'TCP', error: 'vipnat.io/MethodNotSupported' },
    { port: 9999, protocol: 'SCTP', error: 'vipnat.io/ProtocolNotSupported' },
  ]);
  world().nodes.unsupported = [];
  const metadata = { annotations: { 'vipnat.io/method': 'rr' } };
  await waitFor(async () => {
    await world().api.ask({ method: 'PATCH', path: `${servicesPath}/lacking`, object: { metadata } });
    return (await readPorts()) === undefined;
  }, stepsMs);
  await world().remove('lacking');
});

test('a VirtualIP that somebody deletes serves on, goes with its last Service, and is not made again', async () => {
  await world().createService('kept');
  const [name = ''] = await world().awaitAddresses('kept');
  const path = `${virtualIps.path}/${name}`;
  const find = async () => await world().api.ask({ method: 'GET', path });
  await world().api.ask({ method: 'DELETE', path });
  await waitFor(async () => JSON.stringify((await find()).object).includes('Terminating'), stepsMs);
  expect(await world().readAddresses('kept')).toEqual([name]);
  await world().remove('kept');
  await waitFor(async () => (await find()).code === 404, stepsMs);
  await new Promise((resolve) => setTimeout(resolve, 2000));
  expect((await find()).code).toBe(404);
});

test.each([
  ['10.96.7.0/24', 'the ServiceCIDR kubernetes'],
  ['fd00:10:96::7', 'the ServiceCIDR kubernetes'],
  ['10.77.1.5', 'the node n1'],
  ['10.244.1.128/25', 'the pods of the node n1'],
])('a pool of %s is refused, as it belongs to %s', async (range, owner) => {
  await world().create({
    apiVersion: 'vipnat.io/v1alpha1',
    kind: 'AddressPool',
    metadata: { name: 'foreign' } as KubernetesObject['metadata'],
    spec: { addresses: [range] },
  });
  await waitFor(async () => (await world().readPool('foreign'))['status'] !== undefined, stepsMs);
  const refused: unknown = expect.objectContaining({
    ...{ type: 'Accepted', status: 'False', reason: 'AddressesReserved' },
    message: expect.stringContaining(`belongs to ${owner}`),
  });
  const conditions: unknown = expect.arrayContaining([refused]);
  expect(await world().readPool('foreign')).toMatchObject({ status: { conditions } });
  await world().removePool('foreign');
});

testRights(world);
testLeases(world);
testSeeing(world);
testPages(world);
testGates(world);
testRightsUsed(world);

describe('two world().controllers', () => {
  let killed = '';
  const leaders = () =>
    [...world().controllers.keys()].filter((name) => / this controller leads/.test(world().readLog(name)));

  test('one leads, and the other knows it', () => {
    expect(leaders()).toHaveLength(1);
    const [waiting = ''] = [...world().controllers.keys()].filter((name) => !leaders().includes(name));
    expect(world().readLog(waiting)).toMatch(/ leads\. This controller waits/);
  });

  test('after kill -9 of the leader the other goes on, and every address is given once', async () => {
    [killed = ''] = leaders();
    await world().createService('killed');
    world().controllers.get(killed)?.kill('SIGKILL');
    await world().createService('after');
    await world().awaitAddresses('killed', 1, takeoverMs);
    await world().awaitAddresses('after');
    const names = ['web', 'killed', 'after'];
    const given = (await Promise.all(names.map((name) => world().readAddresses(name)))).flat();
    expect(new Set(given).size).toBe(given.length);
  });

  test('a leader that is told to end gives its Lease back', async () => {
    const last = leaders().find((name) => name !== killed) ?? '';
    for (const controller of world().controllers.values()) controller.kill('SIGTERM');
    for (const controller of world().controllers.values()) await controller;
    expect(world().readLog(last)).toMatch(/SIGTERM: the controller stops/);
    const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/vipnat-controller`;
    expect((await world().api.ask({ method: 'GET', path })).object).toMatchObject({
      spec: { holderIdentity: '' },
    });
  });
});
