import { readFileSync } from 'node:fs';

/** A Go module that is made only to build commands of another one. */
export interface ComponentModule {
  /** The name of the folder with what was built. */
  readonly label: string;
  /** The module with the commands, and its version with the v. */
  readonly path: string;
  readonly version: string;
  /**
   * The commands' packages by the programs' names. `./own` is the package of the folder `sources`. A name with `.test` at its end is
   * a test program.
   */
  readonly commands: Readonly<Record<string, string>>;
  /** The folder in `tools/lab/sources/` with a package of the lab's own; none when left out. */
  readonly sources?: string;
  readonly linkerFlags: readonly string[];
  /** Whether the module takes its own parts at v0.0.0, for whoever builds it to replace. */
  readonly hasStagingModules: boolean;
}

/** The release of etcd that Kubernetes 1.33 to 1.36 are used with. */
const etcdVersion = 'v3.6.16';

/** etcd's server. */
export const etcdModule: ComponentModule = {
  label: `etcd-${etcdVersion.slice(1)}`,
  path: 'go.etcd.io/etcd/server/v3',
  version: etcdVersion,
  commands: { etcd: 'go.etcd.io/etcd/server/v3' },
  linkerFlags: ['-s', '-w'],
  hasStagingModules: false,
};

/** The newest release of Helm, for the chart. */
const helmVersion = 'v4.3.1';

/** Helm's command. */
export const helmModule: ComponentModule = {
  label: `helm-${helmVersion.slice(1)}`,
  path: 'helm.sh/helm/v4',
  version: helmVersion,
  commands: { helm: 'helm.sh/helm/v4/cmd/helm' },
  linkerFlags: ['-s', '-w'],
  hasStagingModules: false,
};

/** Later releases need a module that not every module proxy has: go.digitalxero.dev/rpm. */
const nfpmVersion = 'v2.45.0';

/** What makes packages for Debian's and Red Hat's kin. */
export const nfpmModule: ComponentModule = {
  label: `nfpm-${nfpmVersion.slice(1)}`,
  path: 'github.com/goreleaser/nfpm/v2',
  version: nfpmVersion,
  commands: { nfpm: 'github.com/goreleaser/nfpm/v2/cmd/nfpm' },
  linkerFlags: ['-s', '-w'],
  hasStagingModules: false,
};

/** The newest release of actionlint. */
const actionlintVersion = 'v1.7.12';

/** What checks the workflows of .github/. */
export const actionlintModule: ComponentModule = {
  label: `actionlint-${actionlintVersion.slice(1)}`,
  path: 'github.com/rhysd/actionlint',
  version: actionlintVersion,
  commands: { actionlint: 'github.com/rhysd/actionlint/cmd/actionlint' },
  linkerFlags: ['-s', '-w'],
  hasStagingModules: false,
};

/** A release of MetalLB: Services in layer 2 mode, for a comparison. Later ones need a module that not every module proxy has: frr-k8s v0.0.27. */
const metallbVersion = 'v0.16.1';

/** MetalLB's program for nodes. */
export const metallbModule: ComponentModule = {
  label: `metallb-${metallbVersion.slice(1)}`,
  path: 'go.universe.tf/metallb',
  version: metallbVersion,
  commands: { speaker: 'go.universe.tf/metallb/speaker' },
  linkerFlags: ['-s', '-w'],
  hasStagingModules: false,
};

/** kube-apiserver and kube-proxy of a release, which say that it is theirs. */
export function kubernetesModule(release: string): ComponentModule {
  return moduleOfRelease(release, 'kubernetes', ['kube-apiserver', 'kube-proxy']);
}

/** What real nodes have on top, of the same release. */
export function nodeModule(release: string): ComponentModule {
  return moduleOfRelease(release, 'kubernetes-nodes', [
    'kube-controller-manager',
    'kube-scheduler',
    'kubectl',
    'kubelet',
  ]);
}

/** What makes a cluster of bare nodes, of the same release. */
export function kubeadmModule(release: string): ComponentModule {
  return moduleOfRelease(release, 'kubeadm', ['kubeadm']);
}

/** Kubernetes' own specs of Services as a test program, and the program of the pods that they start, of the same release. */
export function specsModule(release: string): ComponentModule {
  return {
    ...moduleOfRelease(release, 'kubernetes-specs', []),
    commands: { agnhost: 'k8s.io/kubernetes/test/images/agnhost', 'network.test': './own' },
    sources: 'network-specs',
  };
}

/** The release of CoreDNS that kubeadm 1.36.3 installs. */
const coreDnsVersion = 'v1.14.2';

/** A cluster's DNS. */
export const coreDnsModule: ComponentModule = {
  label: `coredns-${coreDnsVersion.slice(1)}`,
  path: 'github.com/coredns/coredns',
  version: coreDnsVersion,
  commands: { coredns: './own' },
  sources: 'coredns',
  linkerFlags: ['-s', '-w'],
  hasStagingModules: false,
};

function moduleOfRelease(release: string, name: string, commands: readonly string[]): ComponentModule {
  const version = `v${release}`;
  return {
    label: `${name}-${release}`,
    path: 'k8s.io/kubernetes',
    version,
    commands: Object.fromEntries(commands.map((command) => [command, `k8s.io/kubernetes/cmd/${command}`])),
    linkerFlags: ['-s', '-w', '-X', `k8s.io/component-base/version.gitVersion=${version}`],
    hasStagingModules: true,
  };
}

/** What `go mod edit -json` prints of a go.mod, as far as it matters here. */
export interface GoModule {
  readonly Go: string;
  readonly Require: readonly { readonly Path: string; readonly Version: string }[];
}

/**
 * The go.mod to build with. Kubernetes requires its staging modules at v0.0.0 and replaces them by folders of its
 * repository, which is not in the module; their releases have the number v0.MINOR.PATCH.
 */
export function renderGoMod(
  { path, version, hasStagingModules }: ComponentModule,
  upstream: GoModule,
): string {
  const staged = upstream.Require.filter(({ Version }) => Version === 'v0.0.0').map(({ Path }) => Path);
  const released = version.replace(/^v1\./, 'v0.');
  return [
    'module vipnat/lab',
    `go ${upstream.Go}`,
    `require ${path} ${version}`,
    ...(hasStagingModules ? staged.map((name) => `replace ${name} => ${name} ${released}`) : []),
    '',
  ].join('\n');
}

/** A file that makes the commands' packages part of the module. */
export function renderTools({ commands }: ComponentModule): string {
  const imports = Object.values(commands)
    .filter((name) => !name.startsWith('./'))
    .map((name) => `import _ "${name}"`);
  return ['//go:build tools', 'package lab', ...imports, ''].join('\n');
}

/** The locked checksums of a release that is built regularly; null for any other, which the checksum database vouches for. */
export function readLockedSums({ label }: ComponentModule): string | null {
  try {
    return readFileSync(new URL(`${label}.sum`, import.meta.url), 'utf8');
  } catch {
    return null;
  }
}
