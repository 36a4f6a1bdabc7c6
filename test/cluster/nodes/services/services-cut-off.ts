import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { test, expect } from '@jest/globals';
import {
  createWeb,
  waitForAddress,
  askWeb,
  removeWeb,
  findHolder,
} from '../../../../tools/lab/services/web.ts';
import { tell } from '../../../support/lab/test-lab.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { waitForServices } from '../../../../tools/lab/services/install.ts';
import { waitForNodes, waitUntil } from '../../../../tools/lab/nodes/ready.ts';
import { runShell } from '../../../../tools/lab/machines/machine.ts';

/** On masters, which hold no address. */
const onMasters = { 'node-role.kubernetes.io/control-plane': '' };

const inDefault = ['--namespace', 'default'];

/** A node that has not renewed its Lease for so long counts as silent: 40 s, and what it takes until somebody looks. */
const silentMs = 60_000;

/** Longer than an address rests (`reuseAfter`, a minute), and than a table counts without its balancer. */
const [rounds, betweenMs] = [4, 25_000];

/**
 * Tests that an address is not given to another Service while a node that no longer hears from the API serves it for the former one:
 * who answers at the address is counted, by the pods' names.
 */
export function testCutOffNode(lab: () => NodeLab): void {
  test('the holder hears nothing of the API: a Service changes and is deleted, and no packet of its address reaches another one', async () => {
    await createWeb(lab(), { name: 'former', nodeSelector: onMasters, replicas: 2 });
    const address = await waitForAddress(lab(), 'former');
    const holder = await findOneHolder(lab(), address);
    const annotations = { 'vipnat.io/addresses': address };
    try {
      await filterApi(lab(), holder, '-I');
      // A change that the holder does not hear of.
      const patch = '{"spec":{"sessionAffinity":"ClientIP"}}';
      await lab().ask(['patch', 'service', 'former', ...inDefault, '--patch', patch]);
      await waitForSilence(lab(), holder);
      await lab().ask(['delete', 'service', 'former', ...inDefault, '--wait=false']);
      await createWeb(lab(), { name: 'latter', nodeSelector: onMasters, replicas: 2, annotations });
      for (let round = 0; round < rounds; round += 1) {
        const { pods, failed } = await askWeb(lab(), 'client', address, 100);
        tell(`Services, the holder cut off from the API: ${JSON.stringify(pods)}, ${failed} of 100 failed`);
        expect(Object.keys(pods).filter((pod) => !pod.startsWith('former-'))).toEqual([]);
        await sleep(betweenMs);
      }
      expect(await readIngress(lab(), 'latter')).toBe('');
    } finally {
      await filterApi(lab(), holder, '-D');
    }
    await waitForServices(lab());
    expect(await waitForAddress(lab(), 'latter')).toBe(address);
    const { pods } = await askWeb(lab(), 'client', address, 40);
    expect(Object.keys(pods).filter((pod) => !pod.startsWith('latter-'))).toEqual([]);
    for (const name of ['former', 'latter']) await removeWeb(lab(), name);
    await waitForNodes(lab());
  });
}

/** An address is published when a node has announced it. */
export async function findOneHolder(lab: NodeLab, address: string): Promise<string> {
  const holder = await findHolder(lab, address);
  if (holder === null) throw new Error(`not one node has ${address}`);
  return holder;
}

/** From -I to -D nothing that a node sends arrives at an apiserver; all else does. */
async function filterApi(lab: NodeLab, node: string, verb: '-I' | '-D'): Promise<void> {
  await runShell(lab.machine(node), `iptables -w 5 ${verb} OUTPUT -p tcp --dport 6443 -j DROP`);
}

/** Waits until the Lease of a node's balancer is over. */
async function waitForSilence(lab: NodeLab, node: string): Promise<void> {
  const words = ['get', 'lease', `vipnat-lb-${node}`, '--namespace', 'vipnat-system'];
  await waitUntil(
    `the balancer on ${node} is silent`,
    async () => {
      const renewed = Date.parse(await lab.ask([...words, '--output', 'jsonpath={.spec.renewTime}']));
      const word = `its last word is of ${new Date(renewed).toISOString()}`;
      return Date.now() - renewed > silentMs ? null : word;
    },
    2 * silentMs,
  );
}

async function readIngress(lab: NodeLab, name: string): Promise<string> {
  const path = 'jsonpath={.status.loadBalancer.ingress[*].ip}';
  return await lab.ask(['get', 'service', name, ...inDefault, '--output', path]);
}
