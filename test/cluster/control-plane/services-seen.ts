import { type ServicesWorld, namespace } from './services-world.ts';
import { describe, beforeAll, test, expect } from '@jest/globals';
import { vipnatCommand } from '../../../tools/lab/components/agent.ts';
import { execa } from 'execa';
import { readFileSync } from 'node:fs';
import { parse, type KubernetesObject } from '../../support/manifest/printing.ts';
import { virtualIps, type VirtualIp, addressPools, type AddressPool } from '../../../lib/api/vipnat.ts';

const document = 'docs/services-operate.md';

/** Tests of what `vipnat services` and `vipnat seats` print, with the rights of the role in docs/services-operate.md. */
export function testSeeing(world: () => ServicesWorld): void {
  describe('vipnat services, with the rights that its page prints', () => {
    let kubeconfig = '';
    const run = async (...words: string[]) => {
      const [program = '', ...args] = vipnatCommand(...words, '--kubeconfig', kubeconfig);
      const { exitCode, stdout, stderr } = await execa(program, args, { reject: false });
      return { exitCode, stdout, stderr };
    };

    beforeAll(async () => {
      const [, text = ''] = /```yaml\n(.*?)```/s.exec(readFileSync(document, 'utf8')) ?? [];
      for (const role of parse(text)) await world().create(role);
      for (const object of listAccount()) await world().create(object);
      kubeconfig = world().api.writeKubeconfig('viewer', await world().requestToken(namespace, 'viewer'));
      await world().create(slice);
    });

    test('a Service that works is printed with its address, its holder and its pod', async () => {
      const [address = ''] = await world().awaitAddresses('web');
      const { stdout, stderr } = await run('services', '--json');
      expect(stderr).toBe('');
      const { services } = JSON.parse(stdout) as { services: readonly { name: string }[] };
      expect(services.find(({ name }) => name === 'web')).toMatchObject({
        ...{ namespace: 'default', state: 'ready', reason: 'Ready', why: null },
        addresses: [
          {
            ...{ address, published: true, seatHolders: [{ node: 'n1', mode: 'direct' }] },
            nodes: await listNodesOfSeat(world(), address),
          },
        ],
        pods: { ready: 1, ending: 0, notReady: 0 },
      });
    });

    test('with its name it is printed with its nodes and events', async () => {
      const { stdout, exitCode } = await run('services', 'default/web');
      expect(stdout).toMatch(/^default\/web {3}ready · since .* · 80\/TCP · policy Cluster\n/);
      expect(stdout).toMatch(/10\.244\.0\.1 +8080 +n1 +ready\n/);
      expect(stdout).toMatch(/n1 +direct +\d.* s ago +yes\n/);
      expect(stdout).toMatch(/ago +AddressReady +/);
      expect(exitCode).toBe(0);
    });

    test('one without a class is printed with what it lacks, and the exit status is 2', async () => {
      await world().createService('classless', { loadBalancerClass: undefined });
      const { stdout, exitCode } = await run('services');
      expect(stdout).toMatch(/default\/classless +none .* PENDING\n {2}because it has no loadBalancerClass/);
      expect(exitCode).toBe(2);
      await world().remove('classless');
    });

    test('one that does not exist ends with its code', async () => {
      const { stderr, exitCode } = await run('services', 'default/nothing');
      expect(stderr).toContain('[SERVICE_NOT_FOUND] there is no Service default/nothing');
      expect(exitCode).toBe(1);
    });

    test('vipnat seats prints who holds what, and moves nothing without a right to', async () => {
      expect(await run('seats')).toMatchObject({
        ...{ exitCode: 0, stdout: expect.stringMatching(/default\/0 +n1 /) },
      });
      const drained = await run('seats', 'drain', 'n2');
      expect(drained.stderr).toMatch(
        /^vipnat: \[API_FORBIDDEN\] changing AddressPool .* is answered with 403/,
      );
      expect(drained.exitCode).toBe(1);
    });

    test('with the right to patch pools it drains a node', async () => {
      const rules = [{ apiGroups: ['vipnat.io'], resources: ['addresspools'], verbs: ['patch'] }];
      await world().create({ ...role('mover'), rules });
      await world().create(bind('mover'));
      expect(await run('seats', 'drain', 'n2')).toMatchObject({
        ...{ exitCode: 0, stderr: expect.stringContaining('n2 holds no seat') },
      });
      expect(await run('seats', 'undrain', 'n2')).toMatchObject({ exitCode: 0 });
    });
  });
}

const rbac = 'rbac.authorization.k8s.io/v1';

function role(name: string): KubernetesObject {
  return { apiVersion: rbac, kind: 'ClusterRole', metadata: { name } as KubernetesObject['metadata'] };
}

function bind(name: string): KubernetesObject {
  return {
    ...role(name),
    kind: 'ClusterRoleBinding',
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
    subjects: [{ kind: 'ServiceAccount', name: 'viewer', namespace }],
  };
}

function listAccount(): KubernetesObject[] {
  const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'viewer', namespace } };
  return [account, bind('vipnat-viewer')];
}

/** The pod of the Service web. */
const slice: KubernetesObject = {
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { name: 'web-1', namespace: 'default', labels: { 'kubernetes.io/service-name': 'web' } },
  addressType: 'IPv4',
  endpoints: [{ addresses: ['10.244.0.1'], nodeName: 'n1' }],
  ports: [{ port: 8080, protocol: 'TCP' }],
} as KubernetesObject;

/** The nodes that may hold an address, in the order that its seat has; the Service's UID chooses the seat. */
async function listNodesOfSeat({ api }: ServicesWorld, address: string): Promise<readonly string[]> {
  const read = async (path: string) => (await api.ask({ method: 'GET', path })).object as unknown;
  const { spec } = (await read(`${virtualIps.path}/${address}`)) as VirtualIp;
  const { status } = (await read(`${addressPools.path}/${spec.pool}`)) as AddressPool;
  const nodes = status?.seats?.find(({ index }) => index === spec.seat)?.nodes ?? [];
  expect([...nodes].sort()).toEqual(['n1', 'n2']);
  return nodes;
}
