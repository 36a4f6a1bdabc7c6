import { type NodeLab } from '../../../../lab/nodes/node-lab.ts';
import { pauseImage } from '../../../../lab/nodes/images.ts';
import { runShell } from '../../../../lab/machines/machine.ts';

/**
 * Runs a pod on a node. Its network namespace is called `pod` there, as in other labs, so that `Lab.seat` finds it at
 * `pod-NODE`.
 */
export async function runPod(lab: NodeLab, node: string): Promise<void> {
  const name = `pod-${node}`;
  await lab.apply({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'default' },
    spec: {
      nodeName: node,
      terminationGracePeriodSeconds: 0,
      containers: [{ name: 'pause', image: pauseImage, imagePullPolicy: 'IfNotPresent' }],
    },
  });
  await lab.ask(['wait', 'pod', name, '--for=condition=Ready', '--timeout=60s']);
  const address = await lab.ask(['get', 'pod', name, '--output', 'jsonpath={.status.podIP}']);
  await runShell(
    lab.machine(node),
    `cd /run/netns
    for namespace in cni-*; do
      if ip netns exec "$namespace" ip -o addr show | grep -q ' ${address}/'; then ln -sfn "$namespace" pod; fi
    done
    test -e pod`,
  );
}
