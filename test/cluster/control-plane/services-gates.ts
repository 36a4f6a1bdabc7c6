import { type ServicesWorld, seedGate, stepsMs, namespace, servicesPath } from './services-world.ts';
import type { KubernetesObject } from '../../support/manifest/printing.ts';
import { selectEarlySlicesOf, type EarlySlice } from '../../../lib/api/endpoints.ts';
import { describe, test, expect } from '@jest/globals';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { electionLease, gateTypesAnnotation, gateType, addressPools } from '../../../lib/api/vipnat.ts';
import { readFileSync } from 'node:fs';
import { vipnatCommand } from '../../../tools/lab/components/agent.ts';
import { execa } from 'execa';

const podsPath = '/api/v1/namespaces/default/pods';
const slicesPath = '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices';

/** Longer than a controller takes for a step. */
const restMs = 1500;

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  readonly message?: string;
}

/** Tests of readiness gates. What kubelets write of pods, the tests write. */
export function testGates(world: () => ServicesWorld): void {
  const selector = { app: 'gated' };
  const createPod = async (name: string, address: string, gate = seedGate) => {
    await world().create({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace: 'default', labels: selector } as unknown as KubernetesObject['metadata'],
      spec: {
        nodeName: 'n1',
        readinessGates: [{ conditionType: gate }],
        containers: [{ name: 'nginx', image: 'nginx' }],
      },
    });
    const lastTransitionTime = new Date().toISOString().replace(/\.\d+/, '');
    const conditions = ['Initialized', 'ContainersReady', 'PodScheduled'].map((type) => {
      return { type, status: 'True', lastTransitionTime };
    });
    const status = { phase: 'Running', podIP: address, podIPs: [{ ip: address }], conditions };
    await world().api.ask({ method: 'PATCH', path: `${podsPath}/${name}/status`, object: { status } });
  };
  const readConditions = async (name: string) => {
    const { object } = await world().api.ask({ method: 'GET', path: `${podsPath}/${name}` });
    return (object['status'] as { conditions: readonly Condition[] }).conditions;
  };
  const isOpen = async (name: string, gate = seedGate) =>
    (await readConditions(name)).some(({ type, status }) => type === gate && status === 'True');
  const readEarly = async () => {
    const { path, selector: query } = selectEarlySlicesOf({ namespace: 'default', name: 'gated' });
    const { object } = await world().api.ask({ method: 'GET', path: `${path}?${query}` });
    return (object['items'] as readonly EarlySlice[]).map(({ endpoints }) => endpoints ?? []);
  };
  const listEarly = async () =>
    (await readEarly()).map((endpoints) => endpoints.map(({ addresses }) => addresses[0]));
  const listEnding = async () =>
    (await readEarly())
      .flat()
      .flatMap(({ addresses, conditions }) => (conditions?.terminating === true ? addresses : []));
  const askAsController = async (method: 'POST' | 'PATCH', path: string, object: object) =>
    (await world().api.ask({ method, path, object, token: world().token })).code;

  /** Where an object's status is written, labels are refused, or do not count. */
  const getLabels = async (path: string): Promise<object> => {
    const object = { metadata: { labels: { tried: 'yes' } } };
    const answer = await world().api.ask({ method: 'PATCH', path, object, token: world().token });
    return (answer.object['metadata'] as { labels?: object } | undefined)?.labels ?? {};
  };

  describe('a pod with a readiness gate', () => {
    test("opens when all nodes have programmed it, with the seed's words, and keeps all conditions of others", async () => {
      const metadata = { name: 'default', namespace: 'default' };
      await world().create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata });
      await world().createService('gated', { selector });
      await world().awaitAddresses('gated');
      world().nodes.isProgramming = false;
      await createPod('gated-1', '10.244.1.7');
      await waitFor(async () => (await listEarly()).length === 1, stepsMs);
      await sleep(restMs);
      expect(await isOpen('gated-1')).toBe(false);
      expect(await showService(world(), '10.244.1.7')).toMatch(
        /10\.244\.1\.7 .* not ready, waits for its readiness gate \(.* s\), not reported by n1, n2\n/,
      );
      world().nodes.isProgramming = true;
      await waitFor(async () => await isOpen('gated-1'), stepsMs);
      const conditions = await readConditions('gated-1');
      expect(conditions.find(({ type }) => type === seedGate)).toMatchObject({
        ...{ status: 'True', reason: 'LBHealthy', message: 'LB synced successfully' },
      });
      expect(conditions.map(({ type }) => type).sort()).toEqual(
        ['ContainersReady', 'Initialized', 'PodScheduled', seedGate].sort(),
      );
    });

    test('shares an EndpointSlice with others of its Service, and leaves nothing behind when all are gone', async () => {
      const own = 'vipnat.io/load-balancer-ready';
      await createPod('gated-2', '10.244.1.8', own);
      await waitFor(async () => await isOpen('gated-2', own), stepsMs);
      expect(await listEarly()).toEqual([['10.244.1.7', '10.244.1.8']]);
      // No kubelet ends it: it stays until it is deleted by force.
      await world().api.ask({ method: 'DELETE', path: `${podsPath}/gated-2` });
      await waitFor(async () => (await listEnding()).includes('10.244.1.8'), stepsMs);
      for (const name of ['gated-1', 'gated-2'])
        await world().api.ask({ method: 'DELETE', path: `${podsPath}/${name}?gracePeriodSeconds=0` });
      await waitFor(async () => (await listEarly()).length === 0, stepsMs);
      await world().remove('gated');
    });
  });

  test('the controller that leads notes on its Lease which gates it opens', async () => {
    const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${electionLease}`;
    const { object } = await world().api.ask({ method: 'GET', path });
    const { annotations } = object['metadata'] as { annotations?: Readonly<Record<string, string>> };
    expect(JSON.parse(annotations?.[gateTypesAnnotation] ?? '')).toEqual([seedGate, gateType].sort());
  });

  test('the patch of docs/services-operate.md opens a gate that no controller opens, and changes nothing again', async () => {
    const gate = 'other.example/never-opened';
    await createPod('left-1', '10.244.1.20', gate);
    const path = `${podsPath}/left-1/status`;
    const status = { conditions: [...(await readConditions('left-1')), { type: gate, status: 'False' }] };
    await world().api.ask({ method: 'PATCH', path, object: { status } });
    const page = readFileSync('docs/services-operate.md', 'utf8');
    const [, patch = ''] = /--patch '(.*)' <\/dev\/null/.exec(page) ?? [];
    const object = JSON.parse(patch.replace("'$gate'", gate)) as object;
    const openGate = async () => {
      const { object: pod } = await world().api.ask({ method: 'PATCH', path, object, isStrategic: true });
      return (pod['metadata'] as { resourceVersion: string }).resourceVersion;
    };
    const version = await openGate();
    expect(await isOpen('left-1', gate)).toBe(true);
    expect(await readConditions('left-1')).toHaveLength(4);
    expect(await openGate()).toBe(version);
    await world().api.ask({ method: 'DELETE', path: `${podsPath}/left-1?gracePeriodSeconds=0` });
  });

  test('the controller may write no EndpointSlice that kube-proxy takes, and of a pod only conditions of its gates', async () => {
    const slice = (labels: object) => {
      const metadata = { name: 'tried', labels };
      const type = { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', addressType: 'IPv4' };
      return { ...type, metadata, endpoints: [], ports: [] };
    };
    const managedBy = { 'endpointslice.kubernetes.io/managed-by': 'vipnat.io' };
    const path = `${slicesPath}?dryRun=All`;
    expect(await askAsController('POST', path, slice(managedBy))).toBe(201);
    expect(await askAsController('POST', path, slice({}))).toBe(422);
    const taken = { ...managedBy, 'kubernetes.io/service-name': 'web' };
    expect(await askAsController('POST', path, slice(taken))).toBe(422);
    await createPod('tried', '10.244.1.9', 'other.example/gate');
    const podPath = `${podsPath}/tried/status?dryRun=All`;
    const conditions = await readConditions('tried');
    const patch = async (status: object) => await askAsController('PATCH', podPath, { status });
    const open = (type: string) => ({ conditions: [...conditions, { type, status: 'True' }] });
    for (const type of [gateType, seedGate]) expect(await patch(open(type))).toBe(200);
    const address = { podIP: '10.9.9.9', podIPs: [{ ip: '10.9.9.9' }] };
    const others = ['DisruptionTarget', 'other.example/gate'].map(open);
    for (const status of [address, { message: 'x' }, { conditions: [] }, ...others])
      expect(await patch(status)).toBe(422);
    expect(await getLabels(podPath)).not.toHaveProperty('tried');
  });

  test('the controller may write of a Service and of a pool only its finalizers and the status', async () => {
    await world().createService('limits');
    await world().awaitAddresses('limits');
    const pools = addressPools.path;
    for (const path of [`${servicesPath}/limits`, `${pools}/default`]) {
      const { metadata, spec } = (await world().api.ask({ method: 'GET', path })).object;
      const { finalizers } = metadata as { finalizers: string[] };
      const tryPatch = async (where: string, object: object) =>
        await askAsController('PATCH', `${path}${where}?dryRun=All`, object);
      expect(await tryPatch('', { metadata: { finalizers: [] } })).toBe(200);
      expect(await tryPatch('', { metadata: { finalizers: [...finalizers, 'example.com/x'] } })).toBe(422);
      expect(await tryPatch('', { spec })).toBe(200);
      expect(await tryPatch('', { metadata: { labels: { a: 'b' } } })).toBe(422);
      expect(await tryPatch('', { metadata: { annotations: { a: 'b' } } })).toBe(422);
      expect(await getLabels(`${path}/status?dryRun=All`)).not.toHaveProperty('tried');
      expect(await tryPatch('/status', { status: { conditions: [] } })).toBe(200);
    }
    const change = { spec: { externalIPs: ['192.0.2.1'], selector: { app: 'mine' } } };
    expect(await askAsController('PATCH', `${servicesPath}/limits?dryRun=All`, change)).toBe(422);
    const path = `${pools}/default?dryRun=All`;
    expect(await askAsController('PATCH', path, { spec: { autoAssign: false } })).toBe(422);
    await world().remove('limits');
  });
}

/** What `vipnat services default/gated` prints while Kubernetes says that its pod of an address is not ready. */
async function showService(world: ServicesWorld, address: string): Promise<string> {
  const slice = {
    ...{ apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', addressType: 'IPv4' },
    metadata: { name: 'gated-k', namespace: 'default', labels: { 'kubernetes.io/service-name': 'gated' } },
    endpoints: [{ addresses: [address], conditions: { ready: false }, nodeName: 'n1' }],
    ports: [{ port: 80, protocol: 'TCP' }],
  };
  await world.create(slice);
  // A controller may read all of it.
  const words = ['services', 'default/gated', '--kubeconfig', world.kubeconfig];
  const [program = '', ...args] = vipnatCommand(...words);
  const { stdout } = await execa(program, args, { reject: false });
  await world.api.ask({ method: 'DELETE', path: `${slicesPath}/gated-k` });
  return stdout;
}
