import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { test, expect } from '@jest/globals';
import { masters } from '../../../support/network/layout.ts';
import { release } from 'node:os';
import type { CommandResult } from '../../../../tools/lab/machines/machine.ts';
import { findPod } from '../pods/agents.ts';

/** Tests that a DaemonSet's privileged pods run with and without /lib/modules, and that they made no such folder. */
export function testFewModules(lab: () => NodeLab): void {
  test('starts with and without /lib/modules, and finds what is there', async () => {
    const has = async (node: string) =>
      (await lab().machine(node).run(['test', '-e', '/lib/modules'])).exitCode === 0;
    expect(await Promise.all(masters.map(({ name }) => has(name)))).toEqual([true, true, false]);
    expect((await readModules(lab(), 'm1')).stdout.split('\n')).toContain(release());
    expect((await readModules(lab(), 'm3')).stderr).toContain('No such file or directory');
  });
}

/** What the DaemonSet's pod on a node sees of modules. */
async function readModules(lab: NodeLab, node: string): Promise<CommandResult> {
  const pod = (await findPod(lab, node))?.name ?? '';
  return await lab.kubectl(['exec', '--namespace', 'kube-system', pod, '--', 'ls', '/lib/modules/']);
}
