import { testNodes } from './fake-nodes.ts';
import { describe, expect, test } from '@jest/globals';
import {
  type NodeState,
  addAnswer,
  isUnheard,
  unknownNode,
  isReturning,
  addLease,
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

/** Connects one after the other, 200 ms apart, each with its answer. */
function ask(before: NodeState, answers: readonly boolean[], fromMs = 0): NodeState {
  return answers.reduce((state, isAnswered, index) => {
    const askedAt = fromMs + index * 200;
    return addAnswer(state, { isAnswered, askedAt, peers: 'answer' }, askedAt + 200);
  }, before);
}

const unresponsive = (count: number) => Array<boolean>(count).fill(false);

test('a node that never answered is left after 8 connects, and not before', () => {
  expect([7, 8].map((count) => isUnheard(ask(unknownNode, unresponsive(count))))).toEqual([false, true]);
  expect(isUnheard(ask(unknownNode, [true, ...unresponsive(8)]))).toBe(false);
});

test('one that answered is out after two silences that another node witnessed, since the first of them', () => {
  const heard = ask(unknownNode, [true]);
  expect([1, 2].map((count) => ask(heard, unresponsive(count), 1000).outSince)).toEqual([null, 1000]);
  const unwitnessed = (state: NodeState, askedAt: number) =>
    addAnswer(state, { isAnswered: false, askedAt, peers: 'awaited' }, askedAt + 200);
  expect([1000, 1200, 1400].reduce(unwitnessed, heard).outSince).toBeNull();
});

const silence = { isAnswered: false, askedAt: 5000, peers: 'answer' } as const;
const out = ask(ask(unknownNode, [true]), unresponsive(2), 1000);

test('one that renews its Lease is in use again after a minute without an answer, as if it had never answered', () => {
  const renewed = addLease(out, 'renewed', 50_000);
  expect(addAnswer(renewed, silence, 60_999).outSince).toBe(1000);
  const used = addAnswer(renewed, silence, 61_000);
  expect([used.outSince, isUnheard(ask(used, unresponsive(8)))]).toEqual([null, true]);
});

test('one that was away for 12 s is back 3 s after its balancer has reported; for less, with its second answer', () => {
  const comeBack = (atMs: number) => ask(out, [true, true], atMs);
  expect([12_999, 13_000].map((atMs) => isReturning(comeBack(atMs)))).toEqual([false, true]);
  expect(comeBack(12_999).outSince).toBeNull();
  const reported = addLease(addLease(comeBack(13_000), 'renewed', 14_000), 'renewed', 15_000);
  const answer = { isAnswered: true, askedAt: 16_000, peers: 'answer' } as const;
  const outSince = [16_999, 17_000].map((now) => addAnswer(reported, answer, now).outSince);
  expect(outSince).toEqual([1000, null]);
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
