import type { NodeLab } from '../../../../tools/lab/nodes/node-lab.ts';
import { pauseImage } from '../../../../tools/lab/nodes/images.ts';
import { runShell } from '../../../../tools/lab/machines/machine.ts';

/**
 * Runs a pod on a node. Its network namespace is called `pod` there, as in other labs, so that `Lab.seat` finds it at
 * `pod-NODE`.
 */
export async function runPod(lab: NodeLab, node: string): Promise<void> {
  const name = `pod-${node}`;
  const containers = [{ name: 'pause', image: pauseImage, imagePullPolicy: 'IfNotPresent' }];
  await lab.apply({
    ...{ apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: 'default' } },
    spec: { nodeName: node, terminationGracePeriodSeconds: 0, containers },
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

/** Runs a node's pod anew after the node was off, where there was one: its namespace has gone, and a shutdown has ended it for good. */
export async function runPodAgain(lab: NodeLab, node: string): Promise<void> {
  const words = ['delete', 'pod', `pod-${node}`, '--ignore-not-found', '--grace-period=0', '--force'];
  if ((await lab.ask(words)) !== '') await runPod(lab, node);
}
