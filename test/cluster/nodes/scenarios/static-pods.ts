import { expect, test } from '@jest/globals';
import { type NodeLab } from '../../../../lab/nodes/node-lab.ts';
import { listPods } from '../../../../lab/nodes/ready.ts';
import { masters } from '../../../support/network/layout.ts';
import { expectShares } from '../measure/expect-shares.ts';

const limitMs = 60_000;

/** Tests that what `vipnat manifest static-pod` and `vipnat manifest keepalived` print is what a kubelet runs well. */
export function testStaticPods(lab: () => NodeLab): void {
  test(
    'of vipnat and keepalived are ready on every master, and have never been started again',
    async () => {
      const pods = await listPods(lab());
      const own = pods?.filter(({ name }) => /^(?:vipnat|keepalived)-/.test(name)) ?? [];
      const expected = masters.flatMap(({ name }) => [`keepalived-${name}`, `vipnat-${name}`]);
      expect(
        own
          .filter(({ isReady }) => isReady)
          .map(({ name }) => name)
          .sort(),
      ).toEqual(expected.sort());
      const path = '{range .items[*]}{.metadata.name}={.status.containerStatuses[0].restartCount} {end}';
      const words = ['get', 'pods', '--namespace', 'kube-system', '--output', `jsonpath=${path}`];
      const counts = (
        await lab().ask([...words, '--selector', 'app.kubernetes.io/name in (vipnat,keepalived)'])
      ).trim();
      expect(counts.split(' ').sort()).toEqual(expected.map((name) => `${name}=0`).sort());
    },
    limitMs,
  );

  test.each(['client', 'worker', 'pod-worker', ...masters.map(({ name }) => name)])(
    'have the VIP answer %s, each apiserver in its share',
    async (place) => {
      await expectShares(lab(), place);
    },
    limitMs,
  );
}
