import type { NodeHost } from '../nodes/hosts.ts';
import {
  type DiskNeeds,
  locateDisk,
  renderContainerd,
  renderPodNetwork,
  limitsOfNodes,
} from '../nodes/disk.ts';
import { mkdirSync, writeFileSync, cpSync, symlinkSync, chmodSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { stringify } from 'yaml';
import { writeUnits } from '../nodes/units.ts';
import { locateNodeComponents, locateKubeadm } from '../build/build.ts';

/** Where a bare node has the pod network, until somebody installs it by copying this file to /etc/cni/net.d. */
export const podNetworkFile = '/etc/lab/10-lab.conflist';

/** Where the lab's kubelets look for what these nodes need beside kubeadm's configuration. */
const kubeletFolder = '/etc/lab/kubelet';

/**
 * Writes what a node has before there is a cluster: containerd, and kubeadm's packages as they come. The packages of this
 * machine are installed there too.
 */
export function writeBareDisk(
  node: NodeHost,
  { labFolder, options, snapshotter }: Omit<DiskNeeds, 'manifests'>,
): void {
  const disk = locateDisk(labFolder, node.name);
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(disk, path)), { recursive: true });
    writeFileSync(join(disk, path), text);
  };
  write('/etc/hostname', `${node.name}\n`);
  // Nobody answers at once, in place of nobody after a while.
  write('/etc/resolv.conf', 'nameserver 127.0.0.1\n');
  write('/etc/containerd/config.toml', renderContainerd(snapshotter));
  write(podNetworkFile, JSON.stringify(renderPodNetwork(node, options), null, 2));
  write('/etc/default/kubelet', `KUBELET_EXTRA_ARGS=--config-dir=${kubeletFolder}\n`);
  write(`${kubeletFolder}/node.conf`, stringify(renderKubeletPart()));
  writePrograms(options.kubernetes, disk);
  writeUnits(disk, join(labFolder, node.name), {
    packaged: ['containerd.service', 'keepalived.service'],
    own: { 'kubelet.service': kubeletUnit, 'kubelet.service.d/10-kubeadm.conf': kubeletDropIn },
    enabled: ['containerd.service', 'kubelet.service'],
  });
  cpSync('/var/lib/dpkg', join(disk, '/var/lib/dpkg'), { recursive: true });
}

/** kubelet, kubectl and kubeadm as their packages bring them. */
function writePrograms(release: string, disk: string): void {
  const { kubelet, kubectl } = locateNodeComponents(release);
  const folder = join(disk, '/usr/bin');
  mkdirSync(folder, { recursive: true });
  for (const [name, program] of Object.entries({ kubelet, kubectl }))
    symlinkSync(program, join(folder, name));
  const wrapper = join(folder, 'kubeadm');
  writeFileSync(wrapper, renderKubeadm(locateKubeadm(release)));
  chmodSync(wrapper, 0o755);
}

/** kubeadm refuses control groups of version 1 unless told otherwise, and there is no registry to have CoreDNS from. */
function renderKubeadm(program: string): string {
  return `#!/bin/sh
case $1 in
init) set -- "$@" --ignore-preflight-errors=SystemVerification,ImagePull --skip-phases=addon/coredns ;;
join) set -- "$@" --ignore-preflight-errors=SystemVerification,ImagePull ;;
esac
exec ${program} "$@"
`;
}

function renderKubeletPart(): object {
  return { apiVersion: 'kubelet.config.k8s.io/v1beta1', kind: 'KubeletConfiguration', ...limitsOfNodes };
}

/** The kubelet's as kubeadm's package has it. */
const kubeletUnit = `[Unit]
Description=kubelet: The Kubernetes Node Agent
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
`;

/** An ExecStart= that is empty takes back the one above. */
const kubeletDropIn = `[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`;
