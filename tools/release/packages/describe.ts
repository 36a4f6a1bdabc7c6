import { type PackagedFile, type Packager, formatMaintainer } from './contents.ts';
import { type Release, type Architecture, readRepository } from '../settings/release.ts';

/** What nfpm is told of a package: a file as it lies on this machine, by each path, and the scripts by their names. */
export interface PackageParts {
  readonly files: readonly (PackagedFile & { readonly source: string })[];
  readonly scripts: Readonly<Record<'postinstall' | 'preremove' | 'postremove', string | undefined>>;
}

/**
 * Names of the packages with what vipnat starts. Node.js itself takes the C++ library. apt and dnf install what is recommended, and Debian
 * starts a service that it installs: keepalived is suggested, as a host may have one in a pod.
 */
const packagerToRelations = {
  deb: {
    depends: ['libc6 (>= 2.28)', 'libstdc++6', 'iptables | nftables', 'inotify-tools'],
    recommends: ['nftables', 'kmod'],
    suggests: ['keepalived', 'tcpdump', 'bash-completion'],
  },
  rpm: {
    depends: ['glibc >= 2.28', 'libstdc++', 'iptables'],
    // Red Hat has the first in EPEL only.
    recommends: ['inotify-tools', 'nftables', 'kmod'],
    suggests: ['keepalived', 'tcpdump', 'bash-completion'],
  },
} as const satisfies Record<Packager, object>;

/** What nfpm makes a package of. */
export function describePackage(
  release: Release,
  architecture: Architecture,
  packager: Packager,
  { files, scripts }: PackageParts,
): object {
  const homepage = readRepository();
  return {
    name: 'vipnat',
    arch: architecture,
    platform: 'linux',
    version: release.version,
    release: '1',
    maintainer: formatMaintainer(release),
    license: 'Apache-2.0',
    section: 'net',
    priority: 'optional',
    description,
    ...(homepage !== null && { homepage }),
    ...packagerToRelations[packager],
    contents: [...files.map(describeFile), ...ownFolders.map((dst) => ({ dst, type: 'dir' }))],
    scripts,
    // One name for whoever builds it: rpm would have this machine's. xz: dpkg of Debian 11 does not know zstd.
    rpm: { buildhost: 'localhost', compression: 'zstd', summary: description.split('\n', 1)[0] },
    deb: { compression: 'xz' },
  };
}

/** What nobody else brings: rpm leaves a folder that no package owns. */
const ownFolders = ['/etc/vipnat', '/usr/lib/systemd/system/keepalived.service.d', '/usr/share/doc/vipnat'];

function describeFile({ path, source, isConfiguration }: PackageParts['files'][number]): object {
  return {
    src: source,
    dst: path,
    ...(isConfiguration && { type: 'config|noreplace' }),
    file_info: { mode: path.startsWith('/usr/bin/') ? 0o755 : 0o644, owner: 'root', group: 'root' },
  };
}

const description = `balances a Kubernetes control plane's virtual IP in the kernel
vipnat runs beside keepalived on each control-plane node. netfilter sends each new
connection to the virtual IP to one of the apiservers. vipnat keeps these rules
right, follows kube-proxy, and takes out an apiserver that dies.`;
