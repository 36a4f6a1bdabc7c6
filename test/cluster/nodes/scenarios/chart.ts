import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { useHelm, helmOn, chartFolder } from '../../control-plane/helm.ts';
import { test, expect } from '@jest/globals';
import { listCrashes, waitForWaiting, listHolderLast, waitForPod, findPod } from '../pods/agents.ts';
import { masters } from '../../../support/network/layout.ts';
import { takeStaticPod, putStaticPod } from '../pods/static-pod.ts';
import { waitForAgents, waitUntil } from '../../../../tools/lab/nodes/ready.ts';

/** Tests that Helm installs the chart beside static pods, and takes it away. */
export function testChart(lab: () => NodeLab): void {
  useHelm();

  test('is installed, takes over from static pods, gives way to them, and is uninstalled', async () => {
    const crashes = await listCrashes(lab());
    const installed = await helmOn(lab(), ['install', 'vipnat', chartFolder], { vips: [lab().vip] });
    expect(installed).toMatchObject({ exitCode: 0 });
    for (const { name } of masters) await waitForWaiting(lab(), name);
    for (const master of await listHolderLast(lab())) {
      await takeStaticPod(lab(), master, 'vipnat');
      await waitForPod(lab(), master);
    }
    await waitForAgents(lab());
    for (const { name } of masters) await putStaticPod(lab(), name, 'vipnat');
    expect(await helmOn(lab(), ['uninstall', 'vipnat', '--wait'])).toMatchObject({ exitCode: 0 });
    for (const { name } of masters) {
      await waitUntil(
        `no pod of the chart is on ${name}`,
        async () => (await findPod(lab(), name))?.name ?? null,
      );
      const words = ['--namespace', 'kube-system', 'wait', 'pod', `vipnat-${name}`];
      await lab().ask([...words, '--for=condition=Ready', '--timeout=60s']);
    }
    expect(await listCrashes(lab(), crashes)).toEqual([]);
    await waitForAgents(lab());
  });
}
