import { namespace, type ServicesWorld, stepsMs } from './services-world.ts';
import { describe, test, expect } from '@jest/globals';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { unresponsiveAnnotation } from '../../../lib/api/vipnat.ts';

const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
const account = 'vipnat-balancer';

/** Tests of which Lease a balancer may write. */
export function testLeases(world: () => ServicesWorld): void {
  describe('the Lease of a node', () => {
    const patch = async (node: string, token: string) => {
      const object = { metadata: { annotations: { tried: 'yes' } } };
      return await world().api.ask({ method: 'PATCH', path: `${leases}/vipnat-lb-${node}`, object, token });
    };

    /** A token of a balancer's pod on a node, as its kubelet asks for it. */
    const requestPodToken = async (node: string) => {
      const path = `/api/v1/namespaces/${namespace}/pods`;
      const spec = {
        ...{ nodeName: node, serviceAccountName: account, automountServiceAccountToken: false },
        containers: [{ name: 'balancer', image: 'none' }],
      };
      const metadata = { name: `balancer-${node}` };
      const object = { apiVersion: 'v1', kind: 'Pod', metadata, spec };
      const { code, object: pod } = await world().api.ask({ method: 'POST', path, object });
      if (code !== 201) throw new Error(pod.message);
      const { uid } = pod['metadata'] as { uid: string };
      const boundObjectRef = { apiVersion: 'v1', kind: 'Pod', name: metadata.name, uid };
      const { object: request } = await world().api.ask({
        method: 'POST',
        path: `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`,
        object: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { boundObjectRef } },
      });
      return (request['status'] as { token: string }).token;
    };

    test('is written by the balancer of this node, and by that of no other node', async () => {
      const token = await requestPodToken('n1');
      // A policy counts a moment after it was created.
      await waitFor(async () => (await patch('n2', token)).code === 422, stepsMs);
      expect((await patch('n2', token)).object.message).toContain(
        'a balancer may write only the Lease of its own node',
      );
      expect(await patch('n1', token)).toMatchObject({ code: 200 });
      const type = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' };
      const object = { ...type, metadata: { name: 'vipnat-lb-n9' } };
      const { code } = await world().api.ask({ method: 'POST', path: leases, object, token });
      expect(code).toBe(422);
    });

    test('gets a note of the controller, and nothing else', async () => {
      const token = await world().requestToken(namespace, 'vipnat-controller');
      const path = `${leases}/vipnat-lb-n2`;
      const ask = async (object: object) => await world().api.ask({ method: 'PATCH', path, object, token });
      const note = { metadata: { annotations: { [unresponsiveAnnotation]: 'none' } } };
      expect(await ask(note)).toMatchObject({ code: 200 });
      for (const object of [
        { spec: { leaseDurationSeconds: 1 } },
        { metadata: { annotations: { 'vipnat.io/seats': '[\"default/0\"]' } } },
        { metadata: { annotations: { 'vipnat.io/mode': null } } },
      ])
        expect((await ask(object)).object.message).toContain("only a note on a node's Lease");
    });

    test('is written by a balancer outside of pods, whose token names no node', async () => {
      const token = await world().requestToken(namespace, account);
      expect(await patch('n2', token)).toMatchObject({ code: 200 });
    });
  });
}
