import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { test } from '@jest/globals';
import { onlyLong } from '../../../support/jest/extent.ts';
import { masters } from '../../../support/network/layout.ts';
import { takeStaticPod, waitForProgram, putStaticPod } from '../pods/static-pod.ts';
import { waitForPods, waitForAgents } from '../../../../tools/lab/nodes/ready.ts';
import { underLoad } from '../measure/load.ts';
import { expectGoaway } from '../measure/expect-load.ts';

const pod = 'kube-apiserver';

/**
 * Tests that clients do not notice that an apiserver's static pod goes and comes back. Its own watches are told so by the
 * apiserver itself: HTTP/2 has a word for it (GOAWAY), after which a client makes its next connection and this one ends in its
 * own time. The kubelet kills an apiserver that still has watches (tools/lab/nodes/static-pods.ts).
 */
export function testApiserverPod(lab: () => NodeLab): void {
  test.each(["the VIP's holder", ...onlyLong('another master')])(
    'on %s is removed and put back: no connection fails, and only its own watches end, by its own word',
    async (where) => {
      const [holder = ''] = await lab().listHolders();
      const other = masters.find(({ name }) => name !== holder)?.name ?? '';
      const master = where === 'another master' ? other : holder;
      const replace = async () => {
        await takeStaticPod(lab(), master, pod);
        await waitForProgram(lab(), master, pod, false);
        await putStaticPod(lab(), master, pod);
        await waitForPods(lab(), [`${pod}-${master}`]);
        await waitForAgents(lab());
      };
      const report = await underLoad(lab(), replace, { stricken: master });
      expectGoaway(`apiserver's static pod on ${where}`, master, report);
    },
  );
}
