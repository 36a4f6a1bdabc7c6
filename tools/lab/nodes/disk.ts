import { join } from 'node:path';
import type { LabOptions } from '../settings/options.ts';
import { type Snapshotter, pauseImage } from './images.ts';
import { type NodeHost, isMaster } from './hosts.ts';
import { mkdirSync, writeFileSync, copyFileSync } from 'node:fs';
import { stringify } from 'yaml';
import type { Family } from '../../../lib/net.ts';
import { type KeyPair, locateCertificates } from '../certificates/certificates.ts';
import { toUrlHost } from '../components/command.ts';
import { apiserverPort, vips, serviceNetworks } from '../../../test/support/network/layout.ts';
import { writeKubeconfig } from '../certificates/kubeconfig.ts';

/** Where kubeadm has a node's certificates. */
export const pkiFolder = '/etc/kubernetes/pki';

/** Where a kubelet looks for its static pods. */
export const manifestFolder = '/etc/kubernetes/manifests';

/** The folder on this machine that a node has as its disk: it outlives a loss of power. */
export function locateDisk(labFolder: string, node: string): string {
  return join(labFolder, node, 'disk');
}

/** What a node's files follow from. */
export interface DiskNeeds {
  readonly labFolder: string;
  readonly options: LabOptions;
  readonly snapshotter: Snapshotter;
  /** Static pods by their names, as the kubelet shall find them. */
  readonly manifests: Readonly<Record<string, string>>;
}

/** Writes what a node has in /etc, as kubeadm and whoever installs containerd leave it. */
export function writeDisk(node: NodeHost, { labFolder, options, snapshotter, manifests }: DiskNeeds): void {
  const locate = (path: string) => join(locateDisk(labFolder, node.name), path);
  for (const folder of [pkiFolder, manifestFolder, '/etc/containerd', '/etc/cni/net.d', '/var/lib/etcd']) {
    mkdirSync(locate(folder), { recursive: true });
  }
  writeFileSync(locate('/etc/containerd/node.toml'), renderContainerd(snapshotter));
  writeFileSync(
    locate('/etc/cni/net.d/10-lab.conflist'),
    JSON.stringify(renderPodNetwork(node, options), null, 2),
  );
  writeFileSync(locate('/etc/kubernetes/kubelet.yaml'), stringify(renderKubelet(node, options)));
  copyCertificates(node, labFolder, locate(pkiFolder));
  writeKubeconfigs(node, options.family, locate);
  for (const [name, manifest] of Object.entries(manifests)) {
    writeFileSync(locate(join(manifestFolder, `${name}.yaml`)), manifest);
  }
}

/** Of the certificates of a lab, those that a node has: a worker neither the apiservers' nor the administrator's. */
function copyCertificates(node: NodeHost, from: string, to: string): void {
  const pairs = ['kubelet', ...(isMaster(node) ? [node.name, 'admin', ...controllers] : [])];
  const files = pairs.flatMap((pair) => [`${pair}.crt`, `${pair}.key`]);
  const own = (file: string) => file.replace(/^kubelet\b/, kubeletPair(node.name));
  for (const file of ['ca.crt', ...files]) copyFileSync(join(from, own(file)), join(to, file));
  if (isMaster(node)) copyFileSync(join(from, 'service-account.key'), join(to, 'service-account.key'));
}

/** Where containerd looks, with each pull, for the servers of a registry. There are none by default. */
export const registriesFolder = '/etc/containerd/certs.d';

/** The name of a kubelet's certificate among those of a lab. */
export function kubeletPair(node: string): string {
  return `kubelet-${node}`;
}

/** The controllers, by their files: both hold leases. */
export const controllers = ['controller-manager', 'scheduler'] as const;

function writeKubeconfigs(node: NodeHost, family: Family, locate: (path: string) => string): void {
  const write = (file: string, address: string, user: string, pair: KeyPair) => {
    const server = `https://${toUrlHost(address)}:${apiserverPort}`;
    writeKubeconfig(locate(`/etc/kubernetes/${file}.conf`), { server, authority, user, pair });
  };
  const certificates = locateCertificates(pkiFolder);
  const { authority } = certificates;
  write('kubelet', vips[family], `system:node:${node.name}`, certificates.serving('kubelet'));
  if (!isMaster(node)) return;
  write('admin', vips[family], 'admin', certificates.admin);
  for (const name of controllers)
    write(name, chooseServer(name, node, family), `system:kube-${name}`, certificates.serving(name));
}

/**
 * kubeadm since 1.19 has both controllers ask the apiserver beside them, and others have both ask at the VIP. Here is one of
 * each: the controller-manager's lease hangs on the VIP.
 */
function chooseServer(controller: (typeof controllers)[number], node: NodeHost, family: Family): string {
  return controller === 'controller-manager' ? vips[family] : node.addresses[family];
}

/** The configuration of Debian's containerd. Without the capability SYS_RESOURCE nobody may lower an oom_score_adj. */
export function renderContainerd(snapshotter: Snapshotter): string {
  return `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${pauseImage}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  disable_hugetlb_controller = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "${registriesFolder}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "${snapshotter}"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
`;
}

/** What a CNI would write: the node's pods have a bridge of their own. */
export function renderPodNetwork({ pods }: NodeHost, { family }: LabOptions): object {
  const subnet = family === 'ipv4' ? `${pods.ipv4}.0/24` : `${pods.ipv6}:/64`;
  const ipam = { type: 'host-local', ranges: [[{ subnet }]], dataDir: '/run/cni-addresses' };
  const bridge = { type: 'bridge', bridge: 'cni0', isDefaultGateway: true, hairpinMode: true, ipam };
  return { cniVersion: '1.0.0', name: 'lab', plugins: [bridge] };
}

/** What a kubelet is told because its node is namespaces of a machine, without a registry. */
export const limitsOfNodes = {
  cgroupDriver: 'cgroupfs',
  // 1.35 and later refuse control groups of version 1 unless told otherwise.
  failCgroupV1: false,
  failSwapOn: false,
  // See the capability above.
  oomScoreAdj: 0,
  // Every image is there, and none comes back once it is removed.
  imageGCHighThresholdPercent: 100,
  imageGCLowThresholdPercent: 99,
  evictionHard: { 'memory.available': '100Mi', 'nodefs.available': '1%', 'imagefs.available': '1%' },
} as const;

function renderKubelet(node: NodeHost, { family }: LabOptions): object {
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    address: node.addresses[family],
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: join(pkiFolder, 'ca.crt') },
    },
    authorization: { mode: 'Webhook' },
    tlsCertFile: join(pkiFolder, 'kubelet.crt'),
    tlsPrivateKeyFile: join(pkiFolder, 'kubelet.key'),
    containerRuntimeEndpoint: 'unix:///run/containerd/containerd.sock',
    staticPodPath: manifestFolder,
    ...limitsOfNodes,
    clusterDomain: 'cluster.local',
    clusterDNS: [clusterDnsAddress(family)],
    ...(isMaster(node) ? { registerWithTaints: [controlPlaneTaint] } : {}),
  };
}

/** The ClusterIP of a cluster's DNS, as kubeadm chooses it. Usual labs have none. */
export function clusterDnsAddress(family: Family): string {
  return serviceNetworks[family].replace(/0\/\d+$|(?<=::)\/\d+$/, '10');
}

/** As kubeadm has it: what does not tolerate it goes to workers. */
const controlPlaneTaint = { key: 'node-role.kubernetes.io/control-plane', effect: 'NoSchedule' };
