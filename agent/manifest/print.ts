import { toDaemonSetManifests } from './daemonset.ts';
import { type ManifestRequest, toCommandLine } from './request.ts';
import { toStaticPodManifest } from './static-pod.ts';
import { formatManifests, type Manifest } from './yaml.ts';

/** A manifest as YAML, ready to be applied. Its first line is the command that prints it. */
export function printManifest(request: ManifestRequest): string {
  const isDaemonSet = request.options.kind === 'daemonset';
  const manifests = isDaemonSet ? toDaemonSetManifests(request) : [toStaticPodManifest(request)];
  const [first, ...rest] = manifests as [Manifest, ...Manifest[]];
  const use = isDaemonSet
    ? 'For kubectl apply -f. The nodes have to be able to pull the image.'
    : 'For /etc/kubernetes/manifests on each control-plane node, which has to be able to pull the image.';
  const head = { path: [], text: `${toCommandLine(request)}\n${use}` };
  return formatManifests([{ ...first, comments: [head, ...first.comments] }, ...rest]);
}
