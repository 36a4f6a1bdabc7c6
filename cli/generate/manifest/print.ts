import { toDaemonSetManifests } from './daemonset.ts';
import { toKeepalivedManifest } from './keepalived-pod.ts';
import { formatHostFiles } from './host-files.ts';
import { type ManifestKind } from './options.ts';
import { type ManifestRequest, toCommandLine } from './request.ts';
import { toServicesManifests } from './services.ts';
import { toStaticPodManifest } from './static-pod.ts';
import { toSystemdFiles } from './systemd.ts';
import { formatManifests, type Manifest } from './yaml.ts';

interface Printer {
  /** At least one. */
  readonly make: (request: ManifestRequest) => readonly Manifest[];
  /** What to do with it, in a line. */
  readonly use: string;
}

const kindToPrinter: Readonly<Record<Exclude<ManifestKind, 'systemd'>, Printer>> = {
  daemonset: {
    make: toDaemonSetManifests,
    use: 'Apply this file with kubectl apply -f. The nodes must be able to pull the image.',
  },
  'static-pod': {
    make: (request) => [toStaticPodManifest(request)],
    use: 'Copy this file to /etc/kubernetes/manifests on each control-plane node. The node must be able to pull the image.',
  },
  keepalived: {
    make: (request) => [toKeepalivedManifest(request)],
    use: `Copy this file to /etc/kubernetes/manifests on each control-plane node. Load both images first: a node may need the VIP
to pull them.`,
  },
  services: {
    make: toServicesManifests,
    use: 'Apply this file with kubectl apply -f.',
  },
};

/** A manifest as YAML, ready to be applied: its first line is the command that prints it. That of systemd as formatHostFiles has it. */
export function printManifest(request: ManifestRequest): string {
  const { kind } = request.options;
  if (kind === 'systemd') return formatHostFiles(toSystemdFiles(request));
  const { make, use } = kindToPrinter[kind];
  const [first, ...rest] = make(request) as [Manifest, ...Manifest[]];
  const head = { path: [], text: `${toCommandLine(request)}\n${use}` };
  return formatManifests([{ ...first, comments: [head, ...first.comments] }, ...rest]);
}
