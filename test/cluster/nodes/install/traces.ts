import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { runShell } from '../../../../tools/lab/machines/machine.ts';
import { waitUntil } from '../../../../tools/lab/nodes/ready.ts';
import type { Administrator } from './administrator.ts';
import { expect } from '@jest/globals';
import { readCommand } from '../../../support/documents/typing.ts';

/** Rules and chains of both backends, local routes by vipnat's number for routing protocols, and what is named vipnat among files. */
const listOnNode = `
{ iptables-nft-save; ip6tables-nft-save; iptables-legacy-save; ip6tables-legacy-save; nft list ruleset; } 2>/dev/null |
  grep -i vipnat | grep -v '^#' || true
ip -o route show table local proto 118
find /etc /run /var/lib -xdev \\( -path /var/lib/containerd -o -path /var/lib/kubelet -o -path /run/administrator \\) -prune \\
  -o -iname '*vipnat*' ! -name '*.away' -print`;

/** All of vipnat's that a master has of rules, routes and files. */
async function listTraces(lab: NodeLab, master: string): Promise<string[]> {
  return (await runShell(lab.machine(master), listOnNode)).split('\n').filter((line) => line !== '');
}

const kinds = [
  ...['daemonsets', 'pods', 'controllerrevisions', 'configmaps', 'serviceaccounts', 'roles', 'rolebindings'],
];

/** Waits until no object of vipnat's is left in kube-system: some go a moment after what they belong to. */
async function waitForNoObjects(lab: NodeLab): Promise<void> {
  await waitUntil('no object of vipnat is in kube-system', async () => {
    const names = await lab.ask(['get', kinds.join(','), '--namespace', 'kube-system', '--output', 'name']);
    const own = names.split('\n').filter((name) => name.includes('vipnat'));
    return own.length === 0 ? null : own.join(', ');
  });
}

/**
 * Removes the folders that docs/install.md names, and fails unless a cluster then has nothing of vipnat's any more: no object, and on
 * no master a rule, a route or a file.
 */
export async function expectNoTraces(lab: NodeLab, administrators: readonly Administrator[]): Promise<void> {
  await waitForNoObjects(lab);
  for (const administrator of administrators) {
    await removeFolders(administrator);
    expect(await listTraces(lab, administrator.master)).toEqual([]);
  }
}

/** Takes away, as docs/install.md says, what removing an agent leaves on a master. */
export async function removeFolders({ shell }: Administrator): Promise<void> {
  await shell(readCommand('docs/install.md', 'rm -r /var/lib/vipnat'));
}
