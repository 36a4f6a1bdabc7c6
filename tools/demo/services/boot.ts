import type { NodeLab } from '../../lab/nodes/node-lab.ts';
import { waitUntil, waitForNodes } from '../../lab/nodes/ready.ts';
import { waitForServices } from '../../lab/services/install.ts';
import { listPods } from './shares.ts';
import { askWeb } from '../../lab/services/web.ts';
import { outsider } from '../../../test/support/network/layout.ts';

/** Enough to meet each of four pods. */
const requests = 40;

/**
 * Boots a node, and waits until its balancer has reported and all pods answer at an address again. Before that, the API still says of the node what it said before
 * its power went.
 */
export async function bootAndWait(
  lab: NodeLab,
  { node, address }: { readonly node: string; readonly address: string },
): Promise<void> {
  const before = await readRenewal(lab, node);
  await lab.boot(node);
  await waitUntil(`the balancer of ${node} reports`, async () =>
    (await readRenewal(lab, node)) === before ? 'it does not yet' : null,
  );
  await waitForNodes(lab, [node]);
  await waitForServices(lab);
  const pods = await listPods(lab);
  await waitUntil(`all pods answer at ${address}`, async () => {
    const { pods: answering } = await askWeb(lab, outsider.name, address, requests);
    const missing = pods.filter((pod) => !(pod in answering));
    return missing.length === 0 ? null : `not yet: ${missing.join(', ')}`;
  });
}

async function readRenewal(lab: NodeLab, node: string): Promise<string> {
  const words = ['get', 'lease', `vipnat-lb-${node}`, '--namespace', 'vipnat-system'];
  return await lab.ask([...words, '--output', 'jsonpath={.spec.renewTime}']);
}
