import { type Config } from '../../../config/config.ts';

/** Something of the host that the container sees. */
export interface HostVolume {
  readonly name: string;
  readonly path: string;
  /** Where it is in the container; at the same path unless given. */
  readonly mountPath?: string;
  /** What kubelet makes sure of before the container starts. */
  readonly type: 'File' | 'FileOrCreate' | 'Directory' | 'DirectoryOrCreate';
  readonly isReadOnly: boolean;
  /** What it is for, in a line for the manifest. */
  readonly purpose: string;
}

/**
 * What of the host the agent needs, each path once. The agent's own socket is not among it: it is abstract, so it belongs to
 * the host's network.
 */
export function findVolumes(
  { stateDir, runDir, caFile, kubeconfig }: Config,
  isPrivileged: boolean,
): HostVolume[] {
  const volumes: HostVolume[] = [
    lock,
    ...(isPrivileged ? [modules] : []),
    toFolderVolume('state', stateDir, 'the state file: the last known apiservers, for the next start'),
    toFolderVolume('run', runDir, 'the track file: whether this node can serve the VIP'),
  ];
  if (caFile !== null) volumes.push(toFileVolume('ca-file', caFile, "the cluster's CA"));
  if (kubeconfig !== null) {
    volumes.push(
      toFileVolume('kubeconfig', kubeconfig, 'credentials; the pod does not mount the files that they name'),
    );
  }
  return [...new Map(volumes.toReversed().map((volume) => [volume.path, volume])).values()].toReversed();
}

/** What a container needs, beside `NET_RAW`, to look at iptables-legacy. */
export const lock: HostVolume = {
  name: 'xtables-lock',
  path: '/run/xtables.lock',
  type: 'FileOrCreate',
  isReadOnly: false,
  purpose: "iptables-legacy's lock, which all its processes on the host share",
};

/**
 * Only who has CAP_SYS_MODULE can load one. A node whose kernel has everything built in may have no /lib/modules: as `Directory` that
 * would keep the pod from starting, and any other type has the kubelet or the runtime make it on the node. Every node has
 * /lib. In the image /lib/modules is a link to what is in it.
 */
const modules: HostVolume = {
  name: 'modules',
  path: '/lib',
  mountPath: '/host/lib',
  type: 'Directory',
  isReadOnly: true,
  purpose: 'iptables-legacy loads missing kernel modules from /lib/modules',
};

/** `volumes` of a pod's spec. */
export function toPodVolumes(volumes: readonly HostVolume[]): object[] {
  return volumes.map(({ name, path, type }) => ({ name, hostPath: { path, type } }));
}

/** `volumeMounts` of a container. */
export function toVolumeMounts(volumes: readonly HostVolume[]): object[] {
  return volumes.map(({ name, path, mountPath = path, isReadOnly }) => ({
    name,
    mountPath,
    ...(isReadOnly ? { readOnly: true } : {}),
  }));
}

/** A folder of the host, which the kubelet makes where it is missing. */
export function toFolderVolume(name: string, path: string, purpose: string): HostVolume {
  return { name, path: path.replace(/\/$/, ''), type: 'DirectoryOrCreate', isReadOnly: false, purpose };
}

function toFileVolume(name: string, path: string, purpose: string): HostVolume {
  return { name, path, type: 'File', isReadOnly: true, purpose };
}
