import { toDaemonSetManifests } from './daemonset.ts';
import { toKeepalivedManifest } from './keepalived-pod.ts';
import { type ManifestKind } from './options.ts';
import { type ManifestRequest, toCommandLine } from './request.ts';
import { toStaticPodManifest } from './static-pod.ts';
import { formatManifests, type Manifest } from './yaml.ts';

interface Printer {
  /** At least one. */
  readonly make: (request: ManifestRequest) => readonly Manifest[];
  /** What to do with it, in a line. */
  readonly use: string;
}

const kindToPrinter: Readonly<Record<ManifestKind, Printer>> = {
  daemonset: {
    make: toDaemonSetManifests,
    use: 'For kubectl apply -f. The nodes have to be able to pull the image.',
  },
  'static-pod': {
    make: (request) => [toStaticPodManifest(request)],
    use: 'For /etc/kubernetes/manifests on each control-plane node, which has to be able to pull the image.',
  },
  keepalived: {
    make: (request) => [toKeepalivedManifest(request)],
    use: `For /etc/kubernetes/manifests on each control-plane node. Have both images there first: the VIP may be what they
are pulled through.`,
  },
};

/** A manifest as YAML, ready to be applied. Its first line is the command that prints it. */
export function printManifest(request: ManifestRequest): string {
  const { make, use } = kindToPrinter[request.options.kind];
  const [first, ...rest] = make(request) as [Manifest, ...Manifest[]];
  const head = { path: [], text: `${toCommandLine(request)}\n${use}` };
  return formatManifests([{ ...first, comments: [head, ...first.comments] }, ...rest]);
}
