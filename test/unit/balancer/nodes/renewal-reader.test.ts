import { expect, test } from '@jest/globals';
import { createRenewalReader } from '../../../../balancer/nodes/renewal-reader.ts';
import { type ObjectClient, type ReadAnswer } from '../../../../lib/kubernetes/object-client.ts';

/** A client whose only answer this is, and the paths that it was asked for. */
function answer(given: ReadAnswer<unknown>) {
  const paths: string[] = [];
  const read: ObjectClient['read'] = ({ path, schema }) => {
    paths.push(path);
    return Promise.resolve(
      given.outcome === 'found' ? { outcome: 'found', object: schema.parse(given.object) } : given,
    );
  };
  return { paths, readRenewal: createRenewalReader({ read }, 'vipnat-system') };
}

const lease = {
  metadata: { name: 'vipnat-lb-w1', namespace: 'vipnat-system', uid: 'u', resourceVersion: '7' },
  spec: { holderIdentity: 'w1', leaseDurationSeconds: 40, renewTime: '2026-11-25T10:00:00.000001Z' },
};

test("answers when a node's Lease was renewed", async () => {
  const { paths, readRenewal } = answer({ outcome: 'found', object: lease });
  expect(await readRenewal('w1')).toBe('2026-11-25T10:00:00.000001Z');
  expect(paths).toEqual(['/apis/coordination.k8s.io/v1/namespaces/vipnat-system/leases/vipnat-lb-w1']);
});

test('answers null for a node without a Lease', async () => {
  expect(await answer({ outcome: 'gone' }).readRenewal('w1')).toBeNull();
});

test('rejects with what the API says', async () => {
  const { readRenewal } = answer({ outcome: 'forbidden', words: 'reading is forbidden' });
  await expect(readRenewal('w1')).rejects.toThrow('reading is forbidden');
});
