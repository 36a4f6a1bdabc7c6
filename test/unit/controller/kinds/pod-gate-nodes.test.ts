import { describe, expect, test } from '@jest/globals';
import { pod as podKind } from '../../../../controller/kinds/pod-gate.ts';
import { nodes } from '../../../../lib/services/cluster.ts';
import { type Pod } from '../../../../lib/services/pods.ts';
import { makeEarlyReport, makeGated } from '../../../support/fakes/gated-pods.ts';
import { type Inventory, makeNode, makePod, makeReport } from '../../../support/fakes/service-objects.ts';

const decide = (pod: Pod, more: Inventory = {}) => podKind.next('apps/p', makeGated(pod, more));
const all = [makeEarlyReport('w1', '50'), makeEarlyReport('w2', '51')];

describe('of nodes, a gate waits', () => {
  test('for no balancer that does not follow early EndpointSlices, unless it has not begun', () => {
    const old = makeReport('w2', 99, {
      programmed: { virtualips: '99', services: '99', endpointslices: '99' },
    });
    const starting = makeReport('w2', 99, { programmed: {} });
    const [first = makeEarlyReport('w1', '50')] = all;
    const readReasonWith = (reports: typeof all) => {
      const step = decide(makePod('apps/p'), { reports });
      return step.does === 'write' ? JSON.stringify(step.write.body) : step.does;
    };
    expect(readReasonWith([first, old])).toContain('"LBHealthy"');
    expect(readReasonWith([makeEarlyReport('w1', '49'), old])).toBe('wait');
    expect(readReasonWith([first, starting])).toBe('wait');
    expect(readReasonWith([old])).toContain('"NotFollowed"');
  });

  test('for a node that is cordoned, and not for one that is deleted or whose Lease is over', () => {
    const cordoned = nodes.schema.parse({
      metadata: { name: 'w2', uid: 'w2', resourceVersion: '2', labels: {} },
      // As of `kubectl cordon`: its balancer stays, and so do its addresses.
      spec: {
        unschedulable: true,
        taints: [{ key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' }],
      },
      status: { addresses: [] },
    });
    expect(decide(makePod('apps/p'), { nodes: [makeNode('w1'), cordoned] })).toMatchObject({ does: 'wait' });
    expect(decide(makePod('apps/p'), { nodes: [makeNode('w1')] })).toMatchObject({ does: 'write' });
    expect(decide(makePod('apps/p'), { silent: ['w2'] })).toMatchObject({ does: 'write' });
  });

  test('for no node that goes back to a version without early EndpointSlices in the middle of a rollout', () => {
    const waiting = { reports: [makeEarlyReport('w1', '50'), makeEarlyReport('w2', '49')] };
    expect(decide(makePod('apps/p'), waiting)).toMatchObject({ does: 'wait' });
    const older = makeReport('w2', 99, {
      programmed: { virtualips: '99', services: '99', endpointslices: '99' },
    });
    expect(decide(makePod('apps/p'), { reports: [makeEarlyReport('w1', '50'), older] })).toMatchObject({
      does: 'write',
    });
  });
});
