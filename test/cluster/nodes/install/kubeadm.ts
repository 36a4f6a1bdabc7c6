import type { Administrator } from './administrator.ts';
import { podNetworkFile } from '../../../../tools/lab/bare-nodes/disk.ts';

/** Installs the lab's pod network, on every node at once. */
export async function installPodNetwork(administrators: readonly Administrator[]): Promise<void> {
  await Promise.all(administrators.map(({ shell }) => shell(`cp ${podNetworkFile} /etc/cni/net.d/`)));
}

/** The size of the connection table belongs to the machine, not to a namespace: kube-proxy is told to leave it. */
export async function spareConnectionTable({ shell }: Administrator): Promise<void> {
  await shell(`kubectl -n kube-system get configmap kube-proxy -o yaml |
  sed 's/\\bmaxPerCore: null/maxPerCore: 0/; s/\\bmin: null/min: 0/' | kubectl replace -f -
kubectl -n kube-system rollout restart daemonset kube-proxy`);
}

/** The addresses of the cluster's nodes by their names, of those that are ready. */
export async function listReadyNodes({ shell }: Administrator): Promise<Record<string, string>> {
  const path =
    '{range .items[*]}{.metadata.name} {.status.addresses[?(@.type=="InternalIP")].address} {.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}';
  const lines = (await shell(`kubectl get nodes -o jsonpath='${path}'`)).trim().split('\n');
  const ready = lines.map((line) => line.split(' ')).filter(([, , isReady]) => isReady === 'True');
  return Object.fromEntries(ready.map(([name = '', address = '']) => [name, address]));
}

/**
 * A page's command for others to join, with the values of the one that `kubeadm init` printed.
 * @throws Error when that is another command.
 */
export function fillJoin(line: string, printed: string): string {
  const [join = ''] =
    /kubeadm join .*--control-plane[^\n]*/s.exec(printed.replaceAll(/\s*\\\s+/g, ' ')) ?? [];
  const [given, filled] = [join, line].map((text) => text.trim().split(/\s+/));
  const words = filled?.map((word, index) => (/^[A-Z]+$/.test(word) ? (given?.[index] ?? '') : word)) ?? [];
  if (words.join(' ') !== given?.join(' ')) throw new Error(`kubeadm init printed another command: ${join}`);
  return words.join(' ');
}
