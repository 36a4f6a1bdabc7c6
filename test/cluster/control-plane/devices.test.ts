/** A controller with the printed rights against a real kube-apiserver, and a device in memory. */
import { jest, expect, beforeAll, afterAll, test } from '@jest/globals';
import { PlainDevice } from '../../support/fakes/plain-device.ts';
import { createRecordingLogger } from '../../support/fakes/logger.ts';
import { ServicesWorld, namespace, stepsMs, takeoverMs, servicesPath } from './services-world.ts';
import { type KubernetesObject, parse } from '../../support/manifest/printing.ts';
import { findAccess, ApiRoute } from '../../../lib/kubernetes/route.ts';
import { systemClock, systemRandom } from '../../../lib/clock.ts';
import { EventWriter } from '../../../lib/telemetry/events.ts';
import { Controller } from '../../../controller/main.ts';
import { loadDriver } from '../../../devices/drivers.ts';
import { RoutedClient } from '../../../lib/kubernetes/writes.ts';
import { ControllerLog } from '../../../controller/report/log.ts';
import { devices } from '../../../lib/api/device.ts';
import { parseDocument } from '../../support/documents/document.ts';
import { readFileSync } from 'node:fs';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { startDriverExample } from '../../support/documents/driver-example.ts';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { watchObjects } from '../../../lib/kubernetes/list-watch.ts';
import { loadBalancerServices } from '../../../lib/api/service.ts';

jest.setTimeout(180_000);

const device = new PlainDevice();
const password = 'known-to-the-device';
const logger = createRecordingLogger();
let world: ServicesWorld;
let stop: () => Promise<void> = () => Promise.resolve();

const toDevice = (name: string, spec: object = {}): KubernetesObject => ({
  apiVersion: 'vipnat.io/v1alpha1',
  kind: 'LoadBalancerDevice',
  metadata: { name } as KubernetesObject['metadata'],
  spec: {
    ...{ driver: 'plain', cluster: 'prod', units: ['u1'], targets: 'pods' },
    ...{ addresses: ['10.0.7.10-10.0.7.12'], credentialsSecret: { name: 'vipnat-devices' }, ...spec },
  },
});

const slicesPath = '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices';

const toEndpoints = (...addresses: readonly string[]) =>
  addresses.map((address) => ({ addresses: [address], conditions: { ready: true } }));

async function createSlice(service: string, ...addresses: readonly string[]): Promise<void> {
  const labels = { 'kubernetes.io/service-name': service };
  const object = {
    ...{ apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', metadata: { name: service, labels } },
    ...{ addressType: 'IPv4', ports: [{ port: 8080, protocol: 'TCP' }] },
    endpoints: toEndpoints(...addresses),
  };
  expect(await world.api.ask({ method: 'POST', path: slicesPath, object })).toMatchObject({ code: 201 });
}

function startController(identity: string): () => Promise<void> {
  const readAccess = findAccess(world.kubeconfig, {});
  if (readAccess === null) throw new Error('no credentials');
  const [clock, random] = [systemClock, systemRandom];
  const route = new ApiRoute(readAccess, [], null);
  const ending = new AbortController();
  const events = new EventWriter({ route, clock, random, logger, node: 'here' });
  const controller = new Controller(
    {
      ...{ route, clock, random, onDrained: () => undefined },
      client: new RoutedClient(route, clock, ending.signal),
      log: new ControllerLog(logger, events, clock),
      findDriver: async (name) => (name === 'plain' ? device.createDriver : await loadDriver(name)),
    },
    {
      ...{ namespace, identity, isDefaultClass: false, defaultDevice: 'edge', gateTypes: new Set<string>() },
      apiVips: [],
    },
  );
  controller.start();
  return async () => {
    await controller.stop();
    await events.stop();
    ending.abort();
  };
}

beforeAll(async () => {
  device.password = password;
  world = await ServicesWorld.start([]);
  await world.create({
    ...{ apiVersion: 'v1', kind: 'Secret', stringData: { username: 'vipnat', password } },
    metadata: { name: 'vipnat-devices', namespace },
  });
  stop = startController('first');
});
afterAll(async () => {
  await stop();
  await world.stop();
});

const readDevice = async (name: string) =>
  (await world.api.ask({ method: 'GET', path: `${devices.path}/${name}` })).object as unknown as {
    readonly metadata: { readonly finalizers?: readonly string[] };
    readonly status?: {
      readonly units?: readonly object[];
      readonly conditions?: readonly { readonly reason: string }[];
    };
  };

const listMembers = () =>
  device
    .list('prod')
    .flatMap(({ listeners }) => listeners.flatMap(({ members }) => members))
    .map(({ address, port }) => `${address.text}:${port}`);

test('the definition refuses what cannot be meant, and another cluster or driver later', async () => {
  const attempt = async (object: KubernetesObject, method: 'POST' | 'PATCH' = 'POST') => {
    const path = `${devices.path}${method === 'PATCH' ? `/${object.metadata.name}` : ''}?dryRun=All`;
    return (await world.api.ask({ method, path, object })).code;
  };
  const refused: readonly [string, object][] = [
    ...(['lb', 'a.b'] as const).map((name): [string, object] => [name, {}]),
    ...[{ cluster: 'Prod' }, { units: [] }].map((spec): [string, object] => ['tried', spec]),
    ...[{ units: ['a', 'b', 'c'] }, { targets: 'all' }, { addresses: ['x'] }].map(
      (spec): [string, object] => ['tried', spec],
    ),
  ];
  for (const [name, spec] of refused)
    expect([name, spec, await attempt(toDevice(name, spec))]).toEqual([name, spec, 422]);
  // What a page says a file has, the API takes.
  for (const page of ['device-haproxy', 'drivers']) {
    const { code } = parseDocument(page, readFileSync(`docs/${page}.md`, 'utf8'));
    const [text = ''] = code.map((one) => one.text).filter((one) => one.includes('kind: LoadBalancerDevice'));
    expect([page, await Promise.all(parse(text).map((one) => attempt(one)))]).toEqual([page, [201]]);
  }
  await world.create(toDevice('kept'));
  for (const spec of [{ cluster: 'test' }, { driver: 'other' }])
    expect(await attempt({ ...toDevice('kept'), spec }, 'PATCH')).toBe(422);
  await world.api.ask({ method: 'DELETE', path: `${devices.path}/kept` });
  await waitFor(
    async () => (await world.api.ask({ method: 'GET', path: `${devices.path}/kept` })).code === 404,
    stepsMs,
  );
});

test('a device gets its finalizer, and says how it does', async () => {
  await world.create(toDevice('edge'));
  await waitFor(
    async () => (await readDevice('edge')).status?.conditions?.[0]?.reason === 'Ready',
    takeoverMs,
  );
  expect(await readDevice('edge')).toMatchObject({
    metadata: { finalizers: ['vipnat.io/load-balancer'] },
    status: { units: [{ unit: 'u1', role: 'active' }] },
  });
});

test('a Service of its class is served there, follows its endpoints, and leaves nothing behind', async () => {
  await createSlice('web', '10.1.0.1', '10.1.0.2');
  await world.createService('web', { loadBalancerClass: 'vipnat.io/edge' });
  expect(await world.awaitAddresses('web')).toEqual(['10.0.7.10']);
  expect(await world.readService('web')).toMatchObject({
    metadata: { finalizers: expect.arrayContaining(['device.vipnat.io/edge']) as unknown },
    status: {
      loadBalancer: { ingress: [{ ip: '10.0.7.10', ipMode: 'Proxy' }] },
      conditions: [{ type: 'vipnat.io/AddressReady', status: 'True', reason: 'Ready' }],
    },
  });
  expect(listMembers()).toEqual(['10.1.0.1:8080', '10.1.0.2:8080']);
  const object = { endpoints: toEndpoints('10.1.0.1', '10.1.0.3') };
  await world.api.ask({ method: 'PATCH', path: `${slicesPath}/web`, object });
  await waitFor(() => Promise.resolve(listMembers().includes('10.1.0.3:8080')), stepsMs);
  const { object: slice } = await world.api.ask({ method: 'GET', path: `${slicesPath}/web` });
  expect((slice as unknown as KubernetesObject).metadata).not.toHaveProperty('finalizers');
  await world.remove('web');
  expect([...device.objects]).toEqual([]);
});

test('a Service whose type or annotation changes is cleaned up on the device', async () => {
  await world.createService('typed', { loadBalancerClass: 'vipnat.io/edge' });
  await world.createService('noted', { loadBalancerClass: null }, { 'lb.zcloud.cn/vip': '10.0.7.11' });
  for (const name of ['typed', 'noted']) await world.awaitAddresses(name);
  expect(device.list('prod')).toHaveLength(2);
  const changes = {
    typed: { spec: { type: 'ClusterIP', loadBalancerClass: null } },
    noted: { metadata: { annotations: { 'lb.zcloud.cn/vip': null } } },
  };
  for (const [name, object] of Object.entries(changes)) {
    await world.api.ask({ method: 'PATCH', path: `${servicesPath}/${name}`, object });
    await world.awaitAddresses(name, 0);
    const isFree = async () => ((await world.readService(name))?.metadata.finalizers ?? []).length === 0;
    await waitFor(isFree, stepsMs);
  }
  expect([...device.objects]).toEqual([]);
});

/** The addresses in each version of a Service's status after one, until the one of now. */
async function readHistory(name: string, version: string): Promise<string[]> {
  const readAccess = findAccess(world.kubeconfig, {});
  if (readAccess === null) throw new Error('no credentials');
  const route = new ApiRoute(readAccess, [], null);
  const last = (await world.readService(name))?.metadata.resourceVersion;
  const ending = new AbortController();
  const history: string[] = [];
  const watching = watchObjects(
    loadBalancerServices,
    { ...(await route.choose()), clock: systemClock, forbidden: route.forbidden, signal: ending.signal },
    {
      ...{ version, seconds: 60, idleSeconds: 60, onBegin: () => undefined, onEnd: () => undefined },
      onEvent: (event) => {
        if (event.type !== 'put' || event.object.metadata.name !== name) return;
        const ingress = event.object.status?.loadBalancer?.ingress ?? [];
        history.push(ingress.map(({ ip }) => ip ?? '').join());
        if (event.object.metadata.resourceVersion === last) ending.abort();
      },
    },
  );
  await watching.catch((error: unknown) => {
    if (!ending.signal.aborted) throw error;
  });
  return history;
}

test('a Service of another controller is taken over without a gap, with its Endpoints, once they may be written', async () => {
  const annotations = { 'lb.zcloud.cn/vip': '10.0.7.12', 'lb.zcloud.cn/method': 'lc' };
  device.objects.set('elb_default_old', 'what the other controller has there');
  const select = (serviceSelector: object | null) =>
    world.api.ask({ method: 'PATCH', path: `${devices.path}/edge`, object: { spec: { serviceSelector } } });
  await select({ matchLabels: { moves: 'yes' } });
  await world.createService('old', { loadBalancerClass: null }, annotations);
  const change = { metadata: { finalizers: ['lb.zcloud.cn/protect'] } };
  await world.api.ask({ method: 'PATCH', path: `${servicesPath}/old`, object: change });
  const published = { status: { loadBalancer: { ingress: [{ ip: '10.0.7.12' }] } } };
  const { object: before } = await world.api.ask({
    ...{ method: 'PATCH', path: `${servicesPath}/old/status`, object: published },
  });
  await createSlice('old', '10.1.0.9');
  const endpoints = '/api/v1/namespaces/default/endpoints';
  const object = { apiVersion: 'v1', kind: 'Endpoints', metadata: { name: 'old', ...change.metadata } };
  await world.api.ask({ method: 'POST', path: endpoints, object });
  const reads = async () => JSON.stringify((await world.readService('old'))?.status.conditions ?? []);
  await waitFor(async () => (await reads()).includes('NotSupported'), stepsMs);
  expect(await world.readAddresses('old')).toEqual(['10.0.7.12']);
  expect([...device.objects.keys()]).toEqual(['elb_default_old']);
  await world.api.ask({
    ...{ method: 'PATCH', path: `${servicesPath}/old`, object: { metadata: { labels: { moves: 'yes' } } } },
  });
  const readFinalizers = async () => (await world.readService('old'))?.metadata.finalizers ?? [];
  await waitFor(async () => (await reads()).includes('DeviceFailed'), stepsMs);
  expect(await readFinalizers()).toContain('lb.zcloud.cn/protect');
  const rules = [{ apiGroups: [''], resources: ['endpoints'], verbs: ['get', 'patch'] }];
  const metadata = { name: 'vipnat-takes-over' } as KubernetesObject['metadata'];
  const rbac = 'rbac.authorization.k8s.io';
  await world.create({ apiVersion: `${rbac}/v1`, kind: 'ClusterRole', metadata, rules });
  await world.create({
    ...{ apiVersion: `${rbac}/v1`, kind: 'ClusterRoleBinding', metadata },
    roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: metadata.name },
    subjects: [{ kind: 'ServiceAccount', name: 'vipnat-controller', namespace }],
  });
  await waitFor(async () => !(await readFinalizers()).includes('lb.zcloud.cn/protect'), takeoverMs);
  const { object: left } = await world.api.ask({ method: 'GET', path: `${endpoints}/old` });
  expect(JSON.stringify(left)).not.toContain('lb.zcloud.cn/protect');
  expect(device.list('prod')).toMatchObject([{ method: 'lc', addresses: [{ text: '10.0.7.12' }] }]);
  expect(device.objects.get('elb_default_old')).toBe('what the other controller has there');
  device.objects.delete('elb_default_old');
  const { resourceVersion } = (before as unknown as KubernetesObject).metadata as {
    resourceVersion?: string;
  };
  const history = await readHistory('old', resourceVersion ?? '');
  expect(history.length).toBeGreaterThan(2);
  expect(new Set(history)).toEqual(new Set(['10.0.7.12']));
  await select(null);
});

test('the next controller goes on, and a device that is deleted stays until no Service is there', async () => {
  await stop();
  stop = startController('second');
  const path = `${devices.path}/edge`;
  await world.api.ask({ method: 'DELETE', path });
  await world.createService('late', { loadBalancerClass: 'vipnat.io/edge' });
  const reads = async () => JSON.stringify((await world.readService('late'))?.status.conditions ?? []);
  await waitFor(async () => (await reads()).includes('is being deleted'), takeoverMs);
  expect(device.list('prod').map(({ id }) => id.name)).toEqual(['old']);
  await world.remove('old');
  await waitFor(async () => (await world.api.ask({ method: 'GET', path })).code === 404, stepsMs);
  expect([...device.objects]).toEqual([]);
  expect(logger.lines.filter(({ level }) => level === 'error')).toEqual([]);
});

/** In the network of a process: a member of the Service, and a client that comes by the device. Answers what the client reads. */
async function connectIn(pid: number): Promise<string> {
  const script = `const net = require('node:net');
    net.createServer((socket) => socket.end('10.1.0.7 says hello')).listen(8080, '10.1.0.7', () => {
      net.connect(80, '10.0.7.20').on('close', () => process.exit()).pipe(process.stdout);
    });`;
  const words = [`--net=/proc/${pid}/ns/net`, process.execPath, '--eval', script];
  return (await promisify(execFile)('nsenter', words, { timeout: 10_000 })).stdout;
}

test('a driver that the controller is given by its path serves a Service', async () => {
  await stop();
  const addresses = 'ip link set lo up; ip addr add 10.0.7.20/32 dev lo; ip addr add 10.1.0.7/32 dev lo';
  const example = await startDriverExample('unshare', '--net', 'sh', '-c', `${addresses}; exec "$@"`, 'sh');
  stop = () => Promise.resolve().then(example.end);
  world.startController('own', { driver: `example=${example.driver}` });
  const [described] = parse(readFileSync(example.description, 'utf8'));
  const toOwn = (name: string, driver: string, addresses: readonly string[]) =>
    toDevice(name, { ...(described?.['spec'] as object), driver, cluster: name, addresses });
  await world.create(toOwn('lost', 'exampel', ['10.0.7.21']));
  await world.create(toOwn('own', 'example', ['10.0.7.20']));
  await createSlice('shop', '10.1.0.7');
  await world.createService('shop', { loadBalancerClass: 'vipnat.io/own' });
  expect(await world.awaitAddresses('shop', 1, takeoverMs)).toEqual(['10.0.7.20']);
  expect(await connectIn(example.pid)).toBe('10.1.0.7 says hello');
  expect((await readDevice('lost')).status?.conditions).toMatchObject([
    { reason: 'SettingsInvalid', message: expect.stringContaining('"exampel" is not a driver of vipnat') },
  ]);
  await world.remove('shop');
  expect(await example.readDevice()).toEqual({});
});

test('no line of the log has the credentials', () => {
  expect(logger.lines.length).toBeGreaterThan(0);
  expect(JSON.stringify(logger.lines) + world.readLog('own')).not.toContain(password);
});
