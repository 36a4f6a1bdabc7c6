import { toPodSpec } from './pod.ts';
import { type ManifestRequest } from './request.ts';
import { type Manifest } from './yaml.ts';

/** The value of the class system-node-critical. For a file the kubelet does not look it up; kubeadm writes it out too. */
const systemNodeCritical = 2_000_001_000;

/** A pod for the kubelet's folder of manifests: it needs no API, and has no credentials for it. */
export function toStaticPodManifest(request: ManifestRequest): Manifest {
  const pod = toPodSpec(request);
  return {
    object: {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name: 'vipnat',
        namespace: request.options.namespace,
        labels: { 'app.kubernetes.io/name': 'vipnat' },
      },
      spec: { automountServiceAccountToken: false, priority: systemNodeCritical, ...pod.value },
    },
    comments: pod.comments.map(({ path, text }) => ({ path: ['spec', ...path], text })),
  };
}
