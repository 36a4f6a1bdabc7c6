import { expect, test } from '@jest/globals';
import { release } from 'node:os';
import { type CommandResult } from '../../../lab/machines/machine.ts';
import { type NodeLab } from '../../../lab/nodes/node-lab.ts';
import { masters } from '../../support/network/layout.ts';
import { findPod, printManifest, waitForWaiting } from './agents.ts';

const limitMs = 120_000;

/** Tests that a privileged pod starts on a node without /lib/modules, and makes no such folder there. */
export function testFewModules(lab: () => NodeLab): void {
  test(
    'a privileged pod starts with and without /lib/modules, and finds what is there',
    async () => {
      const has = async (node: string) =>
        (await lab().machine(node).run(['test', '-e', '/lib/modules'])).exitCode === 0;
      const listHaving = async () => await Promise.all(masters.map(({ name }) => has(name)));
      expect(await listHaving()).toEqual([true, true, false]);
      const manifest = await printManifest(lab(), 'daemonset');
      try {
        await lab().apply(manifest);
        for (const { name } of masters) await waitForWaiting(lab(), name);
        expect((await readModules(lab(), 'm1')).stdout.split('\n')).toContain(release());
        expect((await readModules(lab(), 'm3')).stderr).toContain('No such file or directory');
      } finally {
        await lab().ask(['delete', '--filename', '-', '--ignore-not-found'], { input: manifest });
      }
      expect(await listHaving()).toEqual([true, true, false]);
    },
    limitMs,
  );
}

/** What the DaemonSet's pod on a node sees of modules. */
async function readModules(lab: NodeLab, node: string): Promise<CommandResult> {
  const pod = (await findPod(lab, node))?.name ?? '';
  return await lab.kubectl(['exec', '--namespace', 'kube-system', pod, '--', 'ls', '/lib/modules/']);
}
