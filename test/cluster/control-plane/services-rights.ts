import { describe, expect, test } from '@jest/globals';
import { addressPools } from '../../../lib/services/objects.ts';
import { formatRule, type Rule } from './apply.ts';
import { namespace, servicesPath, type ServicesWorld } from './services-world.ts';

/** Tests of what the controller's service account may ask a real apiserver. */
export function testRights(world: () => ServicesWorld): void {
  describe('its service account', () => {
    test('has the rights that are printed, and beside them those of any account', async () => {
      const listRights = async (who: string, where: string) => {
        const { object } = await world().api.ask({
          method: 'POST',
          path: '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews',
          object: {
            apiVersion: 'authorization.k8s.io/v1',
            kind: 'SelfSubjectRulesReview',
            spec: { namespace: where },
          },
          token: who,
        });
        const { resourceRules } = object['status'] as { resourceRules: readonly Rule[] };
        return resourceRules.map(formatRule);
      };
      await world().create({
        apiVersion: 'v1',
        kind: 'ServiceAccount',
        metadata: { name: 'nobody', namespace: 'default' },
      });
      const common = await listRights(await world().requestToken('default', 'nobody'), 'default');
      const rulesOf = (kind: string) =>
        (world().printed.find((one) => one.kind === kind)?.['rules'] as readonly Rule[]).map(formatRule);
      const listMore = async (where: string) =>
        (await listRights(world().token, where)).filter((right) => !common.includes(right)).sort();
      expect(await listMore('default')).toEqual(rulesOf('ClusterRole').sort());
      expect(await listMore(namespace)).toEqual([...rulesOf('ClusterRole'), ...rulesOf('Role')].sort());
    });

    test.each([
      ['GET', '/api/v1/secrets'],
      ['GET', '/api/v1/pods'],
      ['GET', '/api/v1/nodes/n1'],
      ['DELETE', `${servicesPath}/web`],
      ['PUT', `${servicesPath}/web`],
      ['DELETE', `${addressPools.path}/default`],
      ['PATCH', `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/vipnat-lb-n1`],
      ['GET', '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases'],
    ] as const)('may not %s %s', async (method, path) => {
      const object = method === 'GET' || method === 'DELETE' ? {} : { object: {} };
      expect(await world().api.ask({ method, path, token: world().token, ...object })).toMatchObject({
        code: 403,
      });
    });

    test('was refused nothing that the world().controllers asked for', () => {
      for (const name of world().controllers.keys())
        expect(world().readLog(name)).not.toMatch(/answered with 403/);
    });
  });
}
