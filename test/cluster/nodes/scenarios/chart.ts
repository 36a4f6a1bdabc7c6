import { expect, test } from '@jest/globals';
import { type NodeLab } from '../../../../lab/nodes/node-lab.ts';
import { waitForAgents, waitUntil } from '../../../../lab/nodes/ready.ts';
import { masters } from '../../../support/network/layout.ts';
import { chartFolder, helmOn, useHelm } from '../../control-plane/helm.ts';
import { findPod, listHolderLast, listCrashes, waitForPod, waitForWaiting } from '../pods/agents.ts';
import { putStaticPod, takeStaticPod } from '../pods/static-pod.ts';

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
