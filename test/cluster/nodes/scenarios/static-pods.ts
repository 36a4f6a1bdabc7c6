import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { test, expect } from '@jest/globals';
import { listPods } from '../../../../tools/lab/nodes/ready.ts';
import { masters } from '../../../support/network/layout.ts';
import { listCrashes } from '../pods/agents.ts';
import { expectShares } from '../measure/expect-shares.ts';

/** Tests that what `vipnat manifest static-pod` and `vipnat manifest keepalived` print is what a kubelet runs well. */
export function testStaticPods(lab: () => NodeLab): void {
  test('of vipnat and keepalived are ready on every master, and none of their containers has crashed', async () => {
    const pods = await listPods(lab());
    const own = pods?.filter(({ name, isReady }) => isReady && /^(?:vipnat|keepalived)-/.test(name)) ?? [];
    const expected = masters.flatMap(({ name }) => [`keepalived-${name}`, `vipnat-${name}`]);
    expect(own.map(({ name }) => name).sort()).toEqual(expected.sort());
    const both = 'app.kubernetes.io/name in (vipnat,keepalived)';
    expect(await listCrashes(lab(), [], { pods: both })).toEqual([]);
  });

  test.each(['client', 'worker', 'pod-worker', ...masters.map(({ name }) => name)])(
    'have the VIP answer %s, each apiserver in its share',
    async (place) => {
      await expectShares(lab(), place);
    },
  );
}
