import type { Lab } from '../../lab/control-plane/lab.ts';
import { runShell } from '../../lab/machines/machine.ts';

/** The ConfigMap that `prepareClient` makes. */
export const watched = 'watched';

/** What is watched; and ports for other programs than the one that takes one after the other. Once for each lab. */
export async function prepareClient(lab: Lab): Promise<void> {
  await lab.api.create('/api/v1/namespaces/default/configmaps', {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: watched },
  });
  await runShell(lab.machine('client'), 'echo 61000 65535 > /proc/sys/net/ipv4/ip_local_port_range');
}
