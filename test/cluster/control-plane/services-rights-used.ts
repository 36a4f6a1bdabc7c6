import { type ServicesWorld, servicesPath, stepsMs, namespace } from './services-world.ts';
import { test, expect } from '@jest/globals';
import type { KubernetesObject } from '../../support/manifest/printing.ts';
import { virtualIps, deviceSecret, unresponsiveAnnotation } from '../../../lib/api/vipnat.ts';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { createRecordingLogger } from '../../support/fakes/logger.ts';
import { findAccess, ApiRoute } from '../../../lib/kubernetes/route.ts';
import { createNodeHealth } from '../../../balancer/nodes/health.ts';
import { startBalancerLife } from '../../support/api/balancer-life.ts';
import { systemClock } from '../../../lib/clock.ts';
import { devices } from '../../../lib/api/device.ts';
import { toLeaseName } from '../../../lib/api/node.ts';
import type { Rule } from './apply.ts';

/** Tests that a right which is printed is asked for, by what the apiserver has noted of all that came before. To be the last ones. */
export function testRightsUsed(world: () => ServicesWorld): void {
  test('the controller has used each right that is printed for it', async () => {
    await world().create({
      apiVersion: 'vipnat.io/v1alpha1',
      kind: 'AddressPool',
      metadata: { name: 'brief' } as KubernetesObject['metadata'],
      spec: { addresses: ['10.0.8.10'], reuseAfter: '1s' },
    });
    const own = { 'vipnat.io/addresses': '10.0.8.10' };
    await world().createService('brief', {}, own);
    await world().awaitAddresses('brief');
    const change = async (spec: object) =>
      await world().api.ask({ method: 'PATCH', path: `${servicesPath}/brief`, object: { spec } });
    // What happens again is the same event, once more.
    await change({ type: 'ClusterIP', loadBalancerClass: null });
    await world().awaitAddresses('brief', 0);
    await change({ type: 'LoadBalancer', loadBalancerClass: 'vipnat.io/lb' });
    await world().awaitAddresses('brief');
    await world().remove('brief');
    const path = `${virtualIps.path}/10.0.8.10`;
    await waitFor(async () => (await world().api.ask({ method: 'GET', path })).code === 404, stepsMs);
    await world().removePool('brief');
    await leaveLease(world());
    await lookAtDevice(world());
    await expectUsed(world(), 'vipnat-controller');
  });

  test('a balancer has used each right that is printed for it', async () => {
    const kubeconfig = world().api.writeKubeconfig(
      'balancer',
      await world().requestToken(namespace, 'vipnat-balancer'),
    );
    const logger = createRecordingLogger();
    const readAccess = findAccess(kubeconfig, {});
    if (readAccess === null) throw new Error('no credentials');
    const route = new ApiRoute(readAccess, []);
    const ending = new AbortController();
    const nodes = createNodeHealth({
      ...{ route, logger, node: 'n3', namespace, probePort: 1, signal: ending.signal },
      ...{ listAddresses: () => [], onChange: () => undefined },
      readRenewal: () => Promise.resolve(null),
    });
    nodes.start();
    const life = startBalancerLife({ route, clock: systemClock, logger, node: 'n3' });
    try {
      await expectUsed(world(), 'vipnat-balancer');
      expect(logger.lines.filter(({ level }) => level !== 'info')).toEqual([]);
    } finally {
      nodes.stop();
      ending.abort();
      await life.stop();
    }
  });
}

/** A device whose Secret is not there: that is asked for, and it is said. */
async function lookAtDevice(world: ServicesWorld): Promise<void> {
  await world.create({
    apiVersion: 'vipnat.io/v1alpha1',
    kind: 'LoadBalancerDevice',
    metadata: { name: 'brief' } as KubernetesObject['metadata'],
    spec: {
      ...{ driver: 'none-such', cluster: 'c', units: ['u'], addresses: ['10.0.8.20'] },
      credentialsSecret: { name: deviceSecret },
    },
  });
  const path = `${devices.path}/brief`;
  const isSaid = async () =>
    JSON.stringify((await world.api.ask({ method: 'GET', path })).object).includes('SecretMissing');
  await waitFor(isSaid, stepsMs);
  await world.api.ask({ method: 'DELETE', path });
  await waitFor(async () => (await world.api.ask({ method: 'GET', path })).code === 404, stepsMs);
}

/** That of a node which is gone, as the controller before has noted it. */
async function leaveLease({ api }: ServicesWorld): Promise<void> {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
  const renewTime = '2027-01-15T08:00:00.000000Z';
  const object = {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: toLeaseName('gone'), annotations: { [unresponsiveAnnotation]: renewTime } },
    spec: { holderIdentity: 'gone', leaseDurationSeconds: 40, renewTime },
  };
  expect(await api.ask({ method: 'POST', path, object })).toMatchObject({ code: 201 });
  const isGone = async () =>
    (await api.ask({ method: 'GET', path: `${path}/${toLeaseName('gone')}` })).code === 404;
  // A leader that meets a Lease takes its node to live for 40 s.
  await waitFor(isGone, 60_000);
}

/** That an account has used the rights of the roles of a name: its own unless given. */
export async function expectUsed(world: ServicesWorld, account: string, role = account): Promise<void> {
  const granted = world.printed
    .filter(({ kind, metadata }) => /^(?:Cluster)?Role$/.test(kind) && metadata.name === role)
    .flatMap((one) => listRights(one));
  expect(granted.length).toBeGreaterThan(5);
  const listUnused = () => {
    const used = listUsed(world, `system:serviceaccount:${namespace}:${account}`);
    return granted.filter((right) => !used.has(right));
  };
  await waitFor(() => Promise.resolve(listUnused().length === 0), stepsMs).catch(() => undefined);
  expect(listUnused()).toEqual([]);
}

/** `VERB GROUP/RESOURCE in NAMESPACE`, each. Without the right that only OpenShift asks for: no request names that resource. */
function listRights(role: KubernetesObject): string[] {
  const where = role.kind === 'Role' ? ` in ${role.metadata.namespace}` : '';
  return (role['rules'] as readonly Rule[]).flatMap(({ apiGroups = [], resources = [], verbs = [] }) =>
    resources
      .filter((resource) => resource !== 'endpointslices/restricted')
      .flatMap((resource) => verbs.map((verb) => `${verb} ${apiGroups.join()}/${resource}${where}`)),
  );
}

/** As both kinds of roles have them. */
function listUsed({ api }: ServicesWorld, username: string): ReadonlySet<string> {
  const events = api
    .readAudit()
    .filter(({ user, responseStatus }) => user.username === username && responseStatus?.code !== 403);
  return new Set(
    events.flatMap(({ verb, objectRef }) => {
      const { apiGroup = '', resource = '', subresource, namespace: where } = objectRef ?? {};
      const right = `${verb} ${apiGroup}/${resource}${subresource === undefined ? '' : `/${subresource}`}`;
      return [right, `${right} in ${where ?? ''}`];
    }),
  );
}
