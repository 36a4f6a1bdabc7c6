import { masters } from '../../../support/network/layout.ts';
import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { test, expect } from '@jest/globals';
import { waitForAddress, findHolder } from '../../../../tools/lab/services/web.ts';
import { servicesPool } from '../../../../tools/lab/services/install.ts';
import { waitUntil } from '../../../../tools/lab/nodes/ready.ts';
import { connectWhile } from './services-load.ts';

const pool = 'default';
const holds = 'example.com/holds-addresses';

/** kubeadm's label of masters: see `excludeMasters`. */
const excluded = 'node.kubernetes.io/exclude-from-external-load-balancers';

/** Which node holds addresses after another one no longer does: in the end not one of the first two does. */
const replacements = [
  { leaves: 'worker', comes: 'm3' },
  { leaves: 'worker2', comes: 'm2' },
];

const masterAddress = masters.map(({ addresses }) => addresses.ipv4)[0] ?? '';

const unannounced = replacements.map(({ comes }) => comes);
const leavers = replacements.map(({ leaves }) => leaves);

/** Tests that the addresses of a pool that is refused go from node to node, as those of any other pool. */
export function testRefusedPool(lab: () => NodeLab): void {
  test('a pool is refused, and all its nodes are replaced one by one: no connection to its address fails', async () => {
    const address = await waitForAddress(lab(), 'web');
    await label(lab(), leavers, `${holds}=`);
    await patchPool(lab(), { nodeSelector: { matchLabels: { [holds]: '' } } });
    try {
      // With a node's own address: the pool gives no address any more, and keeps those that it gave.
      await patchPool(lab(), { addresses: [servicesPool.ipv4, `${masterAddress}/32`] });
      await waitUntil('the pool is refused', async () => {
        const accepted = await readCondition(lab(), 'Accepted');
        return accepted === 'False' ? null : `Accepted is ${accepted}`;
      });
      for (const { leaves, comes } of replacements) {
        const load = { address, what: `a refused pool, ${comes} for ${leaves}` };
        const report = await connectWhile(lab(), load, async () => {
          await label(lab(), [leaves], `${holds}-`);
          await label(lab(), [comes], `${excluded}-`, `${holds}=`);
          await waitUntil(`${leaves} does not hold the address`, async () => {
            const holder = await findHolder(lab(), address);
            return holder === null || holder === leaves ? `the holder is ${String(holder)}` : null;
          });
        });
        expect(report.failed).toEqual([]);
      }
      expect(unannounced).toContain(await findHolder(lab(), address));
    } finally {
      await patchPool(lab(), { addresses: [servicesPool.ipv4], nodeSelector: null });
      await label(lab(), unannounced, `${excluded}=`, `${holds}-`);
      await label(lab(), leavers, `${holds}-`);
    }
    await waitUntil('a worker holds the address again', async () => {
      const holder = await findHolder(lab(), address);
      return holder !== null && leavers.includes(holder) ? null : `the holder is ${String(holder)}`;
    });
    expect(await readCondition(lab(), 'Accepted')).toBe('True');
  });
}

async function label(lab: NodeLab, nodes: readonly string[], ...changes: readonly string[]): Promise<void> {
  await lab.ask(['label', 'nodes', '--overwrite', ...nodes, ...changes]);
}

async function patchPool(lab: NodeLab, spec: object): Promise<void> {
  await lab.ask(['patch', 'addresspool', pool, '--type=merge', `--patch=${JSON.stringify({ spec })}`]);
}

async function readCondition(lab: NodeLab, type: string): Promise<string> {
  const path = `jsonpath={.status.conditions[?(@.type=="${type}")].status}`;
  return await lab.ask(['get', 'addresspool', pool, '--output', path]);
}
