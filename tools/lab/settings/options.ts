import type { Family } from '../../../lib/net.ts';
import { LabError } from './error.ts';

/** What kube-proxy can be told to run in. */
export type KubeProxyMode = 'iptables' | 'ipvs' | 'nftables';

/** What kind of control plane a lab is. */
export interface LabOptions {
  /** Labs of different names are up side by side. */
  readonly name: string;
  /** kube-proxy's mode; with `none` there is no kube-proxy, and nobody answers at a ClusterIP. */
  readonly proxyMode: KubeProxyMode | 'none';
  /** The backend that kube-proxy writes to, on every node; `nft` where there is none. */
  readonly iptables: 'nft' | 'legacy';
  /** A Kubernetes release, without the v. */
  readonly kubernetes: string;
  /** The cluster's only family: addresses of nodes, pods, Services and the VIP. */
  readonly family: Family;
  /** Whether nodes, pods and Services have addresses of both families, `family` the first. Not when left out. Only small clusters have it. */
  readonly isDualStack?: boolean;
  /** Whether nodes are real: containerd and a kubelet on each, the control plane in static pods. Not when left out. */
  readonly hasNodes?: boolean;
  /** Whether real nodes have no cluster yet: the masters alone, with systemd, containerd and kubeadm. Not when left out. */
  readonly isBare?: boolean;
  /** For how long an apiserver says that it goes before it does (`--shutdown-delay-duration`). When left out: 5 on real nodes, else 0, its own default. */
  readonly shutdownDelaySeconds?: number;
  /**
   * What `vipnat run` is given on every master beside the VIP and the authority. When left out: nothing, but
   * `--endpoints` with all apiservers in a lab without kube-proxy, where no rules name them.
   */
  readonly agentArguments?: readonly string[];
  /** What `vipnat keepalived` is given on every master beside the VIP and the peers; nothing when left out. */
  readonly keepalivedArguments?: readonly string[];
}

/** The families of addresses in a cluster, the first one first. */
export function listFamilies({
  family,
  isDualStack = false,
}: Pick<LabOptions, 'family' | 'isDualStack'>): Family[] {
  return isDualStack ? [family, ...families.filter((other) => other !== family)] : [family];
}

/** The Kubernetes release that is built when nothing else is asked for. */
export const defaultKubernetes = '1.36.3';

/** As they are where nothing else is asked for. */
export const defaultOptions: LabOptions = {
  name: 'lab',
  proxyMode: 'iptables',
  iptables: 'nft',
  kubernetes: defaultKubernetes,
  family: 'ipv4',
};

/** The words of `--proxy-mode`, the default first. */
export const proxyModes = [
  'iptables',
  'ipvs',
  'nftables',
  'none',
] as const satisfies readonly LabOptions['proxyMode'][];

const backends = ['nft', 'legacy'] as const;
const families = ['ipv4', 'ipv6'] as const;

/** Options as typed: a word for each, but for the switch. */
export type GivenOptions = { readonly nodes?: true } & Readonly<Partial<Record<GivenName, string>>>;

type GivenName = 'name' | 'kubernetes' | 'proxyMode' | 'iptables' | 'ipFamily';

/**
 * Options as typed, with the defaults for the others. In ipvs mode the backend is legacy: the kernel of a virtual
 * machine has no NAT in nf_tables. Where there is no kube-proxy, none can be chosen for it.
 * @throws LabError that names the one that is wrong.
 */
export function parseOptions({ nodes, ...given }: GivenOptions): LabOptions {
  const { name = defaultOptions.name, kubernetes = defaultKubernetes } = given;
  if (!/^[a-z0-9][a-z0-9-]{0,39}$/.test(name)) {
    throw new LabError(`--name ${name}: a name has 1 to 40 lower-case letters, digits and dashes`);
  }
  if (!/^1\.\d+\.\d+$/.test(kubernetes)) {
    throw new LabError(
      `--kubernetes ${kubernetes} is no release. Example: --kubernetes ${defaultKubernetes}`,
    );
  }
  const proxyMode = choose('--proxy-mode', given.proxyMode, proxyModes);
  if (nodes === true && proxyMode === 'ipvs') {
    throw new LabError(
      '--proxy-mode ipvs: it needs virtual machines, and real nodes are namespaces of this kernel. Leave out --nodes, or take another mode',
    );
  }
  return {
    name,
    kubernetes,
    proxyMode,
    iptables: chooseBackend(proxyMode, given.iptables),
    family: choose('--ip-family', given.ipFamily, families),
    ...(nodes === true ? { hasNodes: true } : {}),
  };
}

function chooseBackend(
  proxyMode: LabOptions['proxyMode'],
  given: string | undefined,
): LabOptions['iptables'] {
  const isIpvs = proxyMode === 'ipvs';
  if (isIpvs && given === 'nft') {
    throw new LabError(
      '--iptables nft: in ipvs mode nodes are virtual machines, whose kernel has only legacy NAT',
    );
  }
  if (proxyMode === 'none' && given !== undefined) {
    throw new LabError(
      `--iptables ${given}: with --proxy-mode none there is no kube-proxy that would write to it`,
    );
  }
  return isIpvs ? 'legacy' : choose('--iptables', given, backends);
}

/**
 * A word as typed, or the first one when nothing was.
 * @throws LabError that names the option and all words.
 */
export function choose<Word extends string>(
  option: string,
  given: string | undefined,
  words: readonly [Word, ...Word[]],
): Word {
  if (given === undefined) return words[0];
  const word = words.find((candidate) => candidate === given);
  if (word === undefined) throw new LabError(`${option} ${given}: there are ${words.join(', ')}`);
  return word;
}
