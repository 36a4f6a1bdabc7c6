import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { waitUntil, waitForNodes } from '../../../../tools/lab/nodes/ready.ts';
import { servicesNamespace, waitForServices } from '../../../../tools/lab/services/install.ts';
import { runPodAgain } from '../pods/run-pod.ts';

/** Boots a node, and waits until its balancer has reported since: the API calls a node ready that was off for a short time. */
export async function bootAgain(lab: NodeLab, node: string): Promise<void> {
  const sinceMs = Date.now();
  await lab.boot(node);
  await waitUntil(`the balancer on ${node} reports`, async () => {
    const words = ['get', 'lease', `vipnat-lb-${node}`, '--namespace', servicesNamespace];
    const renewTime = await lab.ask([...words, '--output', 'jsonpath={.spec.renewTime}']);
    return Date.parse(renewTime) > sinceMs ? null : `its last report is of ${renewTime}`;
  });
  await waitForNodes(lab);
  await waitForServices(lab);
  await runPodAgain(lab, node);
}
