import { toManifest } from './objects.ts';
import { toPodSpec } from './pod.ts';
import { type ManifestRequest } from './request.ts';
import { type Manifest, nestComments, type Part } from './yaml.ts';

/** The value of the class system-node-critical. For a file the kubelet does not look it up; kubeadm writes it out too. */
const systemNodeCritical = 2_000_001_000;

/** vipnat as a pod for the kubelet's folder of manifests: it needs no API, and has no credentials for it. */
export function toStaticPodManifest(request: ManifestRequest): Manifest {
  return toStaticPod('vipnat', request.options.namespace, toPodSpec(request, 'static-pod'));
}

/** A pod for the kubelet's folder of manifests, of a spec that says nothing of priority and credentials. */
export function toStaticPod(name: string, namespace: string, pod: Part): Manifest {
  const spec = { automountServiceAccountToken: false, priority: systemNodeCritical, ...pod.value };
  const head = { apiVersion: 'v1', kind: 'Pod', name, namespace };
  return toManifest(head, { spec }, nestComments(['spec'], pod.comments));
}
