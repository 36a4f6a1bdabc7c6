import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { waitUntil } from '../../../../tools/lab/nodes/ready.ts';

/** keepalived's backups wait for less than four adverts of a second, and may all begin at the same time. */
const quietMs = 6000;

/** A leader renews every two seconds; one that was cut off keeps its Lease for 15. */
const freshMs = 5000;

/** Waits until keepalived and the controller-managers have agreed: for a while one master has the VIP, and one of them leads. */
export async function waitForQuiet(lab: NodeLab): Promise<void> {
  let before = '';
  let since = performance.now();
  await waitUntil('the VIP and the leader stay where they are', async () => {
    const holders = await lab.listHolders();
    const leader = await findLeader(lab);
    const now = `the VIP on ${holders.join(', ') || 'no master'}, leader ${leader ?? 'not known'}`;
    if (now !== before || holders.length !== 1 || leader === null) since = performance.now();
    before = now;
    return performance.now() - since < quietMs ? now : null;
  });
}

/** The controller-manager that leads; null when none has renewed its Lease lately. */
async function findLeader(lab: NodeLab): Promise<string | null> {
  const words = ['get', 'lease', 'kube-controller-manager', '--namespace', 'kube-system'];
  const path = 'jsonpath={.spec.holderIdentity} {.spec.renewTime}';
  const { exitCode, stdout } = await lab.kubectl([...words, '--output', path, '--request-timeout=2s']);
  const [holder = '', renewed = ''] = stdout.split(' ');
  const isFresh = Date.now() - Date.parse(renewed) < freshMs;
  return exitCode === 0 && isFresh ? holder : null;
}
