import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { runShell } from '../../../../tools/lab/machines/machine.ts';
import { manifestFolder } from '../../../../tools/lab/nodes/disk.ts';
import { waitUntil } from '../../../../tools/lab/nodes/ready.ts';

/** Takes a static pod off a master, as docs/operate.md says. */
export async function takeStaticPod(lab: NodeLab, master: string, name: string): Promise<void> {
  await runShell(lab.machine(master), `mv ${manifestFolder}/${name}.yaml /etc/kubernetes/${name}.away`);
}

export async function putStaticPod(lab: NodeLab, master: string, name: string): Promise<void> {
  await runShell(lab.machine(master), `mv /etc/kubernetes/${name}.away ${manifestFolder}/${name}.yaml`);
}

/**
 * Waits until a static pod's program runs on a master, or until it has ended: what the API shows of such a pod says neither. The
 * kubelet starts a pod of the same name only after the end of the one before.
 */
export async function waitForProgram(
  lab: NodeLab,
  master: string,
  program: string,
  shallRun: boolean,
): Promise<void> {
  await waitUntil(`${program} on ${master} ${shallRun ? 'runs' : 'has ended'}`, async () => {
    const { exitCode } = await lab.machine(master).run(['pgrep', '--exact', program]);
    return (exitCode === 0) === shallRun ? null : 'not yet';
  });
}
