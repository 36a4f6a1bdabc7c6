import { testNodes } from './fake-nodes.ts';
import { describe, expect, test } from '@jest/globals';
import {
  type NodeState,
  addAnswer,
  isUnheard,
  unknownNode,
  createRenewalReader,
} from '../../../../balancer/nodes/directory.ts';
import type { ReadAnswer, ObjectClient } from '../../../../lib/kubernetes/writes.ts';

describe('a node that was away for long', () => {
  testNodes({
    'is back three seconds after the report of its balancer: it answers before its pods run':
      'lose; refused w2; wait 20000; out w2; lost -; renew after; wait 2900; out w2; wait 1500; out -; ' +
      'told w2 out, w2 returns, w2 back',
    'is back with its answers if it was away for less than twelve seconds: no machine starts again so soon':
      'silent w2; wait 11000; out w2; open w2; wait 600; out -; lost -',
    'is back soon if its balancer went on to report: only the network was away':
      'lose; renew meanwhile; open w2; wait 5000; out -',
    'is back after a minute without a report, as when the API is away':
      'lose; refuse the API does not answer; open w2; wait 59000; out w2; wait 1500; out -',
    'needs another report if it is silent again':
      'lose; open w2; renew once; wait 2500; silent w2; wait 3000; open w2; wait 20000; out w2; ' +
      'renew twice; wait 5000; out -',
    'is asked for its report once a second by a node with addresses, seldom by others, and by nobody later':
      'lose; open w2; wait 2000; mark; wait 20000; reads 26; release; wait 1000; mark; wait 20000; reads 2; ' +
      'renew after; wait 20000; out -; mark; wait 60000; reads 0; read w2',
    'is asked no more often when an answer from before it returned comes late':
      'slow 15000; lose; slow 0; open w2; wait 5000; mark; wait 20000; reads 26',
  });
});

/** Connects without an answer, one after the other. */
const askInVain = (before: NodeState, count: number): NodeState =>
  Array.from({ length: count }, (_, at) => at * 200).reduce(
    (state, askedAt) => addAnswer(state, { isAnswered: false, askedAt, peers: 'answer' }, askedAt + 200),
    before,
  );

test('a node that never answered is left after 8 connects, and not before', () => {
  expect([7, 8].map((count) => isUnheard(askInVain(unknownNode, count)))).toEqual([false, true]);
  const heard = addAnswer(unknownNode, { isAnswered: true, askedAt: 0, peers: 'answer' }, 1);
  expect(isUnheard(askInVain(heard, 8))).toBe(false);
});

const lease = {
  metadata: { name: 'vipnat-lb-w1', namespace: 'vipnat-system', uid: 'u', resourceVersion: '7' },
  spec: { holderIdentity: 'w1', leaseDurationSeconds: 40, renewTime: '2026-11-25T10:00:00.000001Z' },
};

test.each<[string, ReadAnswer<unknown>, string | null | Error]>([
  ['when it was renewed', { outcome: 'found', object: lease }, '2026-11-25T10:00:00.000001Z'],
  ['null where there is none', { outcome: 'gone' }, null],
  ['what the API says', { outcome: 'forbidden', detail: 'no right' }, new Error('no right')],
])("a read of a node's Lease answers %s", async (_, answer, expected) => {
  const read: ObjectClient['read'] = ({ path, schema }) => {
    expect(path).toBe('/apis/coordination.k8s.io/v1/namespaces/vipnat-system/leases/vipnat-lb-w1');
    if (answer.outcome !== 'found') return Promise.resolve(answer);
    return Promise.resolve({ outcome: 'found', object: schema.parse(answer.object) });
  };
  const [{ value, reason }] = (await Promise.allSettled([
    createRenewalReader({ read }, 'vipnat-system')('vipnat-lb-w1'),
  ])) as [{ value?: string | null; reason?: Error }];
  expect(reason ?? value).toEqual(expected);
});
