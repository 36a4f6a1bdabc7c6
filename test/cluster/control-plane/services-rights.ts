import { namespace, servicesPath, type ServicesWorld } from './services-world.ts';
import { addressPools, virtualIps } from '../../../lib/api/vipnat.ts';
import { describe, test, expect } from '@jest/globals';
import { type Rule, formatRule, listRights } from './apply.ts';

/** Requests that an account must not make: method and path. */
type Refused = readonly (readonly [method: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE', path: string])[];

const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;

/** What neither account needs. */
const refusedToBoth: Refused = [
  ['GET', '/api/v1/secrets'],
  ['GET', '/api/v1/nodes/n1'],
  ['DELETE', `${servicesPath}/web`],
  ['PUT', `${servicesPath}/web`],
  ['DELETE', `${addressPools.path}/default`],
  ['GET', '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases'],
];

const refused: Readonly<Record<string, Refused>> = {
  'vipnat-controller': [
    ...refusedToBoth,
    ['GET', `${leases}/vipnat-lb-n1`],
    ['PATCH', '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/vipnat-lb-n1'],
    ['GET', '/api/v1/namespaces/default/pods/web'],
    ['PATCH', '/api/v1/namespaces/default/pods/web'],
    ['DELETE', '/api/v1/namespaces/default/pods/web'],
    ['POST', '/api/v1/namespaces/default/pods'],
    ['GET', '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web'],
    ['GET', '/apis/networking.k8s.io/v1/servicecidrs/kubernetes'],
  ],
  'vipnat-balancer': [
    ...refusedToBoth,
    ['PATCH', '/api/v1/nodes/n1/status'],
    ['GET', '/api/v1/pods'],
    ['PATCH', '/api/v1/namespaces/default/pods/web/status'],
    ['POST', '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices'],
    ['PATCH', `${servicesPath}/web`],
    ['PATCH', `${addressPools.path}/default`],
    ['POST', virtualIps.path],
    ['DELETE', `${virtualIps.path}/10.0.9.10`],
    // They are listed now and then: a watch on each node would be too many.
    ['GET', `${leases}?watch=true`],
    ['DELETE', `${leases}/vipnat-lb-n1`],
    ['PATCH', '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/vipnat-lb-n1'],
  ],
};

/** Tests of what the printed service accounts may ask a real apiserver. */
export function testRights(world: () => ServicesWorld): void {
  describe.each(Object.entries(refused))('the service account %s', (account, requests) => {
    test('has the rights that are printed, and beside them those of any account', async () => {
      const nobody = { name: `not-${account}`, namespace: 'default' };
      await world().create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: nobody });
      const common = await listRights(world(), await world().requestToken('default', nobody.name), 'default');
      const rulesOf = (kind: string, where?: string) =>
        world()
          .printed.filter((one) => one.kind === kind && one.metadata.name === account)
          .filter(({ metadata }) => (metadata.namespace as string | undefined) === where)
          .flatMap((one) => (one['rules'] as readonly Rule[]).map(formatRule));
      const ofCluster = rulesOf('ClusterRole');
      expect(ofCluster.length).toBeGreaterThan(2);
      const token = await world().requestToken(namespace, account);
      const listMore = async (where: string) =>
        (await listRights(world(), token, where)).filter((right) => !common.includes(right));
      expect(await listMore('default')).toEqual([...ofCluster, ...rulesOf('Role', 'default')].sort());
      expect(await listMore(namespace)).toEqual([...ofCluster, ...rulesOf('Role', namespace)].sort());
    });

    test.each(requests)('may not %s %s', async (method, path) => {
      const object = method === 'GET' || method === 'DELETE' ? {} : { object: {} };
      const token = await world().requestToken(namespace, account);
      expect(await world().api.ask({ method, path, token, ...object })).toMatchObject({ code: 403 });
    });
  });

  test('the controllers were refused nothing that they asked for', () => {
    for (const name of world().controllers.keys())
      expect(world().readLog(name)).not.toMatch(/answered with 403/);
  });
}
